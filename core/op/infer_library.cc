// Types of the results of library calls and of operators with their own loops.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/schema.h"

namespace smelt::op_internal {
namespace {

absl::Status MatchInner(Ctx& c, const Expr& a, const Expr& b) {
  if (c.decide.Equal(a, b)) return absl::OkStatus();
  return c.call.Error(
      absl::StrCat("mat1 and mat2 shapes cannot be multiplied (", a.ToString(), " and ", b.ToString(), ")"));
}

absl::Status MatchDTypes(Ctx& c, const TensorType& a, const TensorType& b, absl::string_view names) {
  if (*a.dtype == *b.dtype) return absl::OkStatus();
  return c.call.Error(
      absl::StrCat("expected ", names, " to have the same dtype, but got: ", Name(*a.dtype), " != ", Name(*b.dtype)));
}

// The tensor that is added to a product is expanded to the product's sizes.
absl::Status MatchAdded(Ctx& c, const std::vector<Expr>& product) {
  SMELT_ASSIGN_OR_RETURN(const TensorType self, TensorArgument(c, 0));
  const auto together = view_rules::BroadcastSizes<SymbolicDecide>(c.decide, {*self.sizes, product});
  bool fits = together.ok() && together->size() == product.size();
  for (size_t d = 0; fits && d < product.size(); ++d) fits = c.decide.Equal((*together)[d], product[d]);
  if (fits) return absl::OkStatus();
  const auto format = [](std::string* out, const Expr& e) { absl::StrAppend(out, e.ToString()); };
  return c.call.Error(absl::StrCat("self, of sizes [", absl::StrJoin(*self.sizes, ", ", format),
                                   "], cannot be expanded to the product's, [", absl::StrJoin(product, ", ", format),
                                   "]"));
}

// Returns the dtype of the factors, or the requested one.
absl::StatusOr<DType> ProductDType(Ctx& c, DType factors) {
  const DType out = c.call.GetDType("out_dtype").value_or(factors);
  const bool wider = out == DType::kFloat32 && (factors == DType::kBFloat16 || factors == DType::kFloat16);
  if (out != factors && !wider)
    return c.call.Error(absl::StrCat("out_dtype must be the factors' dtype or, of halves, Float; got ", Name(out)));
  return out;
}

absl::Status Mm(Ctx& c) {
  const int i = absl::StartsWith(c.call.op().name(), "aten::add") ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 2 || b.rank() != 2) return c.call.Error("mat1 and mat2 must be matrices");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[1], (*b.sizes)[0]));
  SMELT_RETURN_IF_ERROR(MatchDTypes(c, a, b, "m1 and m2"));
  if (i == 1) SMELT_RETURN_IF_ERROR(MatchAdded(c, {(*a.sizes)[0], (*b.sizes)[1]}));
  SMELT_ASSIGN_OR_RETURN(const DType out, ProductDType(c, *a.dtype));
  c.Add(out, {(*a.sizes)[0], (*b.sizes)[1]});
  return absl::OkStatus();
}

// _int_mm(self, mat2): int8 or uint8 by int8 gives int32.
absl::Status IntMm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 1));
  if (a.rank() != 2 || b.rank() != 2) return c.call.Error("both operands must have 2 dims");
  if ((*a.dtype != DType::kInt8 && *a.dtype != DType::kUInt8) || *b.dtype != DType::kInt8)
    return c.call.Unsupported("operands other than int8 or uint8 by int8");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[1], (*b.sizes)[0]));
  c.Add(DType::kInt32, {(*a.sizes)[0], (*b.sizes)[1]});
  return absl::OkStatus();
}

absl::Status Bmm(Ctx& c) {
  const int i = c.call.op().name() == "aten::baddbmm" || c.call.op().name() == "aten::addbmm" ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 3 || b.rank() != 3) return c.call.Error("batch1 and batch2 must be 3D tensors");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[2], (*b.sizes)[1]));
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[0], (*b.sizes)[0]));
  SMELT_RETURN_IF_ERROR(MatchDTypes(c, a, b, "batch1 and batch2"));
  std::vector<Expr> sizes = {(*a.sizes)[0], (*a.sizes)[1], (*b.sizes)[2]};
  if (c.call.op().name() == "aten::addbmm") sizes.erase(sizes.begin());
  if (i == 1) SMELT_RETURN_IF_ERROR(MatchAdded(c, sizes));
  SMELT_ASSIGN_OR_RETURN(const DType out, ProductDType(c, *a.dtype));
  c.Add(out, std::move(sizes));
  return absl::OkStatus();
}

absl::Status Mv(Ctx& c) {
  const int i = c.call.op().name() == "aten::addmv" ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 2 || b.rank() != 1) return c.call.Error("a matrix and a vector are expected");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[1], (*b.sizes)[0]));
  if (i == 1) SMELT_RETURN_IF_ERROR(MatchAdded(c, {(*a.sizes)[0]}));
  c.Add(*a.dtype, {(*a.sizes)[0]});
  return absl::OkStatus();
}

absl::Status Dot(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 1));
  if (a.rank() != 1 || b.rank() != 1) return c.call.Error("1D tensors expected");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[0], (*b.sizes)[0]));
  c.Add(*a.dtype, {});
  return absl::OkStatus();
}

