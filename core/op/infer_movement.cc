// Types of the results of operators that select, place or join elements.
#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/schema.h"

namespace smelt::op_internal {
namespace {

absl::Status Cat(Ctx& c) {
  const OpArg& list = c.call.arg(0);
  if (list.elements.empty()) return c.call.Error("expected a non-empty list of Tensors");
  std::vector<PromotionOperand> p;
  int rank = 0;
  for (const OpArg& e : list.elements) {
    if (!e.IsTensor() || !e.tensor.sizes || !e.tensor.dtype)
      return c.call.Error("an element is not a tensor of known sizes");
    p.push_back(PromotionOf(e));
    // An empty 1-d tensor can be joined with any tensor.
    if (!(e.tensor.rank() == 1 && (*e.tensor.sizes)[0] == Expr(0))) rank = std::max(rank, e.tensor.rank());
    if (e.tensor.rank() == 0) return c.call.Error("zero-dimensional tensor cannot be concatenated");
  }
  if (rank == 0) rank = 1;
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", rank));
  std::vector<Expr> sizes;
  std::optional<Format> format;
  Expr total(0);
  for (const OpArg& e : list.elements) {
    const std::vector<Expr>& s = *e.tensor.sizes;
    const Format f = Suggest(c, e.tensor);
    if (s.size() == 1 && s[0] == Expr(0)) continue;
    format = !format || *format == f ? f : Format::kContiguous;
    if (sizes.empty()) sizes = s;
    if (static_cast<int>(s.size()) != rank) return c.call.Error("Tensors must have same number of dimensions");
    for (int d = 0; d < rank; ++d) {
      if (d != dim && !c.decide.Equal(s[d], sizes[d])) {
        return c.call.Error(absl::StrCat("Sizes of tensors must match except in dimension ", dim, ". Expected size ",
                                         sizes[d].ToString(), " but got size ", s[d].ToString()));
      }
    }
    total = total + s[dim];
  }
  if (sizes.empty()) sizes = {0};
  sizes[dim] = total;
  c.Add(ResultType(p), sizes, format.value_or(Format::kContiguous));
  return absl::OkStatus();
}

// A cat of the two parts, dim by dim: PyTorch's result has the format of both.
absl::Status Roll(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  SMELT_ASSIGN_OR_RETURN(const std::vector<Expr> shifts, c.call.GetExprs("shifts"));
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, c.call.GetInts("dims"));
  if (dims.size() == 1 && absl::c_linear_search(*self.sizes, Expr(0))) {
    AddLike(c, *self.dtype, self, Format::kPreserve);
    return absl::OkStatus();
  }
  const bool has_formats = self.rank() == 4 || self.rank() == 5;
  for (size_t i = 0; has_formats && i < dims.size() && i < shifts.size(); ++i) {
    if (!self.strides || *self.strides == view_rules::ContiguousStrides(c.decide, *self.sizes)) break;
    const absl::StatusOr<int> d = view_rules::WrapDim(dims[i], self.rank());
    if (!d.ok()) return ErrorIn(c.call, d.status());
    const Expr size = (*self.sizes)[*d], start = c.decide.Mod(size - shifts[i], size);
    TensorType rest = self, first = self;
    (*rest.sizes)[*d] = size - start;
    (*first.sizes)[*d] = start;
    const Format format = Suggest(c, rest);
    self.strides = format != Format::kContiguous && Suggest(c, first) == format
                       ? view_rules::ChannelsLastStrides(c.decide, *self.sizes)
                       : view_rules::ContiguousStrides(c.decide, *self.sizes);
  }
  const bool joined = has_formats && !dims.empty() && self.strides;
  c.AddStrided(*self.dtype, *self.sizes, joined ? *self.strides : view_rules::ContiguousStrides(c.decide, *self.sizes));
  return absl::OkStatus();
}

absl::Status Stack(Ctx& c) {
  const OpArg& list = c.call.arg(0);
  if (list.elements.empty()) return c.call.Error("stack expects a non-empty TensorList");
  std::vector<PromotionOperand> p;
  for (const OpArg& e : list.elements) {
    if (!e.IsTensor() || !e.tensor.sizes || !e.tensor.dtype)
      return c.call.Error("an element is not a tensor of known sizes");
    PromotionOperand o = PromotionOf(e);
    o.category = PromotionOperand::Category::kDimensioned;
    p.push_back(o);
    if (e.tensor.rank() != list.elements[0].tensor.rank())
      return c.call.Error("stack expects each tensor to be equal size");
    for (int d = 0; d < e.tensor.rank(); ++d) {
      if (!c.decide.Equal((*e.tensor.sizes)[d], (*list.elements[0].tensor.sizes)[d])) {
        return c.call.Error("stack expects each tensor to be equal size");
      }
    }
  }
  std::vector<Expr> sizes = *list.elements[0].tensor.sizes;
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", static_cast<int>(sizes.size()) + 1));
  const Expr count(static_cast<int64_t>(list.elements.size()));
  const Format format = Suggest(c, list.elements[0].tensor);
  const bool alike = std::all_of(list.elements.begin(), list.elements.end(),
                                 [&](const OpArg& e) { return Suggest(c, e.tensor) == format; });
  if (alike && format != Format::kContiguous && dim < static_cast<int>(sizes.size())) {
    // The tensors are joined along the dim, in their format, and the dim is split.
    std::vector<Expr> joined = sizes;
    joined[dim] = joined[dim] * count;
    std::vector<Expr> strides = view_rules::ChannelsLastStrides(c.decide, joined);
    strides.insert(strides.begin() + dim, strides[dim] * sizes[dim]);
    sizes.insert(sizes.begin() + dim, count);
    c.AddStrided(ResultType(p), sizes, strides);
    return absl::OkStatus();
  }
  sizes.insert(sizes.begin() + dim, count);
  c.Add(ResultType(p), sizes);
  return absl::OkStatus();
}

absl::Status Gather(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("index"));
  // An index without elements may have any rank.
  const bool empty = std::find(index.sizes->begin(), index.sizes->end(), Expr(0)) != index.sizes->end();
  if (c.call.Find("dim") != nullptr && !empty && std::max(self.rank(), 1) != std::max(index.rank(), 1))
    return c.call.Error("Index tensor must have the same number of dimensions as input tensor");
  c.Add(*self.dtype, *index.sizes);
  return absl::OkStatus();
}