// attention(query [.., l, e], key [.., s, e], value [.., s, v], ...): [.., l, v], in the layout of the query or contiguous.
absl::Status Attention(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType query, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(const TensorType key, TensorArgument(c, 1));
  SMELT_ASSIGN_OR_RETURN(const TensorType value, TensorArgument(c, 2));
  const int rank = query.rank();
  if (rank < 2 || key.rank() != rank || value.rank() != rank)
    return c.call.Error("query, key and value must have the same number of dims, 2 or more");
  SMELT_RETURN_IF_ERROR(MatchDTypes(c, query, key, "query and key"));
  SMELT_RETURN_IF_ERROR(MatchDTypes(c, query, value, "query and value"));
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*query.sizes)[rank - 1], (*key.sizes)[rank - 1]));
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*key.sizes)[rank - 2], (*value.sizes)[rank - 2]));
  std::vector<Expr> sizes = *query.sizes;
  sizes[rank - 1] = (*value.sizes)[rank - 1];
  SMELT_ASSIGN_OR_RETURN(const bool as_query, c.call.GetBool("as_query"));
  if (as_query && query.strides && sizes == *query.sizes) {
    c.AddStrided(*query.dtype, std::move(sizes), view_rules::PreservedStrides(c.decide, GeoOf(c.decide, query)));
  } else {
    c.Add(*query.dtype, std::move(sizes));
  }
  return absl::OkStatus();
}

absl::Status Outer(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 1));
  if (a.rank() != 1 || b.rank() != 1) return c.call.Error("1D tensors expected");
  c.Add(PromoteTypes(*a.dtype, *b.dtype), {(*a.sizes)[0], (*b.sizes)[0]});
  return absl::OkStatus();
}

// Pointwise over the added tensor, a column and a row.
absl::Status Addr(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 1));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 2));
  if (a.rank() != 1 || b.rank() != 1) return c.call.Error("1D tensors expected");
  Geo column = GeoOf(c.decide, a);
  column.sizes.push_back(1);
  column.strides.push_back(1);
  const auto g = view_rules::PointwiseOutput<SymbolicDecide>(
      c.decide, std::vector<Geo>{GeoOf(c.decide, self), column, GeoOf(c.decide, b)});
  if (!g.ok()) return ErrorIn(c.call, g.status());
  // self is expanded to the product's sizes; the two do not broadcast to common sizes.
  if (g->sizes.size() != 2 || !c.decide.Equal(g->sizes[0], (*a.sizes)[0]) ||
      !c.decide.Equal(g->sizes[1], (*b.sizes)[0])) {
    return c.call.Error("self cannot be expanded to the sizes of the outer product");
  }
  c.AddStrided(PromoteTypes(*self.dtype, PromoteTypes(*a.dtype, *b.dtype)), g->sizes, g->strides);
  return absl::OkStatus();
}

absl::Status NativeGroupNorm(Ctx& c) {
  SMELT_RETURN_IF_ERROR(SameAs("input")(c));
  SMELT_ASSIGN_OR_RETURN(TensorType x, c.call.GetTensor("input"));
  const auto decidable = [&](const std::vector<Expr>& v) {
    return std::all_of(v.begin(), v.end(), [&](const Expr& e) { return c.decide.IsDecidable(e); });
  };
  if (x.strides && decidable(*x.sizes) && decidable(*x.strides)) {
    const Geo g = GeoOf(c.decide, x);
    if (!view_rules::IsContiguous(c.decide, g) && !view_rules::IsChannelsLast(c.decide, g))
      return c.call.Error("Expected X.is_contiguous(memory_format) to be true, but got false.");
  }
  SMELT_ASSIGN_OR_RETURN(Expr groups, c.call.GetExpr("group"));
  for (int k = 0; k < 2; ++k) c.Add(*x.dtype, {(*x.sizes)[0], groups});
  return absl::OkStatus();
}

// Returns whether PyTorch computes a convolution over three dims with its own kernel, whose results are contiguous for
// every format of the operands: this holds for doubles, and for one small image with a small window.
bool IsSmallVolume(const TensorType& x, const TensorType& w, int64_t groups) {
  if (w.rank() != 5 || x.rank() != 5) return false;
  if (x.dtype == DType::kFloat64) return true;
  const auto size = [](const TensorType& t, int d) { return (*t.sizes)[d].Constant().value_or(int64_t{1} << 31); };
  const bool large_window = size(w, 3) > 3 && size(w, 4) > 3;
  constexpr int64_t kSmall = 20480;
  if (x.dtype != DType::kFloat32 || groups > 1 || large_window || size(x, 0) > 1) return false;
  int64_t elements = 1;  // of what PyTorch counts: without the last dim
  for (int d = 0; d < 4; ++d) elements = std::min(elements * std::min(size(x, d), kSmall + 1), kSmall + 1);
  return elements <= kSmall;
}

// Returns the format in which a convolution computes: the one that the input suggests, or else the weight. Over one dim
// PyTorch makes the input contiguous before it treats it as an image of one row, so that only strides of dims of size 1
// can still suggest channels-last.
Format FormatOfConvolution(Ctx& c, TensorType x, const TensorType& w) {
  if (w.rank() != 3) {
    const Format f = Suggest(c, x);
    return f != Format::kContiguous ? f : Suggest(c, w);
  }
  Geo g = GeoOf(c.decide, x);
  if (g.rank() == 2) {
    g.strides.insert(g.strides.begin(), c.decide.Mul(g.sizes[0], g.strides[0]));
    g.sizes.insert(g.sizes.begin(), Expr(1));
  }
  if (!view_rules::IsContiguous(c.decide, g)) g.strides = view_rules::ContiguousStrides(c.decide, g.sizes);
  x.sizes.emplace(g.sizes.begin(), g.sizes.end());
  x.strides.emplace(g.strides.begin(), g.strides.end());
  const Format f = SuggestAsRow(c, x);
  return f != Format::kContiguous ? f : SuggestAsRow(c, w);
}

// Adds a result of a convolution with a weight of this rank.
void AddInFormat(Ctx& c, DType dtype, const std::vector<Expr>& sizes, int weight_rank, Format f) {
  if (weight_rank == 3) {
    AddAsRow(c, dtype, sizes, f);
  } else {
    c.Add(dtype, sizes, f);
  }
}

// Returns whether a transposed convolution pads its result by at least one stride, which PyTorch also computes with its
// own kernels.
absl::StatusOr<bool> PadsBeyondSteps(Ctx& c, int n) {
  SMELT_ASSIGN_OR_RETURN(bool transposed, c.call.GetBoolOr("transposed", false));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> stride, Spatial(c, "stride", n, 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> padding, Spatial(c, "output_padding", n, 0));
  bool beyond = false;
  for (int d = 0; d < n; ++d) beyond = beyond || (transposed && padding[d] >= stride[d]);
  return beyond;
}

// Adds the result of a convolution, whose dtype is that of the input unless `result` says another.
absl::Status AddConvolution(Ctx& c, std::optional<DType> result) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, c.call.GetTensor("input"));
  SMELT_ASSIGN_OR_RETURN(TensorType w, c.call.GetTensor("weight"));
  const int n = w.rank() - 2;
  if (n < 1 || n > 3) return c.call.Error(absl::StrCat("the weight has ", w.rank(), " dims"));
  const bool batched = x.rank() == n + 2;
  if (!batched && x.rank() != n + 1)
    return c.call.Error(absl::StrCat("Expected ", n + 1, "D or ", n + 2, "D input, got ", x.rank(), "D"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> stride, Spatial(c, "stride", n, 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> padding, Spatial(c, "padding", n, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dilation, Spatial(c, "dilation", n, 1));
  SMELT_ASSIGN_OR_RETURN(bool transposed, c.call.GetBoolOr("transposed", false));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> output_padding, Spatial(c, "output_padding", n, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t groups, c.call.GetIntOr("groups", 1));
  const int first = batched ? 2 : 1;
  if (groups <= 0) return c.call.Error("groups must be positive");
  std::vector<Expr> sizes;
  if (batched) sizes.push_back((*x.sizes)[0]);
  const Expr channels = (*x.sizes)[first - 1];
  if (!c.decide.Equal(channels, transposed ? (*w.sizes)[0] : (*w.sizes)[1] * groups)) {
    return c.call.Error(absl::StrCat("expected input to have ", ((*w.sizes)[1] * groups).ToString(),
                                     " channels, but got ", channels.ToString()));
  }
  if ((*w.sizes)[0] == Expr(0)) return c.call.Error("expected weight to be at least 1 at dimension 0");
  // Without input channels PyTorch makes no output channels.
  const bool empty = channels == Expr(0) || (batched && sizes[0] == Expr(0));
  sizes.push_back(channels == Expr(0) ? Expr(0) : transposed ? (*w.sizes)[1] * groups : (*w.sizes)[0]);
  for (int d = 0; d < n; ++d) {
    const Expr in = (*x.sizes)[first + d], k = (*w.sizes)[2 + d];
    if (stride[d] <= 0) return c.call.Error("non-positive stride is not supported");
    Expr o = transposed
                 ? (in - 1) * stride[d] - Expr(2) * padding[d] + Expr(dilation[d]) * (k - 1) + output_padding[d] + 1
                 : FloorDiv(in + Expr(2) * padding[d] - Expr(dilation[d]) * (k - 1) - 1, Expr(stride[d])) + 1;
    if (in == Expr(0) && !empty) return c.call.Error("Only zero batch or zero channel inputs are supported");
    if (o.IsConstant() && *o.Constant() < (transposed ? 0 : 1)) {
      return c.call.Error(
          "Calculated padded input size per channel is smaller than the kernel: Kernel size can't be greater than "
          "actual input size");
    }
    sizes.push_back(o);
  }
  Format f = FormatOfConvolution(c, x, w);
  SMELT_ASSIGN_OR_RETURN(const bool far_padding, PadsBeyondSteps(c, n));
  if (IsSmallVolume(x, w, groups) || channels == Expr(0) || (n == 3 && far_padding)) f = Format::kContiguous;
  AddInFormat(c, result.value_or(*x.dtype), sizes, w.rank(), f);
  return absl::OkStatus();
}
absl::Status Convolution(Ctx& c) { return AddConvolution(c, std::nullopt); }

// int8_convolution(input of bytes, weight of int8, stride, padding, dilation, zero_point): of int32.
absl::Status Int8Convolution(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType x, c.call.GetTensor("input"));
  SMELT_ASSIGN_OR_RETURN(const TensorType w, c.call.GetTensor("weight"));
  if ((x.dtype != DType::kInt8 && x.dtype != DType::kUInt8) || w.dtype != DType::kInt8)
    return c.call.Error("images of int8 or uint8 and a weight of int8 are expected");
  if (x.rank() != w.rank()) return c.call.Error("images and weight must have the same rank");
  SMELT_ASSIGN_OR_RETURN(const int64_t zero, c.call.GetInt("zero_point"));
  const int64_t low = x.dtype == DType::kUInt8 ? 0 : -128;
  if (zero < low || zero > low + 255)
    return c.call.Error(absl::StrCat("the zero point ", zero, " is not one of ", Name(*x.dtype)));
  return AddConvolution(c, DType::kInt32);
}

absl::Status ConvolutionBackward(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType grad, c.call.GetTensor("grad_output"));
  SMELT_ASSIGN_OR_RETURN(TensorType x, c.call.GetTensor("input"));
  SMELT_ASSIGN_OR_RETURN(TensorType w, c.call.GetTensor("weight"));
  const int rank = w.rank(), unbatched = rank - 1;
  if (rank < 3 || x.rank() != grad.rank() || (x.rank() != rank && x.rank() != unbatched)) {
    return c.call.Error(absl::StrCat("the gradient, the input and the weight are of ", grad.rank(), ", ", x.rank(),
                                     " and ", rank, " dims, which do not fit"));
  }
  for (const char* list : {"stride", "padding", "dilation"})
    SMELT_RETURN_IF_ERROR(Spatial(c, list, rank - 2, std::nullopt).status());
  Format f = FormatOfConvolution(c, x, w);
  SMELT_ASSIGN_OR_RETURN(int64_t groups, c.call.GetIntOr("groups", 1));
  SMELT_ASSIGN_OR_RETURN(const bool far_padding, PadsBeyondSteps(c, w.rank() - 2));
  if (IsSmallVolume(x, w, groups) || (w.rank() == 5 && far_padding)) f = Format::kContiguous;
  AddInFormat(c, *x.dtype, *x.sizes, w.rank(), f);
  AddInFormat(c, *w.dtype, *w.sizes, w.rank(), f);
  const Expr channels = (*grad.sizes)[grad.rank() - static_cast<int>(w.rank()) + 1];
  c.Add(*grad.dtype, {channels == Expr(0) ? (*w.sizes)[0] : channels});
  return absl::OkStatus();
}