absl::Status IndexSelect(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("index"));
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", self.rank()));
  std::vector<Expr> sizes = *self.sizes;
  const Expr n = index.rank() == 0 ? Expr(1) : (*index.sizes)[0];
  if (!sizes.empty()) sizes[dim] = n;
  c.Add(*self.dtype, sizes);
  return absl::OkStatus();
}

absl::Status Embedding(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType weight, c.call.GetTensor("weight"));
  SMELT_ASSIGN_OR_RETURN(TensorType indices, c.call.GetTensor("indices"));
  if (weight.rank() != 2) return c.call.Error("'weight' must be 2-D");
  std::vector<Expr> sizes = *indices.sizes;
  sizes.push_back((*weight.sizes)[1]);
  c.Add(*weight.dtype, sizes);
  return absl::OkStatus();
}

absl::Status EmbeddingBackward(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType grad, c.call.GetTensor("grad_output"));
  SMELT_ASSIGN_OR_RETURN(Expr rows, c.call.GetExpr("num_weights"));
  c.Add(*grad.dtype, {rows, grad.sizes->back()});
  return absl::OkStatus();
}

absl::Status Index(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  const OpArg& list = c.call.arg(1);
  std::vector<std::optional<Geo>> indices;
  int dims = 0;
  bool unknown = false;
  for (const OpArg& e : list.elements) {
    if (e.IsNone()) {
      ++dims;
      indices.push_back(std::nullopt);
      continue;
    }
    if (!e.IsTensor() || !e.tensor.dtype || !e.tensor.sizes)
      return c.call.Error("an index is not a tensor of known dtype and sizes");
    if (*e.tensor.dtype == DType::kBool || *e.tensor.dtype == DType::kUInt8) {
      unknown = true;  // as many as are true
      dims += e.tensor.rank();
      continue;
    }
    if (dims >= self.rank()) return c.call.Error("too many indices for tensor");
    indices.push_back(GeoOf(c.decide, e.tensor));
    ++dims;
  }
  if (dims > self.rank())
    return c.call.Error(absl::StrCat("too many indices for tensor of dimension ", self.rank(), " (got ", dims, ")"));
  if (unknown) {
    TensorType t;
    t.dtype = self.dtype;
    c.AddUnknown(t);
    return absl::OkStatus();
  }
  if (std::all_of(indices.begin(), indices.end(), [](const auto& i) { return !i.has_value(); })) {
    AddLike(c, *self.dtype, self, Format::kPreserve);
    return absl::OkStatus();
  }
  auto out = view_rules::IndexedOutput<SymbolicDecide>(c.decide, GeoOf(c.decide, self), indices);
  if (!out.ok()) return ErrorIn(c.call, out.status());
  c.AddStrided(*self.dtype, out->sizes, out->strides);
  return absl::OkStatus();
}