Expr PoolSize(const Expr& in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil_mode) {
  const Expr span = in + Expr(2) * Expr(p) - Expr(d) * (Expr(k) - 1) - 1;
  Expr out = FloorDiv(span + (ceil_mode ? Expr(s) - 1 : Expr(0)), Expr(s)) + 1;
  // The last window must begin inside the input or its left padding.
  if (ceil_mode && out.IsConstant() && in.IsConstant() &&
      static_cast<__int128>(*out.Constant() - 1) * s >= static_cast<__int128>(*in.Constant()) + p)
    out = out - 1;
  return out;
}

// max_pool and avg_pool over n spatial dims.
Rule Pool(int n, bool max) {
  return [n, max](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> kernel, Spatial(c, "kernel_size", n));
    std::vector<int64_t> stride = kernel;
    const OpArg* s = c.call.Find("stride");
    if (s != nullptr && !s->IsNone() && !(s->kind == OpArg::Kind::kIntList && s->ints.empty()) &&
        !(s->kind == OpArg::Kind::kTensorList && s->elements.empty())) {
      SMELT_ASSIGN_OR_RETURN(stride, Spatial(c, "stride", n));
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> padding, Spatial(c, "padding", n, 0));
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dilation, Spatial(c, "dilation", n, 1));
    SMELT_ASSIGN_OR_RETURN(bool ceil_mode, c.call.GetBoolOr("ceil_mode", false));
    if (x.rank() != n + 1 && x.rank() != n + 2) {
      return c.call.Error(absl::StrCat("Expected ", n + 1, "D or ", n + 2, "D tensor, but got ", x.rank(), "D"));
    }
    std::vector<Expr> sizes = *x.sizes;
    for (int d = x.rank() == n + 2 ? 1 : 0; d < x.rank(); ++d) {
      if (sizes[d] == Expr(0))
        return c.call.Error("Expected input's non-batch dimensions to have positive length, but one of them is empty");
    }
    for (int d = 0; d < n; ++d) {
      Expr& o = sizes[x.rank() - n + d];
      if (stride[d] <= 0 || kernel[d] <= 0) return c.call.Error("kernel size and stride should be greater than zero");
      if (padding[d] > kernel[d] / 2) return c.call.Error("pad should be at most half of effective kernel size");
      o = PoolSize(o, kernel[d], stride[d], padding[d], dilation[d], ceil_mode);
      if (o.IsConstant() && *o.Constant() < 1) return c.call.Error("Output size is too small");
    }
    c.Add(*x.dtype, sizes);
    if (max) c.Add(DType::kInt64, sizes);
    return absl::OkStatus();
  };
}

absl::Status MaxUnpool(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, c.call.GetExprs("output_size"));
  const int dims = c.call.op().name() == "aten::max_unpool3d" ? 3 : 2;
  if (static_cast<int>(out.size()) != dims || x.rank() <= dims) {
    return c.call.Error(absl::StrCat(dims, " sizes and an input of at least ", dims + 1, " dims are expected"));
  }
  std::vector<Expr> sizes(x.sizes->begin(), x.sizes->end() - dims);
  sizes.insert(sizes.end(), out.begin(), out.end());
  c.Add(*x.dtype, sizes);
  return absl::OkStatus();
}

absl::Status Upsample(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  // PyTorch interpolates images of bytes, and no other integers.
  const bool bytes = x.dtype == DType::kUInt8 && absl::StrContains(c.call.op().name(), "2d");
  if (!IsFloating(*x.dtype) && !bytes && !absl::StrContains(c.call.op().name(), "nearest"))
    return c.call.Unsupported("interpolation of integers");
  const int n = x.rank() - 2;
  std::vector<Expr> out;
  if (!c.call.IsNone("output_size")) {
    SMELT_ASSIGN_OR_RETURN(out, c.call.GetExprs("output_size"));
  } else {
    const OpArg* f = c.call.Find("scale_factors");
    if (f == nullptr || f->kind != OpArg::Kind::kFloatList || !f->known)
      return c.call.Error("neither output_size nor scale_factors is given");
    for (int d = 0; d < n && d < static_cast<int>(f->floats.size()); ++d) {
      const Expr& s = (*x.sizes)[2 + d];
      const double scale = f->floats[d];
      if (s.IsConstant()) {
        out.push_back(static_cast<int64_t>(static_cast<double>(*s.Constant()) * scale));
      } else if (scale == std::floor(scale)) {
        out.push_back(s * static_cast<int64_t>(scale));
      } else {
        return c.call.Unsupported("a fractional scale of a symbolic size");
      }
    }
  }
  if (n < 1 || static_cast<int>(out.size()) != n) return c.call.Error("output_size does not fit the input's rank");
  std::vector<Expr> sizes = *x.sizes;
  for (int d = 0; d < n; ++d) sizes[2 + d] = out[d];
  c.Add(*x.dtype, sizes);
  return absl::OkStatus();
}

absl::Status Sort(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (c.call.op().name() != "aten::argsort") c.Add(*self.dtype, *self.sizes);
  c.Add(DType::kInt64, *self.sizes);
  return absl::OkStatus();
}

absl::Status Topk(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", self.rank(), -1));
  SMELT_ASSIGN_OR_RETURN(Expr k, c.call.GetExpr("k"));
  std::vector<Expr> sizes = *self.sizes;
  if (!sizes.empty()) {
    if (k.IsConstant() && sizes[dim].IsConstant() && (*k.Constant() < 0 || *k.Constant() > *sizes[dim].Constant())) {
      return c.call.Error("selected index k out of range");
    }
    sizes[dim] = k;
  }
  c.Add(*self.dtype, sizes);
  c.Add(DType::kInt64, sizes);
  return absl::OkStatus();
}

absl::Status DimReduction(Ctx& c) {  // kthvalue, median.dim, mode
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (c.call.IndexOf("dim") < 0) {
    c.Add(*self.dtype, {});
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", self.rank(), -1));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, c.call.GetBoolOr("keepdim", false));
  std::vector<Expr> sizes = *self.sizes;
  if (!sizes.empty()) {
    if (keepdim) {
      sizes[dim] = 1;
    } else {
      sizes.erase(sizes.begin() + dim);
    }
  }
  c.Add(*self.dtype, sizes);
  c.Add(DType::kInt64, sizes);
  return absl::OkStatus();
}

absl::Status Bucketize(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(bool narrow, c.call.GetBoolOr("out_int32", false));
  const OpArg* self = c.call.Find("self");
  std::vector<Expr> sizes;
  if (self != nullptr && self->IsTensor() && self->tensor.sizes) sizes = *self->tensor.sizes;
  c.Add(narrow ? DType::kInt32 : DType::kInt64, sizes);
  return absl::OkStatus();
}

absl::Status RandomSizes(Ctx& c) {
  const std::string& n = c.call.op().name();
  const bool integer = n == "aten::randint" || n == "aten::randperm";
  std::vector<Expr> sizes;
  if (n == "aten::randperm") {
    SMELT_ASSIGN_OR_RETURN(Expr e, c.call.GetExpr("n"));
    sizes = {e};
  } else {
    SMELT_ASSIGN_OR_RETURN(sizes, c.call.GetExprs("size"));
  }
  c.Add(DTypeOr(c, integer ? DType::kInt64 : DType::kFloat32), sizes);
  return absl::OkStatus();
}

// The result for tensors is contiguous and has their common sizes.
absl::Status NormalOfTensors(Ctx& c) {
  std::vector<std::vector<Expr>> shapes;
  std::optional<DType> dtype;
  for (int i = 0; i < 2; ++i) {
    if (!c.call.arg(i).IsTensor()) continue;
    SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, i));
    if (!dtype) dtype = t.dtype;
    shapes.push_back(*t.sizes);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, view_rules::BroadcastSizes<SymbolicDecide>(c.decide, shapes));
  c.Add(*dtype, sizes);
  return absl::OkStatus();
}