absl::Status Take(Ctx& c) { return Gather(c); }

// Checks that a dim of n elements has the elements that its padding repeats; `pad` is the wider of its two sides.
absl::Status CheckPadding(Ctx& c, const Expr& n, int64_t pad) {
  const std::string& name = c.call.op().name();
  if (!n.IsConstant() || name == "aten::constant_pad_nd" || pad <= 0) return absl::OkStatus();
  const int64_t size = *n.Constant();
  if (size == 0) return c.call.Error("Expected a dim that is not empty: there is nothing to pad it with");
  if (absl::StartsWith(name, "aten::reflection") && pad >= size) {
    return c.call.Error(absl::StrCat("Padding size should be less than the corresponding input dimension, but got ",
                                     pad, " for a dim of ", size));
  }
  if (name == "aten::_pad_circular" && pad > size)
    return c.call.Error("Padding value causes wrapping around more than once.");
  return absl::OkStatus();
}

absl::Status Pad(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, c.call.GetExprs(c.call.IndexOf("pad") >= 0 ? "pad" : "padding"));
  std::vector<Expr> sizes = *self.sizes;
  if (pad.size() % 2 != 0 || pad.size() / 2 > sizes.size()) {
    return c.call.Error(
        absl::StrCat("Length of pad must be even and at most twice the number of dimensions, got ", pad.size()));
  }
  bool crops = true;  // and pads nowhere: PyTorch clones a part
  const std::string& name = c.call.op().name();
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Expr& n = sizes[sizes.size() - 1 - i];
    SMELT_RETURN_IF_ERROR(
        CheckPadding(c, n, std::max(pad[2 * i].Constant().value_or(0), pad[2 * i + 1].Constant().value_or(0))));
    n = n + pad[2 * i] + pad[2 * i + 1];
    if (n.IsConstant() && *n.Constant() < 0) return c.call.Error("the padding makes a size negative");
    crops = crops && pad[2 * i].Constant().value_or(1) <= 0 && pad[2 * i + 1].Constant().value_or(1) <= 0;
  }
  if (crops && name == "aten::constant_pad_nd") {
    self.sizes = std::move(sizes);
    AddLike(c, *self.dtype, self, Format::kPreserve);
    return absl::OkStatus();
  }
  if (name == "aten::_pad_circular") {
    c.Add(*self.dtype, sizes);
  } else {
    c.Add(*self.dtype, sizes, Suggest(c, self));
  }
  return absl::OkStatus();
}

absl::Status Repeat(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> repeats,
                         c.call.GetExprs(c.call.IndexOf("repeats") >= 0 ? "repeats" : "dims"));
  std::vector<Expr> sizes = *self.sizes;
  if (c.call.op().name() == "aten::tile" && repeats.size() < sizes.size())
    repeats.insert(repeats.begin(), sizes.size() - repeats.size(), Expr(1));
  if (repeats.size() < sizes.size()) {
    return c.call.Error("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  }
  sizes.insert(sizes.begin(), repeats.size() - sizes.size(), Expr(1));
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes[i] * repeats[i];
  c.Add(*self.dtype, sizes);
  return absl::OkStatus();
}

// VIEW_scatter(self, src, ...): src has the sizes of VIEW(self, ...).
absl::Status ViewScatter(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  const Geo g = GeoOf(c.decide, self);
  const auto view = BuildScatteredView(c.call, SymbolicGeometry{*self.dtype, g.sizes, g.strides, Expr(0)}, c.decide);
  if (absl::IsInvalidArgument(view.status())) return view.status();
  return SameAs("self")(c);
}

absl::Status BackwardSizes(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType grad, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("input_sizes"));
  c.Add(*grad.dtype, sizes);
  return absl::OkStatus();
}

}  // namespace