absl::Status Multinomial(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(Expr samples, c.call.GetExpr("num_samples"));
  std::vector<Expr> sizes = *self.sizes;
  if (sizes.empty()) return c.call.Error("prob_dist must be 1 or 2 dim");
  sizes.back() = samples;
  c.Add(DType::kInt64, sizes);
  return absl::OkStatus();
}

absl::Status NativeDropout(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  c.Add(*x.dtype, *x.sizes);
  c.Add(DType::kBool, *x.sizes);
  return absl::OkStatus();
}

absl::Status ComplexOfParts(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 1));
  auto sizes = view_rules::BroadcastSizes<SymbolicDecide>(c.decide, std::vector<std::vector<Expr>>{*a.sizes, *b.sizes});
  if (!sizes.ok()) return ErrorIn(c.call, sizes.status());
  c.Add(*a.dtype == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64, *sizes);
  return absl::OkStatus();
}

absl::Status Eye(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(Expr n, c.call.GetExpr("n"));
  Expr m = n;
  if (!c.call.IsNone("m")) {
    SMELT_ASSIGN_OR_RETURN(m, c.call.GetExpr("m"));
  }
  c.Add(DTypeOr(c, DType::kFloat32), {n, m});
  return absl::OkStatus();
}

absl::Status Linspace(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(Expr n, c.call.GetExpr("steps"));
  c.Add(DTypeOr(c, DType::kFloat32), {n});
  return absl::OkStatus();
}

absl::Status Window(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(Expr n, c.call.GetExpr("window_length"));
  c.Add(DTypeOr(c, DType::kFloat32), {n});
  return absl::OkStatus();
}

absl::Status Frequencies(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t n, c.call.GetInt("n"));
  c.Add(DTypeOr(c, DType::kFloat32), {Expr(c.call.op().name() == "aten::fft_rfftfreq" ? n / 2 + 1 : n)});
  return absl::OkStatus();
}

absl::Status TriIndices(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t rows, c.call.GetInt("row"));
  SMELT_ASSIGN_OR_RETURN(int64_t cols, c.call.GetInt("col"));
  SMELT_ASSIGN_OR_RETURN(int64_t offset, c.call.GetIntOr("offset", 0));
  if (rows < 0 || cols < 0 || rows > 1 << 20 || cols > 1 << 20) return c.call.Error("row and col must be in [0, 2^20]");
  offset = std::clamp<int64_t>(offset, -(1 << 21), 1 << 21);  // further on all rows are alike
  const bool lower = c.call.op().name() == "aten::tril_indices";
  int64_t n = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t upto = std::clamp<int64_t>(r + offset + (lower ? 1 : 0), 0, cols);
    n += lower ? upto : cols - upto;
  }
  c.Add(DTypeOr(c, DType::kInt64), {Expr(2), Expr(n)});
  return absl::OkStatus();
}

absl::Status DiagEmbed(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t offset, c.call.GetIntOr("offset", 0));
  const int rank = self.rank() + 1;
  SMELT_ASSIGN_OR_RETURN(int d1, Dim(c, "dim1", rank, -2));
  SMELT_ASSIGN_OR_RETURN(int d2, Dim(c, "dim2", rank, -1));
  if (self.rank() == 0 || d1 == d2) return c.call.Error("diagonal dimensions must be two of the result's");
  const Expr n = self.sizes->back() + (offset < 0 ? -Expr(offset) : Expr(offset));
  std::vector<Expr> sizes(self.sizes->begin(), self.sizes->end() - 1);
  sizes.insert(sizes.begin() + std::min(d1, d2), n);
  sizes.insert(sizes.begin() + std::max(d1, d2), n);
  // zeros, of which the diagonal is filled: laid out as diag_embed's own dims
  c.Add(*self.dtype, sizes);
  return absl::OkStatus();
}

absl::Status PixelShuffle(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  const bool up = c.call.op().name() == "aten::pixel_shuffle";
  SMELT_ASSIGN_OR_RETURN(int64_t f, c.call.GetInt(up ? "upscale_factor" : "downscale_factor"));
  if (self.rank() < 3 || f <= 0) return c.call.Error("expects an input with at least 3 dims and a positive factor");
  std::vector<Expr> s = *self.sizes;
  const int r = self.rank();
  if (up) {
    s[r - 3] = FloorDiv(s[r - 3], Expr(f) * f);
    s[r - 2] = s[r - 2] * f;
    s[r - 1] = s[r - 1] * f;
  } else {
    s[r - 3] = s[r - 3] * f * f;
    s[r - 2] = FloorDiv(s[r - 2], Expr(f));
    s[r - 1] = FloorDiv(s[r - 1], Expr(f));
  }
  c.Add(*self.dtype, s);
  return absl::OkStatus();
}

absl::Status Im2col(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> k, Spatial(c, "kernel_size", 2));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> d, Spatial(c, "dilation", 2, 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> p, Spatial(c, "padding", 2, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> s, Spatial(c, "stride", 2, 1));
  if (x.rank() != 3 && x.rank() != 4) return c.call.Error("Expected 3D or 4D tensor");
  const int at = x.rank() - 3;
  Expr blocks(1);
  for (int i = 0; i < 2; ++i) {
    if (s[i] <= 0) return c.call.Error("stride should be greater than zero");
    blocks = blocks *
             (FloorDiv((*x.sizes)[at + 1 + i] + 2 * Expr(p[i]) - Expr(d[i]) * (Expr(k[i]) - 1) - 1, Expr(s[i])) + 1);
  }
  std::vector<Expr> sizes(x.sizes->begin(), x.sizes->begin() + at);
  sizes.push_back((*x.sizes)[at] * k[0] * k[1]);
  sizes.push_back(blocks);
  c.Add(*x.dtype, sizes);
  return absl::OkStatus();
}

absl::Status Col2im(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, c.call.GetExprs("output_size"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> k, Spatial(c, "kernel_size", 2));
  if ((x.rank() != 2 && x.rank() != 3) || out.size() != 2) return c.call.Error("Expected 2D or 3D tensor");
  std::vector<Expr> sizes;
  if (x.rank() == 3) sizes.push_back((*x.sizes)[0]);
  sizes.push_back(FloorDiv((*x.sizes)[x.rank() - 2], Expr(k[0] * k[1])));
  sizes.push_back(out[0]);
  sizes.push_back(out[1]);
  c.Add(*x.dtype, sizes);
  return absl::OkStatus();
}

absl::Status Cdist(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 1));
  if (a.rank() < 2 || b.rank() < 2) return c.call.Error("cdist only supports at least 2D tensors");
  std::vector<std::vector<Expr>> batches = {{a.sizes->begin(), a.sizes->end() - 2},
                                            {b.sizes->begin(), b.sizes->end() - 2}};
  auto sizes = view_rules::BroadcastSizes<SymbolicDecide>(c.decide, batches);
  if (!sizes.ok()) return ErrorIn(c.call, sizes.status());
  sizes->push_back((*a.sizes)[a.rank() - 2]);
  sizes->push_back((*b.sizes)[b.rank() - 2]);
  c.Add(*a.dtype, *sizes);
  return absl::OkStatus();
}

// The number of elements depends on data.
Rule DataDependent(DType d, bool own_dtype, int outputs) {
  return [d, own_dtype, outputs](Ctx& c) -> absl::Status {
    for (int i = 0; i < outputs; ++i) {
      TensorType t;
      t.dtype = own_dtype && i == 0 && c.call.arg(0).tensor.dtype ? *c.call.arg(0).tensor.dtype : d;
      c.AddUnknown(t);
    }
    return absl::OkStatus();
  };
}

absl::Status Bincount(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  if (self.rank() != 1 || !IsIntegral(*self.dtype))
    return c.call.Error("bincount only supports 1-d non-negative integral inputs.");
  return DataDependent(DType::kInt64, false, 1)(c);
}

absl::Status OneHot(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t n, c.call.GetIntOr("num_classes", -1));
  if (n < 0) {
    TensorType t;
    t.dtype = DType::kInt64;
    c.AddUnknown(t);
    return absl::OkStatus();
  }
  std::vector<Expr> sizes = *self.sizes;
  sizes.push_back(n);
  c.Add(DType::kInt64, sizes);
  return absl::OkStatus();
}

absl::Status RepeatInterleave(Ctx& c) {
  const OpArg* self = c.call.Find("self");
  const OpArg* repeats = c.call.Find("repeats");
  const bool plain = self == nullptr;
  const TensorType& x = plain ? repeats->tensor : self->tensor;
  if (!x.dtype || !x.sizes) return c.call.Error("a tensor of known dtype and sizes is expected");
  if (!plain && x.rank() == 0 && !c.call.IsNone("dim")) return c.call.Error("a dim of a tensor that has none");
  Expr n;
  if (!c.call.IsNone("output_size")) {
    SMELT_ASSIGN_OR_RETURN(n, c.call.GetExpr("output_size"));
  } else if (!plain && repeats->kind == OpArg::Kind::kInt && repeats->known) {
    if (c.call.IsNone("dim")) {
      n = repeats->expr * Product(*x.sizes);
    } else {
      SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", x.rank()));
      n = (*x.sizes)[dim] * repeats->expr;
    }
  } else {
    TensorType t;
    t.dtype = plain ? DType::kInt64 : *x.dtype;
    c.AddUnknown(t);
    return absl::OkStatus();
  }
  if (plain || c.call.IsNone("dim")) {
    c.Add(plain ? DType::kInt64 : *x.dtype, {n});
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", x.rank()));
  std::vector<Expr> sizes = *x.sizes;
  if (!sizes.empty()) sizes[dim] = n;
  c.Add(*x.dtype, sizes);
  return absl::OkStatus();
}

absl::Status IsIn(Ctx& c) {
  const OpArg& e = c.call.arg(0);
  c.Add(DType::kBool, e.IsTensor() && e.tensor.sizes ? *e.tensor.sizes : std::vector<Expr>{});
  return absl::OkStatus();
}

}  // namespace