// The table of rules, some of which are so short that they stand in it.
void AddMovementTypeRules(RuleTable& r) {
  AddRule(r, "cat concat concatenate", Cat);
  AddRule(r, "stack", Stack);
  AddRule(r, "gather take take_along_dim", Gather);
  r["aten::take"] = Take;
  AddRule(r, "take_along_dim", [](Ctx& c) -> absl::Status {
    if (c.call.IsNone("dim")) {
      SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
      SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("indices"));
      c.Add(*self.dtype, {Product(*index.sizes)});
      return absl::OkStatus();
    }
    SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
    SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("indices"));
    SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", self.rank()));
    std::vector<Expr> a = *self.sizes, b = *index.sizes;
    if (a.size() != b.size()) return c.call.Error("input and indices should have the same number of dimensions");
    if (a.empty()) return c.call.Error("Dimension specified as 0 but tensor has no dimensions");
    a[dim] = 1;
    const Expr n = b[dim];
    b[dim] = 1;
    auto sizes = view_rules::BroadcastSizes<SymbolicDecide>(c.decide, std::vector<std::vector<Expr>>{a, b});
    if (!sizes.ok()) return ErrorIn(c.call, sizes.status());
    (*sizes)[dim] = n;
    c.Add(*self.dtype, *sizes);
    return absl::OkStatus();
  });
  AddRule(r, "index_select", IndexSelect);
  AddRule(r, "embedding", Embedding);
  AddRule(r, "embedding_dense_backward", EmbeddingBackward);
  AddRule(r, "index _unsafe_index", Index);
  AddRule(r, "index_put _unsafe_index_put _index_put_impl index_fill put", SameAs("self"));
  AddRule(r, "scatter scatter_add scatter_reduce index_add index_copy index_reduce logcumsumexp", SameAs("self"));
  AddRule(r, "roll", Roll);
  AddRule(r, "triu tril", [same = SameAs("self")](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
    if (self.rank() < 2) return c.call.Error("input tensor must have at least 2 dimensions");
    return same(c);
  });
  AddRule(r, "index_reduce index_copy index_add", SameAs("self"));
  AddRule(r, "masked_scatter", [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
    SMELT_ASSIGN_OR_RETURN(TensorType mask, c.call.GetTensor("mask"));
    auto sizes =
        view_rules::BroadcastSizes<SymbolicDecide>(c.decide, std::vector<std::vector<Expr>>{*self.sizes, *mask.sizes});
    if (!sizes.ok()) return ErrorIn(c.call, sizes.status());
    c.Add(*self.dtype, *sizes);
    return absl::OkStatus();
  });
  AddRule(r,
          "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
          "replication_pad3d",
          Pad);
  AddRule(r, "_pad_circular", Pad);
  AddRule(r, "flip", SameAs("self"));
  AddRule(r, "repeat tile", Repeat);
  AddRule(r, "slice_scatter select_scatter diagonal_scatter as_strided_scatter", ViewScatter);
  AddRule(r, "slice_backward select_backward diagonal_backward unfold_backward", BackwardSizes);
  AddRule(r, "channel_shuffle", SameAs("self"));
  AddRule(r,
          "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward "
          "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward "
          "upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward "
          "upsample_bicubic2d_backward _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward",
          [](Ctx& c) -> absl::Status {
            SMELT_ASSIGN_OR_RETURN(TensorType grad, TensorArgument(c, 0));
            SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("input_size"));
            c.Add(*grad.dtype, sizes);
            return absl::OkStatus();
          });
  AddRule(r, "bernoulli uniform exponential normal_functional geometric log_normal cauchy random", SameAs("self"));
  AddRule(r, "fill_diagonal_", [](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
    if (self.rank() < 2) return c.call.Error("dimensions must larger than 1");
    for (int d = 1; self.rank() > 2 && d < self.rank(); ++d) {
      if ((*self.sizes)[d].IsConstant() && (*self.sizes)[0].IsConstant() && (*self.sizes)[d] != (*self.sizes)[0])
        return c.call.Error("all dimensions of input must be of equal length");
    }
    const Geo g = GeoOf(c.decide, self);
    c.AddStrided(*self.dtype, g.sizes, g.strides);
    return absl::OkStatus();
  });
}

}  // namespace smelt::op_internal