void AddLibraryRules(RuleTable& r) {
  AddRule(r, "eye", Eye);
  AddRule(r, "linspace logspace", Linspace);
  AddRule(r, "hann_window hamming_window blackman_window bartlett_window kaiser_window", Window);
  AddRule(r, "fft_fftfreq fft_rfftfreq", Frequencies);
  AddRule(r, "tril_indices triu_indices", TriIndices);
  AddRule(r, "rand randn randint randperm", RandomSizes);
  AddRule(r, "normal.float_float", RandomSizes);
  AddRule(r, "normal.Tensor_float normal.float_Tensor normal.Tensor_Tensor", NormalOfTensors);
  AddRule(r, "multinomial", Multinomial);
  AddRule(r, "masked_select", DataDependent(DType::kFloat32, true, 1));
  AddRule(r, "nonzero argwhere", DataDependent(DType::kInt64, false, 1));
  AddRule(r, "unique_consecutive _unique2 unique_dim", DataDependent(DType::kInt64, true, 3));
  AddRule(r, "bincount", Bincount);
  AddRule(r, "repeat_interleave", RepeatInterleave);
  AddRule(r, "diag_embed", DiagEmbed);
  AddRule(r, "one_hot", OneHot);
  AddRule(r, "pixel_shuffle pixel_unshuffle", PixelShuffle);
  AddRule(r, "im2col", Im2col);
  AddRule(r, "col2im", Col2im);
  AddRule(r,
          "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d "
          "upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa "
          "_upsample_nearest_exact1d _upsample_nearest_exact2d",
          Upsample);
  AddRule(r, "isin", IsIn);
  AddRule(r, "mm addmm", Mm);
  AddRule(r, "_int_mm", IntMm);
  AddRule(r, "bmm baddbmm addbmm", Bmm);
  r["smelt::attention"] = Attention;
  AddRule(r, "mv addmv", Mv);
  AddRule(r, "dot vdot", Dot);
  AddRule(r, "outer ger", Outer);
  AddRule(r, "addr", Addr);
  AddRule(r, "group_norm rms_norm", SameAs("input"));
  AddRule(r, "native_group_norm", NativeGroupNorm);
  AddRule(r, "convolution _convolution convolution_overrideable", Convolution);
  AddRule(r, "convolution_backward", ConvolutionBackward);
  r["smelt::int8_convolution"] = Int8Convolution;
  AddRule(r, "max_pool1d", Pool(1, false));
  AddRule(r, "max_pool1d_with_indices", Pool(1, true));
  AddRule(r, "max_unpool2d max_unpool3d", MaxUnpool);
  AddRule(r, "_softmax_backward_data _log_softmax_backward_data", SameAs("output"));
  AddRule(r, "max_pool2d_with_indices", Pool(2, true));
  AddRule(r, "max_pool3d_with_indices", Pool(3, true));
  AddRule(r, "avg_pool1d", Pool(1, false));
  AddRule(r, "avg_pool2d", Pool(2, false));
  AddRule(r, "avg_pool3d", Pool(3, false));
  AddRule(r, "_adaptive_avg_pool2d", AdaptivePool(2, false));
  AddRule(r, "_adaptive_avg_pool3d", AdaptivePool(3, false));
  AddRule(r, "adaptive_max_pool2d", AdaptivePool(2, true));
  AddRule(r,
          "max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward "
          "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward "
          "adaptive_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
          "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward",
          SameAs("self"));
  AddRule(r, "sort argsort msort", Sort);
  AddRule(r, "topk", Topk);
  AddRule(r, "kthvalue median nanmedian mode", DimReduction);
  AddRule(r, "searchsorted bucketize", Bucketize);
  AddRule(r, "gcd lcm polygamma special_erfcx", Elementwise);
  AddRule(r, "complex polar", ComplexOfParts);
  AddRule(r, "cdist _cdist_forward", Cdist);
  AddRule(r, "native_dropout", NativeDropout);
  AddRule(r, "linalg_cross", [](Ctx& c) -> absl::Status {  // contiguous, however the operands lie
    SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(TensorType other, TensorArgument(c, 1));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes,
                           view_rules::BroadcastSizes<SymbolicDecide>(
                               c.decide, std::vector<std::vector<Expr>>{*self.sizes, *other.sizes}));
    c.Add(ResultType(std::vector<PromotionOperand>{PromotionOf(c.call.arg(0)), PromotionOf(c.call.arg(1))}), sizes);
    return absl::OkStatus();
  });
  AddRule(r, "equal is_same_size allclose is_nonzero", [](Ctx& c) -> absl::Status {
    c.out.push_back({Type::Bool(), std::nullopt, {}});
    return absl::OkStatus();
  });
}

}  // namespace smelt::op_internal
