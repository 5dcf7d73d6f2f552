#include "smelt/core/op/infer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

using Geo = ExprGeometry;
using Outputs = std::vector<InferredOutput>;
using op_internal::NumberDType;
using op_internal::PromotionOf;

// c10::MemoryFormat.
enum class Format { kContiguous = 0, kPreserve = 1, kChannelsLast = 2, kChannelsLast3d = 3 };

struct Ctx {
  const OpCall& call;
  SymbolicDecide& decide;
  Outputs out;

  // A contiguous result, or one in the channels-last layout.
  void Add(DType t, std::vector<Expr> sizes, Format f = Format::kContiguous) {
    const bool last =
        (f == Format::kChannelsLast && sizes.size() == 4) || (f == Format::kChannelsLast3d && sizes.size() == 5);
    std::vector<Expr> strides =
        last ? view_rules::ChannelsLastStrides(decide, sizes) : view_rules::ContiguousStrides(decide, sizes);
    AddStrided(t, std::move(sizes), std::move(strides));
  }
  void AddStrided(DType t, std::vector<Expr> sizes, std::vector<Expr> strides) {
    out.push_back({Type::Tensor(t, std::move(sizes), std::move(strides)), std::nullopt, {}});
  }
  void AddInt(Expr e) { out.push_back({Type::Int(), std::move(e), {}}); }
  void AddUnknown(TensorType t) { out.push_back({Type::Tensor(std::move(t)), std::nullopt, {}}); }
};

using Rule = std::function<absl::Status(Ctx&)>;

Geo GeoOf(SymbolicDecide& decide, const TensorType& t) {
  Geo g;
  g.sizes = *t.sizes;
  g.strides = t.strides ? *t.strides : view_rules::ContiguousStrides(decide, g.sizes);
  return g;
}

Format Suggest(Ctx& c, const TensorType& t) {
  const Geo g = GeoOf(c.decide, t);
  if (g.rank() != 4 && g.rank() != 5) return Format::kContiguous;
  if (!view_rules::IsChannelsLast(c.decide, g)) return Format::kContiguous;
  // Both layouts at once (one channel, one pixel): PyTorch asks the strides, in the order that NHWC has.
  if (view_rules::IsContiguous(c.decide, g)) {
    const std::vector<Expr> last = view_rules::ChannelsLastStrides(c.decide, g.sizes);
    if (g.strides != last) return Format::kContiguous;
  }
  return g.rank() == 4 ? Format::kChannelsLast : Format::kChannelsLast3d;
}

absl::StatusOr<Format> FormatArg(Ctx& c, Format d) {
  SMELT_ASSIGN_OR_RETURN(int64_t f, c.call.GetIntOr("memory_format", static_cast<int64_t>(d)));
  return static_cast<Format>(f);
}

// A result like `t` in the format asked for.
void AddLike(Ctx& c, DType dtype, const TensorType& t, Format f) {
  if (f == Format::kPreserve) {
    c.AddStrided(dtype, *t.sizes, view_rules::PreservedStrides(c.decide, GeoOf(c.decide, t)));
  } else {
    c.Add(dtype, *t.sizes, f);
  }
}

absl::StatusOr<TensorType> TensorArgument(Ctx& c, int i) {
  const OpArg& a = c.call.arg(i);
  if (!a.IsTensor() || !a.tensor.dtype || !a.tensor.sizes) {
    return c.call.Error(absl::StrCat("argument ", i, ": a tensor of known dtype and sizes is expected"));
  }
  return a.tensor;
}

absl::StatusOr<int> Dim(Ctx& c, absl::string_view name, int rank, int64_t d = 0) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetIntOr(name, d));
  auto w = view_rules::WrapDim(dim, rank);
  if (!w.ok()) return c.call.Error(w.status().message());
  return *w;
}

// --- pointwise ---

// Numbers that PyTorch wraps into 0-dim tensors take part in choosing strides.
bool WrapsNumbers(OpName op) {
  static const auto* const kNames = new absl::flat_hash_map<std::string, bool>([] {
    absl::flat_hash_map<std::string, bool> m;
    for (absl::string_view n : absl::StrSplit("add sub subtract rsub mul multiply div divide true_divide floor_divide "
                                              "remainder fmod eq ne lt le gt ge not_equal less less_equal "
                                              "greater greater_equal bitwise_and bitwise_or bitwise_xor __and__ __or__ "
                                              "__xor__ bitwise_left_shift bitwise_right_shift __lshift__ "
                                              "__rshift__ copysign maximum minimum atan2 where logical_and logical_or "
                                              "logical_xor xlogy fmax fmin special_xlog1py heaviside",
                                              ' ')) {
      m[absl::StrCat("aten::", n)] = true;
    }
    return m;
  }());
  return kNames->contains(op.name());
}

absl::Status KeepStrides(Ctx& c);

// dtypes of the results, complex numbers included.
absl::StatusOr<std::vector<DType>> PointwiseDTypes(const OpCall& call) {
  auto m = BuildPointwise(call);
  if (m.ok()) return m->results;
  bool complex = false;
  std::vector<PromotionOperand> p;
  for (int i = 0; i < static_cast<int>(call.args().size()); ++i) {
    const OpArg& a = call.arg(i);
    if (!a.IsTensor() && !(a.IsScalar() && i < 2)) continue;
    p.push_back(PromotionOf(a));
    complex |= IsComplex(p.back().dtype);
  }
  if (std::optional<DType> t = call.GetDType("dtype")) return std::vector<DType>{*t};
  if (!complex) return m.status();
  const std::string& n = call.op().name();
  for (const char* b : {"aten::eq", "aten::ne", "aten::isnan", "aten::isinf", "aten::isfinite", "aten::isreal",
                        "aten::logical_not", "aten::logical_and", "aten::logical_or", "aten::logical_xor"}) {
    if (n == b) return std::vector<DType>{DType::kBool};
  }
  if (n == "aten::where") p.erase(p.begin());
  if (n == "aten::copy" || n == "aten::fill" || n == "aten::zero" || n == "aten::masked_fill")
    return std::vector<DType>{p[0].dtype};
  const DType t = ResultType(p);
  if (n == "aten::abs" || n == "aten::angle") return std::vector<DType>{RealOf(t)};
  return std::vector<DType>{t};
}

absl::Status InferPointwise(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<DType> dtypes, PointwiseDTypes(c.call));
  const std::string& name = c.call.op().name();
  // Results that take the form of their first argument.
  if (name == "aten::copy") return KeepStrides(c);
  if (name == "aten::fill" || name == "aten::zero") {
    SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
    AddLike(c, dtypes[0], self, Format::kPreserve);
    return absl::OkStatus();
  }
  if (name == "aten::_to_copy" || name == "aten::clone" || name == "prims::convert_element_type") {
    SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kPreserve));
    AddLike(c, dtypes[0], self, f);
    return absl::OkStatus();
  }
  std::vector<Geo> operands;
  std::vector<std::vector<Expr>> shapes;
  const bool wraps = WrapsNumbers(c.call.op());
  for (int i = 0; i < static_cast<int>(c.call.args().size()); ++i) {
    const OpArg& a = c.call.arg(i);
    if (a.IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, i));
      operands.push_back(GeoOf(c.decide, t));
      shapes.push_back(*t.sizes);
    } else if (a.IsScalar() && wraps && (i < 2 || name == "aten::where") && i < 3) {
      operands.push_back(Geo());
    }
  }
  if (operands.empty()) return c.call.Error("no tensor argument");
  if (name == "aten::rsub" && operands.size() == 2) std::swap(operands[0], operands[1]);
  if (name == "aten::masked_fill" || name == "aten::lift_fresh_copy" || name == "aten::log_sigmoid" ||
      name == "aten::detach_copy" || name == "aten::alias_copy") {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, view_rules::BroadcastSizes<SymbolicDecide>(c.decide, shapes));
    c.Add(dtypes[0], sizes);
    return absl::OkStatus();
  }
  auto g = view_rules::PointwiseOutput<SymbolicDecide>(c.decide, operands);
  if (!g.ok()) return c.call.Error(g.status().message());
  for (DType t : dtypes) c.AddStrided(t, g->sizes, g->strides);
  return absl::OkStatus();
}

absl::Status InferReduction(Ctx& c) {
  ReductionMeaning m;
  auto built = BuildReduction(c.call);
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (built.ok()) {
    m = *std::move(built);
  } else if (IsComplex(*self.dtype)) {
    // The same call on real numbers has the dims.
    std::vector<OpArg> args = c.call.args();
    args[0].tensor.dtype = RealOf(*self.dtype);
    SMELT_ASSIGN_OR_RETURN(m, BuildReduction(OpCall(c.call.op(), args)));
    for (DType& t : m.results) {
      if (c.call.GetDType("dtype")) continue;
      if (IsFloating(t) && !absl::StrContains(c.call.op().name(), "norm")) t = *self.dtype;
    }
  } else {
    return built.status();
  }
  std::vector<Expr> sizes;
  for (int i = 0; i < self.rank(); ++i) {
    const bool reduced = std::find(m.dims.begin(), m.dims.end(), i) != m.dims.end();
    if (!reduced || m.is_scan) {
      sizes.push_back((*self.sizes)[i]);
    } else if (m.keepdim) {
      sizes.push_back(1);
    }
    if (reduced && m.needs_elements && (*self.sizes)[i] == Expr(0)) {
      bool empty_result = false;
      for (int k = 0; k < self.rank(); ++k) {
        if (std::find(m.dims.begin(), m.dims.end(), k) == m.dims.end()) empty_result |= (*self.sizes)[k] == Expr(0);
      }
      if (!empty_result || !c.call.IsNone("dim")) {
        return c.call.Error("cannot reduce over a dim of size 0: the operation has no identity");
      }
    }
  }
  for (DType t : m.results) c.Add(t, sizes);
  return absl::OkStatus();
}

absl::Status InferView(Ctx& c) {
  int base_arg = 0;
  SMELT_ASSIGN_OR_RETURN(TensorType base, TensorArgument(c, base_arg));
  const Geo g = GeoOf(c.decide, base);
  SymbolicGeometry s;
  s.dtype = *base.dtype;
  s.sizes = g.sizes;
  s.strides = g.strides;
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildView(c.call, s, c.decide));
  if (m.is_list) {
    InferredOutput list;
    list.type = Type::List(Type::Tensor());
    for (SymbolicGeometry& o : m.outputs) list.elements.push_back(Type::Tensor(o.dtype, o.sizes, o.strides));
    c.out.push_back(std::move(list));
  } else {
    for (SymbolicGeometry& o : m.outputs) c.AddStrided(o.dtype, o.sizes, o.strides);
  }
  return absl::OkStatus();
}

// --- factories ---

DType DTypeOr(Ctx& c, DType d) { return c.call.GetDType("dtype").value_or(d); }

absl::Status FactorySizes(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  for (const Expr& e : sizes) {
    if (e.IsConstant() && *e.Constant() < 0) {
      return c.call.Error(absl::StrCat("Trying to create tensor with negative dimension ", *e.Constant()));
    }
  }
  DType t = DTypeOr(c, DType::kFloat32);
  const OpArg* self = c.call.Find("self");
  if (self != nullptr && self->IsTensor() && self->tensor.dtype) t = DTypeOr(c, *self->tensor.dtype);
  if (c.call.op().name() == "aten::full" && !c.call.GetDType("dtype")) {
    t = NumberDType(c.call.Find("fill_value")->kind);
    if (t == DType::kFloat64) t = DType::kFloat32;
    if (t == DType::kComplex128) t = DType::kComplex64;
  }
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kContiguous));
  c.Add(t, sizes, f);
  return absl::OkStatus();
}

absl::Status FactoryLike(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kPreserve));
  AddLike(c, DTypeOr(c, *self.dtype), self, f);
  return absl::OkStatus();
}

absl::Status EmptyStrided(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> strides, c.call.GetExprs("stride"));
  const OpArg* self = c.call.Find("self");
  const DType d = self != nullptr && self->IsTensor() ? *self->tensor.dtype : DType::kFloat32;
  if (sizes.size() != strides.size()) return c.call.Error("size and stride have different lengths");
  c.AddStrided(DTypeOr(c, d), sizes, strides);
  return absl::OkStatus();
}

absl::Status ScalarTensor(Ctx& c) {
  c.Add(DTypeOr(c, DType::kFloat32), {});
  return absl::OkStatus();
}

absl::Status Arange(Ctx& c) {
  bool real = false;
  std::vector<const OpArg*> numbers;
  for (const char* n : {"start", "end", "step"}) {
    const OpArg* a = c.call.Find(n);
    numbers.push_back(a);
    if (a != nullptr && a->kind == OpArg::Kind::kFloat) real = true;
  }
  const DType t = DTypeOr(c, real ? DType::kFloat32 : DType::kInt64);
  auto expr = [&](const OpArg* a, int64_t d) { return a == nullptr ? Expr(d) : a->expr; };
  for (const OpArg* a : numbers) {
    if (a != nullptr && !a->known) {
      TensorType unknown;
      unknown.dtype = t;
      c.AddUnknown(unknown);
      return absl::OkStatus();
    }
  }
  if (!real) {
    const Expr start = expr(numbers[0], 0), end = expr(numbers[1], 0), step = expr(numbers[2], 1);
    if (step == Expr(0)) return c.call.Error("step must be nonzero");
    Expr n = FloorDiv(end - start + step - Expr(step.IsConstant() && *step.Constant() < 0 ? -1 : 1), step);
    if (n.IsConstant() && *n.Constant() < 0)
      return c.call.Error("upper bound and lower bound inconsistent with step sign");
    c.Add(t, {n});
    return absl::OkStatus();
  }
  auto number = [&](const OpArg* a, double d) { return a == nullptr ? d : a->number; };
  const double n = std::ceil((number(numbers[1], 0) - number(numbers[0], 0)) / number(numbers[2], 1));
  if (!(n >= 0) || n > 1e15) return c.call.Error("upper bound and lower bound inconsistent with step sign");
  c.Add(t, {Expr(static_cast<int64_t>(n))});
  return absl::OkStatus();
}

// --- movement ---

absl::Status Cat(Ctx& c) {
  const OpArg& list = c.call.arg(0);
  if (list.elements.empty()) return c.call.Error("expected a non-empty list of Tensors");
  std::vector<PromotionOperand> p;
  int rank = 0;
  for (const OpArg& e : list.elements) {
    if (!e.IsTensor() || !e.tensor.sizes || !e.tensor.dtype)
      return c.call.Error("an element is not a tensor of known sizes");
    p.push_back(PromotionOf(e));
    // An empty 1-d tensor joins with anything.
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
  sizes.insert(sizes.begin() + dim, Expr(static_cast<int64_t>(list.elements.size())));
  c.Add(ResultType(p), sizes);
  return absl::OkStatus();
}

Rule SameAs(const char* name) {  // contiguous
  return [name](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType t, c.call.GetTensor(name));
    c.Add(*t.dtype, *t.sizes);
    return absl::OkStatus();
  };
}
Rule PreserveOf(const char* name) {
  return [name](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType t, c.call.GetTensor(name));
    AddLike(c, *t.dtype, t, Format::kPreserve);
    return absl::OkStatus();
  };
}
// The very strides, gaps included.
absl::Status KeepStrides(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
  const Geo g = GeoOf(c.decide, t);
  for (size_t d = 0; d < g.strides.size(); ++d) {
    if (g.strides[d] == Expr(0) && g.sizes[d] != Expr(1)) {
      AddLike(c, *t.dtype, t, Format::kPreserve);
      return absl::OkStatus();
    }
  }
  c.AddStrided(*t.dtype, g.sizes, g.strides);
  return absl::OkStatus();
}

absl::Status Gather(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("index"));
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

// x[a, :, b]: the indexed dims are replaced by the broadcast shape of the indices, at their place if they are next to
// each other, else in front.
absl::Status Index(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  const OpArg& list = c.call.arg(1);
  const Geo g = GeoOf(c.decide, self);
  struct Item {
    int dim;
    const OpArg* index;
  };
  std::vector<Item> items;
  int dim = 0;
  bool unknown = false;
  std::vector<std::vector<Expr>> shapes;
  for (const OpArg& e : list.elements) {
    if (e.IsNone()) {
      ++dim;
      continue;
    }
    if (!e.IsTensor() || !e.tensor.dtype || !e.tensor.sizes)
      return c.call.Error("an index is not a tensor of known dtype and sizes");
    if (*e.tensor.dtype == DType::kBool || *e.tensor.dtype == DType::kUInt8) {
      unknown = true;  // as many as are true
      dim += e.tensor.rank();
      continue;
    }
    if (dim >= self.rank()) return c.call.Error("too many indices for tensor");
    items.push_back({dim, &e});
    shapes.push_back(*e.tensor.sizes);
    ++dim;
  }
  if (dim > self.rank())
    return c.call.Error(absl::StrCat("too many indices for tensor of dimension ", self.rank(), " (got ", dim, ")"));
  if (unknown) {
    TensorType t;
    t.dtype = self.dtype;
    c.AddUnknown(t);
    return absl::OkStatus();
  }
  if (items.empty()) {
    AddLike(c, *self.dtype, self, Format::kPreserve);
    return absl::OkStatus();
  }
  auto shape = view_rules::BroadcastSizes<SymbolicDecide>(c.decide, shapes);
  if (!shape.ok()) return c.call.Error(shape.status().message());
  bool adjacent = true;
  for (size_t i = 1; i < items.size(); ++i) adjacent &= items[i].dim == items[i - 1].dim + 1;
  std::vector<bool> indexed(self.rank(), false);
  for (const Item& i : items) indexed[i.dim] = true;
  const int at = adjacent ? items[0].dim : 0;
  Geo source;
  int before = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int d = 0; d < self.rank(); ++d) {
      if (indexed[d] || (d < at) != (pass == 0)) continue;
      source.sizes.push_back(g.sizes[d]);
      source.strides.push_back(g.strides[d]);
      if (pass == 0) ++before;
    }
    if (pass == 0) {
      source.sizes.insert(source.sizes.end(), shape->begin(), shape->end());
      source.strides.insert(source.strides.end(), shape->size(), Expr(0));
    }
  }
  std::vector<Geo> operands = {source};
  const int after = source.rank() - before - static_cast<int>(shape->size());
  for (const Item& i : items) {
    auto expanded = view_rules::Expand(c.decide, GeoOf(c.decide, i.index->tensor), *shape);
    if (!expanded.ok()) return c.call.Error(expanded.status().message());
    Geo index;
    index.sizes.assign(before, Expr(1));
    index.strides.assign(before, Expr(0));
    index.sizes.insert(index.sizes.end(), expanded->sizes.begin(), expanded->sizes.end());
    index.strides.insert(index.strides.end(), expanded->strides.begin(), expanded->strides.end());
    index.sizes.insert(index.sizes.end(), after, Expr(1));
    index.strides.insert(index.strides.end(), after, Expr(0));
    operands.push_back(index);
  }
  auto out = view_rules::PointwiseOutput<SymbolicDecide>(c.decide, operands);
  if (!out.ok()) return c.call.Error(out.status().message());
  c.AddStrided(*self.dtype, out->sizes, out->strides);
  return absl::OkStatus();
}

absl::Status Take(Ctx& c) { return Gather(c); }

absl::Status Pad(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, c.call.GetExprs(c.call.IndexOf("pad") >= 0 ? "pad" : "padding"));
  std::vector<Expr> sizes = *self.sizes;
  if (pad.size() % 2 != 0 || pad.size() / 2 > sizes.size()) {
    return c.call.Error(
        absl::StrCat("Length of pad must be even and at most twice the number of dimensions, got ", pad.size()));
  }
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    Expr& n = sizes[sizes.size() - 1 - i];
    n = n + pad[2 * i] + pad[2 * i + 1];
    if (n.IsConstant() && *n.Constant() < 0) return c.call.Error("the padding makes a size negative");
  }
  c.Add(*self.dtype, sizes, Suggest(c, self));
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

absl::Status BackwardSizes(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType grad, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("input_sizes"));
  c.Add(*grad.dtype, sizes);
  return absl::OkStatus();
}

// --- library ---

absl::Status MatchInner(Ctx& c, const Expr& a, const Expr& b) {
  if (c.decide.Equal(a, b)) return absl::OkStatus();
  return c.call.Error(
      absl::StrCat("mat1 and mat2 shapes cannot be multiplied (", a.ToString(), " and ", b.ToString(), ")"));
}

absl::Status Mm(Ctx& c) {
  const int i = absl::StartsWith(c.call.op().name(), "aten::add") ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 2 || b.rank() != 2) return c.call.Error("mat1 and mat2 must be matrices");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[1], (*b.sizes)[0]));
  if (*a.dtype != *b.dtype) {
    return c.call.Error(
        absl::StrCat("expected m1 and m2 to have the same dtype, but got: ", Name(*a.dtype), " != ", Name(*b.dtype)));
  }
  c.Add(*a.dtype, {(*a.sizes)[0], (*b.sizes)[1]});
  return absl::OkStatus();
}

absl::Status Bmm(Ctx& c) {
  const int i = c.call.op().name() == "aten::baddbmm" || c.call.op().name() == "aten::addbmm" ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 3 || b.rank() != 3) return c.call.Error("batch1 and batch2 must be 3D tensors");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[2], (*b.sizes)[1]));
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[0], (*b.sizes)[0]));
  if (c.call.op().name() == "aten::addbmm") {
    c.Add(*a.dtype, {(*a.sizes)[1], (*b.sizes)[2]});
  } else {
    c.Add(*a.dtype, {(*a.sizes)[0], (*a.sizes)[1], (*b.sizes)[2]});
  }
  return absl::OkStatus();
}

absl::Status Mv(Ctx& c) {
  const int i = c.call.op().name() == "aten::addmv" ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 2 || b.rank() != 1) return c.call.Error("a matrix and a vector are expected");
  SMELT_RETURN_IF_ERROR(MatchInner(c, (*a.sizes)[1], (*b.sizes)[0]));
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

absl::Status Outer(Ctx& c) {
  const int i = c.call.op().name() == "aten::addr" ? 1 : 0;
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, i));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, i + 1));
  if (a.rank() != 1 || b.rank() != 1) return c.call.Error("1D tensors expected");
  c.Add(PromoteTypes(*a.dtype, *b.dtype), {(*a.sizes)[0], (*b.sizes)[0]});
  return absl::OkStatus();
}

// Spatial arguments: one number stands for all dims.
absl::StatusOr<std::vector<int64_t>> Spatial(Ctx& c, absl::string_view name, int n, absl::optional<int64_t> d = {}) {
  std::vector<int64_t> v;
  if (!c.call.IsNone(name)) {
    SMELT_ASSIGN_OR_RETURN(v, c.call.GetInts(name));
  }
  if (v.empty() && d) v = {*d};
  if (v.size() == 1) v.assign(n, v[0]);
  if (static_cast<int>(v.size()) != n) {
    return c.call.Error(absl::StrCat("argument \"", name, "\" has ", v.size(), " elements, expected ", n));
  }
  return v;
}

absl::Status Convolution(Ctx& c) {
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
  sizes.push_back(transposed ? (*w.sizes)[1] * groups : (*w.sizes)[0]);
  for (int d = 0; d < n; ++d) {
    const Expr in = (*x.sizes)[first + d], k = (*w.sizes)[2 + d];
    if (stride[d] <= 0) return c.call.Error("non-positive stride is not supported");
    Expr o = transposed ? (in - 1) * stride[d] - Expr(2 * padding[d]) + Expr(dilation[d]) * (k - 1) +
                              Expr(output_padding[d] + 1)
                        : FloorDiv(in + Expr(2 * padding[d]) - Expr(dilation[d]) * (k - 1) - 1, Expr(stride[d])) + 1;
    if (o.IsConstant() && *o.Constant() < 0) {
      return c.call.Error(
          "Calculated padded input size per channel is smaller than the kernel: Kernel size can't be greater than "
          "actual input size");
    }
    sizes.push_back(o);
  }
  Format f = Suggest(c, x);
  if (f == Format::kContiguous) f = Suggest(c, w);
  c.Add(*x.dtype, sizes, f);
  return absl::OkStatus();
}

absl::Status ConvolutionBackward(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType grad, c.call.GetTensor("grad_output"));
  SMELT_ASSIGN_OR_RETURN(TensorType x, c.call.GetTensor("input"));
  SMELT_ASSIGN_OR_RETURN(TensorType w, c.call.GetTensor("weight"));
  Format f = Suggest(c, x);
  if (f == Format::kContiguous) f = Suggest(c, w);
  c.Add(*x.dtype, *x.sizes, f);
  c.Add(*w.dtype, *w.sizes, f);
  c.Add(*grad.dtype, {(*grad.sizes)[grad.rank() - static_cast<int>(w.rank()) + 1]});
  return absl::OkStatus();
}

Expr PoolSize(const Expr& in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil_mode) {
  const Expr span = in + Expr(2 * p) - Expr(d * (k - 1)) - 1;
  Expr out = FloorDiv(span + Expr(ceil_mode ? s - 1 : 0), Expr(s)) + 1;
  // The last window must begin inside the input or its left padding.
  if (ceil_mode && out.IsConstant() && in.IsConstant() && (*out.Constant() - 1) * s >= *in.Constant() + p)
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
    for (int d = 0; d < n; ++d) {
      Expr& o = sizes[x.rank() - n + d];
      if (stride[d] <= 0 || kernel[d] <= 0) return c.call.Error("kernel size and stride should be greater than zero");
      if (padding[d] > kernel[d] / 2) return c.call.Error("pad should be at most half of effective kernel size");
      o = PoolSize(o, kernel[d], stride[d], padding[d], dilation[d], ceil_mode);
      if (o.IsConstant() && *o.Constant() < 1) return c.call.Error("Output size is too small");
    }
    const Format f = n == 1 ? Format::kContiguous : Suggest(c, x);
    c.Add(*x.dtype, sizes, f);
    if (max) c.Add(DType::kInt64, sizes, f);
    return absl::OkStatus();
  };
}

Rule AdaptivePool(int n, bool max) {
  return [n, max](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, c.call.GetExprs("output_size"));
    if (out.size() == 1) out.assign(n, out[0]);
    if (x.rank() < n + 1) return c.call.Error(absl::StrCat("Expected at least ", n + 1, "D tensor"));
    std::vector<Expr> sizes = *x.sizes;
    for (int d = 0; d < n; ++d) sizes[x.rank() - n + d] = out[d];
    const Format f = Suggest(c, x);
    c.Add(*x.dtype, sizes, f);
    if (max) c.Add(DType::kInt64, sizes, f);
    return absl::OkStatus();
  };
}

// A gradient with the input's sizes and format.
Rule LikeInput(const char* name) {
  return [name](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType x, c.call.GetTensor(name));
    c.Add(*x.dtype, *x.sizes, Suggest(c, x));
    return absl::OkStatus();
  };
}

absl::Status Upsample(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
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
  c.Add(*x.dtype, sizes, Suggest(c, x));
  return absl::OkStatus();
}

absl::Status Sort(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
  if (c.call.op().name() != "aten::argsort") AddLike(c, *self.dtype, self, Format::kPreserve);
  AddLike(c, DType::kInt64, self, Format::kPreserve);
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

absl::Status NativeDropout(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  AddLike(c, *x.dtype, x, Format::kPreserve);
  AddLike(c, DType::kBool, x, Format::kPreserve);
  return absl::OkStatus();
}

absl::Status ComplexOfParts(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType a, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(TensorType b, TensorArgument(c, 1));
  std::vector<Geo> operands = {GeoOf(c.decide, a), GeoOf(c.decide, b)};
  auto g = view_rules::PointwiseOutput<SymbolicDecide>(c.decide, operands);
  if (!g.ok()) return c.call.Error(g.status().message());
  c.AddStrided(*a.dtype == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64, g->sizes, g->strides);
  return absl::OkStatus();
}

// gcd, polygamma and others that are elementwise but have no scalar function.
absl::Status Elementwise(Ctx& c) {
  std::vector<Geo> operands;
  std::vector<PromotionOperand> p;
  for (int i = 0; i < static_cast<int>(c.call.args().size()); ++i) {
    if (!c.call.arg(i).IsTensor()) continue;
    SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, i));
    operands.push_back(GeoOf(c.decide, t));
    p.push_back(PromotionOf(c.call.arg(i)));
  }
  if (operands.empty()) return c.call.Error("no tensor argument");
  auto g = view_rules::PointwiseOutput<SymbolicDecide>(c.decide, operands);
  if (!g.ok()) return c.call.Error(g.status().message());
  DType t = ResultType(p);
  const std::string& n = c.call.op().name();
  if (!IsFloating(t) && n != "aten::gcd" && n != "aten::lcm") t = DType::kFloat32;
  c.AddStrided(t, g->sizes, g->strides);
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

absl::Status TriIndices(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(int64_t rows, c.call.GetInt("row"));
  SMELT_ASSIGN_OR_RETURN(int64_t cols, c.call.GetInt("col"));
  SMELT_ASSIGN_OR_RETURN(int64_t offset, c.call.GetIntOr("offset", 0));
  if (rows < 0 || cols < 0 || rows > 1 << 20 || cols > 1 << 20) return c.call.Error("row and col must be in [0, 2^20]");
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
  const Expr n = self.sizes->back() + std::abs(offset);
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
    s[r - 3] = FloorDiv(s[r - 3], Expr(f * f));
    s[r - 2] = s[r - 2] * f;
    s[r - 1] = s[r - 1] * f;
  } else {
    s[r - 3] = s[r - 3] * (f * f);
    s[r - 2] = FloorDiv(s[r - 2], Expr(f));
    s[r - 1] = FloorDiv(s[r - 1], Expr(f));
  }
  c.Add(*self.dtype, s, Suggest(c, self));
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
    blocks = blocks * (FloorDiv((*x.sizes)[at + 1 + i] + Expr(2 * p[i] - d[i] * (k[i] - 1) - 1), Expr(s[i])) + 1);
  }
  std::vector<Expr> sizes(x.sizes->begin(), x.sizes->begin() + at);
  sizes.push_back((*x.sizes)[at] * (k[0] * k[1]));
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
  if (!sizes.ok()) return c.call.Error(sizes.status().message());
  sizes->push_back((*a.sizes)[a.rank() - 2]);
  sizes->push_back((*b.sizes)[b.rank() - 2]);
  c.Add(*a.dtype, *sizes);
  return absl::OkStatus();
}

// How many elements there are depends on data.
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
  Expr n;
  if (!c.call.IsNone("output_size")) {
    SMELT_ASSIGN_OR_RETURN(n, c.call.GetExpr("output_size"));
  } else if (!plain && repeats->kind == OpArg::Kind::kInt && repeats->known) {
    if (c.call.IsNone("dim")) {
      n = repeats->expr;
      for (const Expr& s : *x.sizes) n = n * s;
    } else {
      SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", x.rank()));
      n = x.rank() == 0 ? repeats->expr : (*x.sizes)[dim] * repeats->expr;
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

// --- composites whose types would be lost, or that need not be taken apart for them ---

// Of the input, contiguous, in the dtype asked for.
absl::Status Softmax(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t to_float, c.call.GetIntOr("half_to_float", 0));
  c.Add(to_float != 0 ? DType::kFloat32 : DTypeOr(c, *x.dtype), *x.sizes);
  return absl::OkStatus();
}

absl::Status NativeLayerNorm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shape, c.call.GetExprs("normalized_shape"));
  if (static_cast<int>(shape.size()) > x.rank()) return c.call.Error("normalized_shape has more dims than the input");
  std::vector<Expr> stats = *x.sizes;
  for (size_t i = stats.size() - shape.size(); i < stats.size(); ++i) {
    if (!c.decide.Equal(stats[i], shape[i - (stats.size() - shape.size())])) {
      return c.call.Error("the last dims of the input are not normalized_shape");
    }
    stats[i] = 1;
  }
  c.Add(*x.dtype, *x.sizes);
  if (c.call.op().name() == "aten::layer_norm") return absl::OkStatus();
  // Parameters in float32 with a half input: statistics in float32.
  DType t = *x.dtype;
  for (const char* n : {"weight", "bias"}) {
    const OpArg* a = c.call.Find(n);
    if (a != nullptr && a->IsTensor() && a->tensor.dtype) t = *a->tensor.dtype;
  }
  c.Add(t, stats);
  c.Add(t, stats);
  return absl::OkStatus();
}

absl::Status BatchNorm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  const std::string& n = c.call.op().name();
  if (x.rank() < 2 && n != "aten::instance_norm")
    return c.call.Error(absl::StrCat("expected at least a 2-d input, got ", x.rank(), "-d"));
  c.Add(*x.dtype, *x.sizes, Suggest(c, x));
  if (n == "aten::batch_norm" || n == "aten::instance_norm") return absl::OkStatus();
  bool training = n == "aten::_batch_norm_with_update" || n == "aten::_batch_norm_with_update_functional";
  if (c.call.IndexOf("training") >= 0) {
    SMELT_ASSIGN_OR_RETURN(training, c.call.GetBool("training"));
  }
  // Statistics are in the parameters' dtype: float32 for half inputs with float32 parameters.
  DType t = *x.dtype;
  for (const char* name : {"weight", "running_mean"}) {
    const OpArg* a = c.call.Find(name);
    if (a != nullptr && a->IsTensor() && a->tensor.dtype) t = *a->tensor.dtype;
  }
  const Expr channels = training ? (*x.sizes)[1] : Expr(0);
  c.Add(t, {channels});
  c.Add(t, {channels});
  if (absl::StrContains(n, "_update")) c.Add(DType::kUInt8, {Expr(0)});
  if (absl::EndsWith(n, "_functional")) {
    for (const char* name : {"running_mean", "running_var"}) {
      SMELT_ASSIGN_OR_RETURN(TensorType stat, c.call.GetTensor(name));
      c.Add(*stat.dtype, *stat.sizes);
    }
  }
  return absl::OkStatus();
}

// What view operators of the same name give, copied densely.
absl::Status ViewCopy(Ctx& c) {
  const std::string name(c.call.op().name().substr(0, c.call.op().name().size() - 5));
  const OpName view =
      OpName::Get(c.call.op().overload().empty() ? name : absl::StrCat(name, ".", c.call.op().overload()));
  if (name == "aten::view" && c.call.op().overload().empty()) {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
    auto r = view_rules::InferSizes(c.decide, *x.sizes, sizes);
    if (!r.ok()) return c.call.Error(r.status().message());
    c.Add(*x.dtype, *r);
    return absl::OkStatus();
  }
  const OpCall call(view, c.call.args());
  Ctx v{call, c.decide, {}};
  SMELT_RETURN_IF_ERROR(InferView(v));
  for (InferredOutput& o : v.out) {
    if (o.type.IsTensor()) {
      c.Add(*o.type.tensor().dtype, *o.type.tensor().sizes);
    } else {
      for (Type& e : o.elements) {
        const std::vector<Expr> sizes = *e.tensor().sizes;
        e = Type::Tensor(*e.tensor().dtype, sizes, view_rules::ContiguousStrides(c.decide, sizes));
      }
      c.out.push_back(o);
    }
  }
  return absl::OkStatus();
}

absl::Status AddReshaped(Ctx& c, const TensorType& x, const std::vector<Expr>& sizes) {
  auto r = view_rules::Reshape(c.decide, GeoOf(c.decide, x), sizes);
  if (!r.ok()) return c.call.Error(r.status().message());
  c.AddStrided(*x.dtype, r->geometry.sizes, r->geometry.strides);
  return absl::OkStatus();
}

absl::Status Reshape(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  std::vector<Expr> sizes;
  const std::string& n = c.call.op().name();
  if (n == "aten::reshape_as") {
    SMELT_ASSIGN_OR_RETURN(TensorType other, c.call.GetTensor("other"));
    sizes = *other.sizes;
  } else if (n == "aten::ravel") {
    sizes = {Expr(-1)};
  } else if (n == "aten::flatten") {
    SMELT_ASSIGN_OR_RETURN(int64_t start, c.call.GetIntOr("start_dim", 0));
    SMELT_ASSIGN_OR_RETURN(int64_t end, c.call.GetIntOr("end_dim", -1));
    auto f = view_rules::FlattenedSizes(c.decide, *x.sizes, start, end);
    if (!f.ok()) return c.call.Error(f.status().message());
    sizes = *f;
    if (sizes == *x.sizes) {
      const Geo g = GeoOf(c.decide, x);
      c.AddStrided(*x.dtype, g.sizes, g.strides);
      return absl::OkStatus();
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(sizes, c.call.GetExprs("shape"));
  }
  return AddReshaped(c, x, sizes);
}

absl::Status Atleast(Ctx& c) {
  if (!c.call.arg(0).IsTensor()) return c.call.Unsupported("a list of tensors");
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  if (x.rank() > 0 || c.call.op().name() != "aten::atleast_1d") {
    if (c.call.op().name() != "aten::atleast_1d") return c.call.Unsupported("has no rule for its types");
    const Geo g = GeoOf(c.decide, x);
    c.AddStrided(*x.dtype, g.sizes, g.strides);
    return absl::OkStatus();
  }
  return AddReshaped(c, x, {Expr(1)});
}

// The tensor itself where it already is as asked, else a copy.
absl::Status Contiguous(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kContiguous));
  const Geo g = GeoOf(c.decide, x);
  const bool already =
      f == Format::kContiguous ? view_rules::IsContiguous(c.decide, g) : view_rules::IsChannelsLast(c.decide, g);
  if (already) {
    c.AddStrided(*x.dtype, g.sizes, g.strides);
  } else {
    c.Add(*x.dtype, *x.sizes, f);
  }
  return absl::OkStatus();
}

absl::Status To(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  DType t = DTypeOr(c, *x.dtype);
  const OpArg* other = c.call.Find("other");
  if (other != nullptr && other->IsTensor() && other->tensor.dtype) t = *other->tensor.dtype;
  SMELT_ASSIGN_OR_RETURN(bool copy, c.call.GetBoolOr("copy", false));
  SMELT_ASSIGN_OR_RETURN(Format f, FormatArg(c, Format::kPreserve));
  const Geo g = GeoOf(c.decide, x);
  bool same = t == *x.dtype && !copy;
  if (same && f == Format::kContiguous) same = view_rules::IsContiguous(c.decide, g);
  if (same && f == Format::kChannelsLast) same = view_rules::IsChannelsLast(c.decide, g);
  if (same) {
    c.AddStrided(t, g.sizes, g.strides);
  } else {
    AddLike(c, t, x, f);
  }
  return absl::OkStatus();
}

absl::Status Dropout(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(bool train, c.call.GetBoolOr("train", false));
  const Geo g = GeoOf(c.decide, x);
  if (!train || false) {
    c.AddStrided(*x.dtype, g.sizes, g.strides);
  } else {
    AddLike(c, *x.dtype, x, Format::kPreserve);
  }
  return absl::OkStatus();
}

absl::Status AdaptiveAvgPool(Ctx& c) {
  const int n = c.call.op().name() == "aten::adaptive_avg_pool1d"   ? 1
                : c.call.op().name() == "aten::adaptive_avg_pool2d" ? 2
                                                                    : 3;
  return AdaptivePool(n, false)(c);
}

absl::Status Isclose(Ctx& c) {
  SMELT_RETURN_IF_ERROR(Elementwise(c));
  TensorType t = c.out[0].type.tensor();
  t.dtype = DType::kBool;
  c.out[0].type = Type::Tensor(t);
  return absl::OkStatus();
}

absl::Status Rot90(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(int64_t k, c.call.GetIntOr("k", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, c.call.GetInts("dims"));
  if (dims.size() != 2) return c.call.Error("expected total rotation dims == 2");
  SMELT_ASSIGN_OR_RETURN(int a, view_rules::WrapDim(dims[0], x.rank()));
  SMELT_ASSIGN_OR_RETURN(int b, view_rules::WrapDim(dims[1], x.rank()));
  const Geo g = GeoOf(c.decide, x);
  if ((k % 4 + 4) % 4 == 0) {
    c.Add(*x.dtype, g.sizes);
    return absl::OkStatus();
  }
  AddLike(c, *x.dtype, x, Format::kPreserve);  // flip
  if (k % 2 == 0) return absl::OkStatus();
  TensorType t = c.out[0].type.tensor();
  std::vector<Expr> sizes = *t.sizes, strides = *t.strides;
  std::swap(sizes[a], sizes[b]);
  std::swap(strides[a], strides[b]);
  c.out[0].type = Type::Tensor(*x.dtype, sizes, strides);
  return absl::OkStatus();
}

// Every element of a list as ForeachCalls says.
absl::Status ForeachRule(Ctx& c) {
  const FunctionSchema* schema = FindSchema(c.call.op());
  if (schema == nullptr || schema->returns.empty()) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(std::vector<OpCall> calls, ForeachCalls(c.call));
  InferredOutput list;
  list.type = Type::List(Type::Tensor());
  const SymbolRanges ranges;
  for (const OpCall& call : calls) {
    SMELT_ASSIGN_OR_RETURN(Outputs out, InferCall(call, ranges));
    if (out.empty()) return c.call.Unsupported("has no rule for its types");
    list.elements.push_back(out[0].type);
  }
  c.out.push_back(std::move(list));
  return absl::OkStatus();
}

// --- Python numbers ---

absl::StatusOr<Expr> NumElements(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
  Expr n(1);
  for (const Expr& s : *t.sizes) n = n * s;
  return n;
}

// An int that is known where both operands are.
Rule IntBinary(std::function<std::optional<Expr>(const Expr&, const Expr&)> f) {
  return [f](Ctx& c) -> absl::Status {
    const OpArg &a = c.call.arg(0), &b = c.call.arg(1);
    InferredOutput o;
    o.type = Type::Int();
    if (a.known && b.known && a.kind == OpArg::Kind::kInt && b.kind == OpArg::Kind::kInt) {
      o.expr = f(a.expr, b.expr);
      if (o.expr && o.expr->IsPoison()) o.expr.reset();
    }
    c.out.push_back(o);
    return absl::OkStatus();
  };
}

absl::Status SizeRule(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
  const bool stride = absl::EndsWith(c.call.op().name(), "stride");
  const std::vector<Expr> values = stride ? GeoOf(c.decide, t).strides : *t.sizes;
  if (c.call.IndexOf("dim") < 0) {
    c.out.push_back({Type::List(Type::Int()), std::nullopt, {}});
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", t.rank()));
  if (t.rank() == 0) return c.call.Error("Dimension specified as 0 but tensor has no dimensions");
  c.AddInt(values[dim]);
  return absl::OkStatus();
}

const absl::flat_hash_map<std::string, Rule>& Rules() {
  static const auto* const kRules = [] {
    auto* r = new absl::flat_hash_map<std::string, Rule>();
    // By full name where a name has a dot or is followed by one; else for every overload.
    auto add = [r](absl::string_view names, Rule rule) {
      for (absl::string_view n : absl::StrSplit(names, ' ', absl::SkipEmpty())) (*r)[absl::StrCat("aten::", n)] = rule;
    };
    add("zeros ones full empty new_zeros new_ones new_full new_empty", FactorySizes);
    add("zeros_like ones_like full_like empty_like rand_like randn_like randint_like", FactoryLike);
    add("empty_strided new_empty_strided", EmptyStrided);
    add("empty_permuted", [](Ctx& c) -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("size"));
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> order, c.call.GetInts("physical_layout"));
      std::vector<Expr> strides(sizes.size());
      Expr s(1);
      for (int i = static_cast<int>(order.size()) - 1; i >= 0; --i) {
        if (order[i] < 0 || order[i] >= static_cast<int64_t>(sizes.size()))
          return c.call.Error("physical_layout is not a permutation");
        strides[order[i]] = s;
        s = s * sizes[order[i]];
      }
      c.AddStrided(DTypeOr(c, DType::kFloat32), sizes, strides);
      return absl::OkStatus();
    });
    add("scalar_tensor", ScalarTensor);
    add("arange", Arange);
    add("eye", Eye);
    add("linspace logspace", Linspace);
    add("hann_window hamming_window blackman_window", Window);
    add("tril_indices triu_indices", TriIndices);
    add("rand randn randint randperm", RandomSizes);
    add("normal.float_float", RandomSizes);
    add("cat concat concatenate", Cat);
    add("stack", Stack);
    add("gather take take_along_dim", Gather);
    (*r)["aten::take"] = Take;
    add("take_along_dim", [](Ctx& c) -> absl::Status {
      if (c.call.IsNone("dim")) {
        SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
        SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("indices"));
        Expr n(1);
        for (const Expr& s : *index.sizes) n = n * s;
        c.Add(*self.dtype, {n});
        return absl::OkStatus();
      }
      SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
      SMELT_ASSIGN_OR_RETURN(TensorType index, c.call.GetTensor("indices"));
      SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, "dim", self.rank()));
      std::vector<Expr> a = *self.sizes, b = *index.sizes;
      if (a.size() != b.size()) return c.call.Error("input and indices should have the same number of dimensions");
      a[dim] = 1;
      const Expr n = b[dim];
      b[dim] = 1;
      auto sizes = view_rules::BroadcastSizes<SymbolicDecide>(c.decide, std::vector<std::vector<Expr>>{a, b});
      if (!sizes.ok()) return c.call.Error(sizes.status().message());
      (*sizes)[dim] = n;
      c.Add(*self.dtype, *sizes);
      return absl::OkStatus();
    });
    add("index_select", IndexSelect);
    add("embedding", Embedding);
    add("embedding_dense_backward", EmbeddingBackward);
    add("index _unsafe_index", Index);
    add("index_put _unsafe_index_put _index_put_impl index_fill put", PreserveOf("self"));
    add("scatter scatter_add scatter_reduce index_add index_copy index_reduce triu tril roll logcumsumexp",
        SameAs("self"));
    add("index_reduce index_copy index_add", PreserveOf("self"));
    add("masked_scatter", [](Ctx& c) -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(TensorType self, c.call.GetTensor("self"));
      SMELT_ASSIGN_OR_RETURN(TensorType mask, c.call.GetTensor("mask"));
      auto sizes = view_rules::BroadcastSizes<SymbolicDecide>(c.decide,
                                                              std::vector<std::vector<Expr>>{*self.sizes, *mask.sizes});
      if (!sizes.ok()) return c.call.Error(sizes.status().message());
      c.Add(*self.dtype, *sizes);
      return absl::OkStatus();
    });
    add("masked_select", DataDependent(DType::kFloat32, true, 1));
    add("nonzero argwhere", DataDependent(DType::kInt64, false, 1));
    add("unique_consecutive _unique2 unique_dim", DataDependent(DType::kInt64, true, 3));
    add("bincount", DataDependent(DType::kInt64, false, 1));
    add("constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
        "replication_pad3d",
        Pad);
    add("flip", PreserveOf("self"));
    add("repeat tile", Repeat);
    add("repeat_interleave", RepeatInterleave);
    add("slice_scatter select_scatter diagonal_scatter as_strided_scatter", KeepStrides);
    add("slice_backward select_backward diagonal_backward unfold_backward", BackwardSizes);
    add("diag_embed", DiagEmbed);
    add("one_hot", OneHot);
    add("pixel_shuffle pixel_unshuffle", PixelShuffle);
    add("channel_shuffle", LikeInput("self"));
    add("im2col", Im2col);
    add("col2im", Col2im);
    add("upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d "
        "upsample_bicubic2d upsample_trilinear3d "
        "_upsample_nearest_exact1d _upsample_nearest_exact2d",
        Upsample);
    add("upsample_nearest2d_backward upsample_bilinear2d_backward", [](Ctx& c) -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(TensorType grad, TensorArgument(c, 0));
      SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, c.call.GetExprs("input_size"));
      c.Add(*grad.dtype, sizes, Suggest(c, grad));
      return absl::OkStatus();
    });
    add("isin", IsIn);
    add("mm addmm", Mm);
    add("bmm baddbmm addbmm", Bmm);
    add("mv addmv", Mv);
    add("dot vdot", Dot);
    add("outer addr ger", Outer);
    add("convolution _convolution convolution_overrideable", Convolution);
    add("convolution_backward", ConvolutionBackward);
    add("max_pool2d_with_indices", Pool(2, true));
    add("max_pool3d_with_indices", Pool(3, true));
    add("avg_pool1d", Pool(1, false));
    add("avg_pool2d", Pool(2, false));
    add("avg_pool3d", Pool(3, false));
    add("_adaptive_avg_pool2d", AdaptivePool(2, false));
    add("_adaptive_avg_pool3d", AdaptivePool(3, false));
    add("adaptive_max_pool2d", AdaptivePool(2, true));
    add("max_pool2d_with_indices_backward avg_pool2d_backward _adaptive_avg_pool2d_backward "
        "adaptive_max_pool2d_backward",
        LikeInput("self"));
    add("sort argsort msort", Sort);
    add("topk", Topk);
    add("kthvalue median nanmedian mode", DimReduction);
    add("searchsorted bucketize", Bucketize);
    add("gcd lcm polygamma special_erfcx", Elementwise);
    add("complex polar", ComplexOfParts);
    add("cdist _cdist_forward", Cdist);
    add("native_dropout", NativeDropout);
    add("bernoulli", PreserveOf("self"));
    add("linalg_cross", Elementwise);
    add("softmax _softmax _safe_softmax log_softmax _log_softmax", Softmax);
    add("layer_norm native_layer_norm", NativeLayerNorm);
    add("batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training "
        "_native_batch_norm_legit_functional _batch_norm_with_update _batch_norm_with_update_functional "
        "_batch_norm_no_update "
        "instance_norm",
        BatchNorm);
    add("expand_copy permute_copy transpose_copy t_copy squeeze_copy unsqueeze_copy slice_copy select_copy split_copy "
        "split_with_sizes_copy unbind_copy unfold_copy diagonal_copy as_strided_copy view_as_real_copy view_copy",
        ViewCopy);
    add("reshape reshape_as flatten ravel", Reshape);
    add("atleast_1d", Atleast);
    add("contiguous", Contiguous);
    add("to type_as", To);
    add("dropout feature_dropout alpha_dropout feature_alpha_dropout", Dropout);
    add("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", AdaptiveAvgPool);
    add("isclose", Isclose);
    add("rot90", Rot90);
    add("fill_diagonal_", KeepStrides);
    add("equal is_same_size allclose is_nonzero", [](Ctx& c) -> absl::Status {
      c.out.push_back({Type::Bool(), std::nullopt, {}});
      return absl::OkStatus();
    });

    add("size stride sym_size sym_stride", SizeRule);
    add("numel sym_numel", [](Ctx& c) -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(Expr n, NumElements(c));
      c.AddInt(n);
      return absl::OkStatus();
    });
    add("dim", [](Ctx& c) -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
      c.AddInt(t.rank());
      return absl::OkStatus();
    });
    (*r)["aten::len.Tensor"] = [](Ctx& c) -> absl::Status {
      SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, 0));
      if (t.rank() == 0) return c.call.Error("len() of a 0-d tensor");
      c.AddInt((*t.sizes)[0]);
      return absl::OkStatus();
    };
    (*r)["aten::len.t"] = [](Ctx& c) -> absl::Status {
      InferredOutput o;
      o.type = Type::Int();
      const OpArg& a = c.call.arg(0);
      if (a.kind == OpArg::Kind::kIntList && a.known) {
        o.expr = Expr(static_cast<int64_t>(a.ints.size()));
      } else if (!a.element_values.empty()) {
        o.expr = Expr(static_cast<int64_t>(a.element_values.size()));
      }
      c.out.push_back(o);
      return absl::OkStatus();
    };
    auto some = [](Expr e) { return std::optional<Expr>(std::move(e)); };
    (*r)["aten::add.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(a + b); });
    (*r)["aten::sub.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(a - b); });
    (*r)["aten::mul.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(a * b); });
    (*r)["aten::floordiv.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(FloorDiv(a, b)); });
    (*r)["aten::remainder.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(Mod(a, b)); });
    (*r)["prim::min.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(Min(a, b)); });
    (*r)["prim::max.int"] = IntBinary([some](const Expr& a, const Expr& b) { return some(Max(a, b)); });
    (*r)["aten::neg.int"] = [](Ctx& c) -> absl::Status {
      const OpArg& a = c.call.arg(0);
      c.out.push_back({Type::Int(), a.known ? std::optional<Expr>(-a.expr) : std::nullopt, {}});
      return absl::OkStatus();
    };
    (*r)["aten::__getitem__.t"] = [](Ctx& c) -> absl::Status {
      const OpArg &list = c.call.arg(0), &i = c.call.arg(1);
      InferredOutput o;
      const std::optional<int64_t> constant = i.known ? i.expr.Constant() : std::nullopt;
      auto at = [&](size_t n) -> int64_t {
        return !constant ? -1 : *constant < 0 ? *constant + static_cast<int64_t>(n) : *constant;
      };
      if (list.kind == OpArg::Kind::kIntList) {
        o.type = Type::Int();
        if (const int64_t k = at(list.ints.size()); list.known && k >= 0 && k < static_cast<int64_t>(list.ints.size()))
          o.expr = list.ints[k];
      } else if (list.kind == OpArg::Kind::kFloatList) {
        o.type = Type::Float();
      } else if (list.kind == OpArg::Kind::kBoolList) {
        o.type = Type::Bool();
      } else if (list.kind == OpArg::Kind::kTensorList) {
        o.type = Type::Tensor();
        if (const int64_t k = at(list.elements.size());
            k >= 0 && k < static_cast<int64_t>(list.elements.size()) && list.elements[k].IsTensor()) {
          o.type = Type::Tensor(list.elements[k].tensor);
        }
      }
      c.out.push_back(o);
      return absl::OkStatus();
    };
    return r;
  }();
  return *kRules;
}

const Rule* FindRule(OpName op) {
  const auto& rules = Rules();
  if (absl::StartsWith(op.name(), "aten::_foreach_")) {
    static const Rule* const kForeach = new Rule(ForeachRule);
    return kForeach;
  }
  if (auto it = rules.find(op.full()); it != rules.end()) return &it->second;
  auto it = rules.find(op.name());
  return it == rules.end() ? nullptr : &it->second;
}

// A type from a schema, type variables unknown.
Type FromSchema(const Type& t) {
  if (t.kind() == TypeKind::kClass) return Type();
  return t;
}

ConstantValue ConstantOf(const OpArg& a) {
  switch (a.kind) {
    case OpArg::Kind::kInt:
      return a.expr.Constant().value_or(0);
    case OpArg::Kind::kFloat:
      return a.number;
    case OpArg::Kind::kBool:
      return a.number != 0;
    case OpArg::Kind::kComplex:
      return a.complex;
    case OpArg::Kind::kString:
      return a.string;
    case OpArg::Kind::kFloatList:
      return a.floats;
    case OpArg::Kind::kBoolList:
      return a.bools;
    case OpArg::Kind::kIntList: {
      std::vector<int64_t> v;
      for (const Expr& e : a.ints) v.push_back(e.Constant().value_or(0));
      return v;
    }
    default:
      return std::monostate();
  }
}

// An argument as a value of a scratch graph.
ValueId Materialize(Graph& g, const OpArg& a) {
  const NodeId end = g.block(g.top()).return_node;
  auto symbolic = [&](const Expr& e) {
    const ValueId v = g.AddInput("", Type::Int());
    g.SetExpr(v, e);
    return v;
  };
  if (a.IsTensor()) {
    TensorType t = a.tensor;
    if (t.sizes && !t.strides) t.strides = ContiguousStrides(*t.sizes);
    return g.AddInput("", Type::Tensor(t));
  }
  if (a.kind == OpArg::Kind::kTensorList) {
    std::vector<ValueId> elements;
    for (const OpArg& e : a.elements) elements.push_back(Materialize(g, e));
    return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Tensor())}))
        .outputs[0];
  }
  if (a.kind == OpArg::Kind::kInt && a.known && !a.expr.IsConstant()) return symbolic(a.expr);
  if (a.kind == OpArg::Kind::kIntList && a.known &&
      std::any_of(a.ints.begin(), a.ints.end(), [](const Expr& e) { return !e.IsConstant(); })) {
    std::vector<ValueId> elements;
    for (const Expr& e : a.ints)
      elements.push_back(e.IsConstant() ? InsertConstant(g, end, *e.Constant()) : symbolic(e));
    return g.node(g.InsertBefore(end, OpName::Get("prim::ListConstruct"), elements, {Type::List(Type::Int())}))
        .outputs[0];
  }
  if (a.IsScalar() && !a.known) {
    return g.AddInput("", a.kind == OpArg::Kind::kInt    ? Type::Int()
                          : a.kind == OpArg::Kind::kBool ? Type::Bool()
                                                         : Type::Float());
  }
  return InsertConstant(g, end, ConstantOf(a));
}

// A composite has the types of what it decomposes into.
absl::StatusOr<Outputs> InferByDecomposing(const OpCall& call, const FunctionSchema& schema,
                                           const SymbolRanges& ranges) {
  Graph g;
  g.symbols = ranges;
  const NodeId end = g.block(g.top()).return_node;
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(Materialize(g, a));
  std::vector<Type> types;
  for (const Argument& r : schema.returns) types.push_back(FromSchema(r.type));
  const NodeId n = g.InsertBefore(end, call.op(), args, types);
  for (ValueId v : g.node(n).outputs) g.AddOutput(v);
  auto changed = Decompose(g, n);
  if (!changed.ok()) return changed.status();
  if (!*changed) return call.Unsupported("has no rule for its types");
  Outputs out;
  for (ValueId v : g.outputs()) {
    InferredOutput o;
    o.type = g.value(v).type;
    o.expr = g.value(v).expr;
    if (auto elements = GetListElements(g, v)) {
      for (ValueId e : *elements) o.elements.push_back(g.value(e).type);
    }
    out.push_back(std::move(o));
  }
  return out;
}

absl::StatusOr<Outputs> Infer(const OpCall& call, SymbolicDecide& decide, const SymbolRanges& ranges) {
  Ctx c{call, decide, {}};
  const FunctionSchema* schema = FindSchema(call.op());
  const OpInfo& info = GetOpInfo(call.op());
  // Arguments whose sizes only data knows: results are not known either.
  auto unknown_sizes = [&] {
    for (const OpArg& a : call.args()) {
      if (a.IsTensor() && (!a.tensor.dtype || !a.tensor.sizes)) return true;
      for (const OpArg& e : a.elements) {
        if (e.IsTensor() && (!e.tensor.dtype || !e.tensor.sizes)) return true;
      }
    }
    return false;
  };
  auto give_up = [&]() -> absl::StatusOr<Outputs> {
    Outputs out;
    for (const Argument& r : schema->returns) out.push_back({FromSchema(r.type), std::nullopt, {}});
    // The dtype may be known all the same.
    std::vector<DType> dtypes;
    if (info.kind == OpKind::kPointwise) {
      if (auto t = PointwiseDTypes(call); t.ok()) dtypes = *t;
    } else if (info.kind == OpKind::kView && call.op().overload() != "dtype" && call.arg(0).tensor.dtype) {
      dtypes = {*call.arg(0).tensor.dtype};
    } else if (call.op().full() == "aten::cat" || call.op().full() == "aten::stack") {
      std::vector<PromotionOperand> p;
      for (const OpArg& e : call.arg(0).elements) p.push_back(PromotionOf(e));
      dtypes = {ResultType(p)};
    }
    for (size_t i = 0; i < dtypes.size() && i < out.size(); ++i) {
      if (!out[i].type.IsTensor()) continue;
      TensorType t;
      t.dtype = dtypes[i];
      out[i].type = Type::Tensor(t);
    }
    return out;
  };
  if (schema != nullptr && call.op().name().rfind("aten::", 0) == 0 && unknown_sizes() &&
      info.kind != OpKind::kScalar && info.kind != OpKind::kContainer) {
    return give_up();
  }

  absl::Status status;
  switch (info.kind) {
    case OpKind::kView:
      status = InferView(c);
      break;
    case OpKind::kReduction:
      status = InferReduction(c);
      break;
    case OpKind::kInplace:
    case OpKind::kOut: {
      // What is written is returned, with its own type.
      if (schema == nullptr) break;
      for (const Argument& r : schema->returns) {
        InferredOutput o;
        o.type = FromSchema(r.type);
        for (size_t i = 0; i < schema->arguments.size(); ++i) {
          const Argument& a = schema->arguments[i];
          if (!r.alias.before.empty() && a.alias.before == r.alias.before && call.arg(i).IsTensor()) {
            o.type = Type::Tensor(call.arg(i).tensor);
            // An out tensor takes the result's sizes.
            if (info.kind == OpKind::kOut) {
              auto functional = InferCall(
                  OpCall(info.functional, std::vector<OpArg>(call.args().begin(), call.args().begin() + i)), ranges);
              if (functional.ok() && c.out.size() < functional->size() && (*functional)[c.out.size()].type.IsTensor()) {
                TensorType t = (*functional)[c.out.size()].type.tensor();
                t.dtype = call.arg(i).tensor.dtype;
                if (call.arg(i).tensor.sizes != t.sizes) o.type = Type::Tensor(t);
              }
            }
          }
        }
        c.out.push_back(std::move(o));
      }
      return std::move(c.out);
    }
    case OpKind::kInplaceView: {
      OpCall view(info.functional, call.args());
      return InferCall(view, ranges);
    }
    case OpKind::kPointwise:
      status = InferPointwise(c);
      break;
    default: {
      const Rule* rule = FindRule(call.op());
      if (rule != nullptr) {
        status = (*rule)(c);
      } else if (call.op().full() == "aten::resize_" || call.op().full() == "aten::resize_as_") {
        SMELT_ASSIGN_OR_RETURN(TensorType self, TensorArgument(c, 0));
        std::vector<Expr> sizes;
        if (call.op().full() == "aten::resize_") {
          SMELT_ASSIGN_OR_RETURN(sizes, call.GetExprs("size"));
        } else {
          SMELT_ASSIGN_OR_RETURN(TensorType like, TensorArgument(c, 1));
          sizes = *like.sizes;
        }
        if (sizes == *self.sizes) {
          const Geo g = GeoOf(decide, self);
          c.AddStrided(*self.dtype, g.sizes, g.strides);
        } else {
          c.Add(*self.dtype, sizes);
        }
      } else if (call.op().name() == "aten::set_") {
        const OpArg& source = call.arg(call.op().overload().empty() ? 0 : 1);
        if (call.op().overload().empty()) {
          c.Add(call.arg(0).tensor.dtype.value_or(DType::kFloat32), {Expr(0)});
        } else if (!call.IsNone("size")) {
          SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("size"));
          std::vector<Expr> strides;
          if (!call.IsNone("stride")) {
            SMELT_ASSIGN_OR_RETURN(strides, call.GetExprs("stride"));
          }
          if (strides.size() == sizes.size()) {
            c.AddStrided(*source.tensor.dtype, sizes, strides);
          } else {
            c.Add(*source.tensor.dtype, sizes);
          }
        } else {
          c.out.push_back({Type::Tensor(source.tensor), std::nullopt, {}});
        }
      } else if (info.decomposes && schema != nullptr) {
        return InferByDecomposing(call, *schema, ranges);
      } else if (info.kind == OpKind::kRandom && schema != nullptr && schema->IsMutable()) {
        c.out.push_back({Type::Tensor(call.arg(0).tensor), std::nullopt, {}});
      } else if (schema != nullptr &&
                 (info.kind == OpKind::kScalar || info.kind == OpKind::kContainer || info.kind == OpKind::kOther)) {
        return give_up();
      } else if (info.kind == OpKind::kScalar) {
        c.out.push_back({Type::Int(), std::nullopt, {}});
      } else if (info.kind == OpKind::kUnknown) {
        return call.Unsupported("is not supported");
      } else {
        return call.Unsupported("has no rule for its types");
      }
    }
  }
  SMELT_RETURN_IF_ERROR(status);
  if (!decide.status().ok()) return call.Error(decide.status().message());
  return std::move(c.out);
}

// --- graphs ---

absl::Status Annotated(const Graph& g, NodeId n, absl::string_view message) {
  const Node& node = g.node(n);
  const std::string source = node.source != nullptr ? node.source->ToString() : "";
  return absl::InvalidArgumentError(
      absl::StrCat(node.op.full(), source.empty() ? "" : absl::StrCat(" (", source, ")"), ": ", message));
}

// What both types say.
Type Meet(const Type& a, const Type& b) {
  if (a == b) return a;
  if (!a.IsTensor() || !b.IsTensor()) return a.kind() == b.kind() ? a : Type();
  const TensorType &x = a.tensor(), &y = b.tensor();
  TensorType t;
  if (x.dtype == y.dtype) t.dtype = x.dtype;
  if (x.sizes && y.sizes && *x.sizes == *y.sizes) {
    t.sizes = x.sizes;
    if (x.strides && y.strides && *x.strides == *y.strides) t.strides = x.strides;
  }
  return Type::Tensor(t);
}

void SetTypeIfNew(Graph& g, ValueId v, const Type& t) {
  if (g.value(v).type != t) g.SetType(v, t);
}

absl::Status InferBlock(Graph& g, BlockId b);

absl::Status InferIf(Graph& g, NodeId n) {
  const auto blocks = g.node(n).blocks;
  for (BlockId b : blocks) SMELT_RETURN_IF_ERROR(InferBlock(g, b));
  const Node& node = g.node(n);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    std::optional<Type> t;
    for (BlockId b : node.blocks) {
      if (i >= g.results(b).size()) return Annotated(g, n, "a block has too few results");
      const Type& r = g.value(g.results(b)[i]).type;
      t = t ? Meet(*t, r) : r;
    }
    if (t) SetTypeIfNew(g, node.outputs[i], *t);
  }
  return absl::OkStatus();
}

// Carried values keep the type that their initial value and every round's result share.
absl::Status InferLoop(Graph& g, NodeId n, size_t first_input, size_t first_param, BlockId body, size_t first_result) {
  const size_t carried = g.node(n).outputs.size();
  if (g.node(n).inputs.size() < first_input + carried || g.params(body).size() < first_param + carried ||
      g.results(body).size() < first_result + carried) {
    return Annotated(g, n, "inputs, parameters and results do not match");
  }
  std::vector<Type> types;
  for (size_t i = 0; i < carried; ++i) types.push_back(g.value(g.node(n).inputs[first_input + i]).type);
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < carried; ++i) SetTypeIfNew(g, g.params(body)[first_param + i], types[i]);
    SMELT_RETURN_IF_ERROR(InferBlock(g, body));
    bool stable = true;
    for (size_t i = 0; i < carried; ++i) {
      Type t = Meet(types[i], g.value(g.results(body)[first_result + i]).type);
      stable &= t == types[i];
      types[i] = t;
    }
    if (stable) break;
  }
  for (size_t i = 0; i < carried; ++i) SetTypeIfNew(g, g.node(n).outputs[i], types[i]);
  return absl::OkStatus();
}

absl::Status InferControl(Graph& g, NodeId n) {
  const std::string& name = g.node(n).op.name();
  const Node& node = g.node(n);
  if (name == "prim::If") return InferIf(g, n);
  if (name == "prim::Loop") {
    if (node.blocks.empty()) return Annotated(g, n, "has no block");
    if (!g.params(node.blocks[0]).empty()) SetTypeIfNew(g, g.params(node.blocks[0])[0], Type::Int());
    return InferLoop(g, n, 2, 1, node.blocks[0], 1);
  }
  if (name == "smelt::cond") {
    // (pred, operands...): the operands are every block's parameters.
    for (BlockId b : node.blocks) {
      for (size_t i = 0; i < g.params(b).size() && i + 1 < node.inputs.size(); ++i) {
        SetTypeIfNew(g, g.params(b)[i], g.value(node.inputs[i + 1]).type);
      }
    }
    return InferIf(g, n);
  }
  if (name == "smelt::while_loop") {
    if (node.blocks.size() != 2) return Annotated(g, n, "has not two blocks");
    // Inputs beyond the carried ones are the same in every round.
    for (BlockId b : node.blocks) {
      for (size_t i = 0; i < g.params(b).size() && i < node.inputs.size(); ++i) {
        SetTypeIfNew(g, g.params(b)[i], g.value(node.inputs[i]).type);
      }
    }
    SMELT_RETURN_IF_ERROR(InferLoop(g, n, 0, 0, node.blocks[1], 0));
    for (size_t i = 0; i < g.node(n).outputs.size(); ++i) {
      SetTypeIfNew(g, g.params(node.blocks[0])[i], g.value(g.node(n).outputs[i]).type);
    }
    return InferBlock(g, node.blocks[0]);
  }
  return absl::OkStatus();
}

std::optional<std::vector<Expr>> ExprsAttribute(const Node& node, absl::string_view name) {
  const Attribute* a = node.FindAttribute(name);
  if (a == nullptr) return std::nullopt;
  if (const auto* e = std::get_if<std::vector<Expr>>(a)) return *e;
  if (const auto* i = std::get_if<std::vector<int64_t>>(a)) return std::vector<Expr>(i->begin(), i->end());
  return std::nullopt;
}

// Types of the elements of a list value, where its maker tells.
std::vector<Type> ElementTypes(const Graph& g, ValueId list) {
  std::vector<Type> types;
  if (auto elements = GetListElements(g, list)) {
    for (ValueId e : *elements) types.push_back(g.value(e).type);
    return types;
  }
  const NodeId def = g.value(list).def;
  if (g.IsParam(def)) return types;
  if (GetOpInfo(g.node(def).op).kind == OpKind::kView || GetOpInfo(g.node(def).op).decomposes) {
    auto call = OpCall::Of(g, def);
    if (!call.ok()) return types;
    SymbolicDecide decide(&g.symbols, g.symbol_hints);
    auto out = Infer(*call, decide, g.symbols);
    if (out.ok() && g.value(list).def_index < out->size()) types = (*out)[g.value(list).def_index].elements;
  }
  return types;
}

absl::Status InferBlock(Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) SMELT_RETURN_IF_ERROR(InferNode(g, n));
  return absl::OkStatus();
}

}  // namespace

namespace op_internal {
bool HasTypeRule(OpName op) { return FindRule(op) != nullptr; }
}  // namespace op_internal

absl::StatusOr<std::vector<InferredOutput>> InferCall(const OpCall& call, const SymbolRanges& ranges) {
  SymbolicDecide decide(&ranges);
  return Infer(call, decide, ranges);
}

absl::Status InferNode(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const std::string& name = node.op.name();
  if (name == "prim::Constant" || name == "smelt::size" || name == "smelt::FusionGroup") return absl::OkStatus();
  if (!node.blocks.empty()) return InferControl(g, n);
  if (name == "prim::ListConstruct") {
    const Type& t = g.value(node.outputs[0]).type;
    if (t.kind() != TypeKind::kList && !node.inputs.empty()) {
      const Type& first = g.value(node.inputs[0]).type;
      SetTypeIfNew(g, node.outputs[0], Type::List(first.IsTensor() ? Type::Tensor() : first));
    }
    return absl::OkStatus();
  }
  if (name == "prim::TupleConstruct") {
    std::vector<Type> types;
    for (ValueId v : node.inputs) types.push_back(g.value(v).type);
    SetTypeIfNew(g, node.outputs[0], Type::Tuple(std::move(types)));
    return absl::OkStatus();
  }
  if (name == "prim::ListUnpack") {
    const std::vector<Type> types = ElementTypes(g, node.inputs[0]);
    const Type& list = g.value(node.inputs[0]).type;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (i < types.size()) {
        SetTypeIfNew(g, node.outputs[i], types[i]);
      } else if (list.kind() == TypeKind::kList && g.value(node.outputs[i]).type.kind() == TypeKind::kAny) {
        SetTypeIfNew(g, node.outputs[i], list.element());
      }
      if (auto exprs = GetIntListExpr(g, node.inputs[0]); exprs && i < exprs->size())
        g.SetExpr(node.outputs[i], (*exprs)[i]);
    }
    return absl::OkStatus();
  }
  if (name == "prim::TupleUnpack") {
    const Type t = g.value(node.inputs[0]).type;
    if (t.kind() == TypeKind::kTuple) {
      for (size_t i = 0; i < node.outputs.size() && i < t.elements().size(); ++i)
        SetTypeIfNew(g, node.outputs[i], t.elements()[i]);
    }
    return absl::OkStatus();
  }
  if (name == "prim::TupleIndex") {
    const Type t = g.value(node.inputs[0]).type;
    if (t.kind() == TypeKind::kTuple && node.inputs.size() > 1) {
      auto i = GetIntExpr(g, node.inputs[1]);
      if (i && i->IsConstant()) {
        int64_t k = *i->Constant();
        if (k < 0) k += static_cast<int64_t>(t.elements().size());
        if (k >= 0 && k < static_cast<int64_t>(t.elements().size())) SetTypeIfNew(g, node.outputs[0], t.elements()[k]);
      }
    }
    return absl::OkStatus();
  }
  if (name == "smelt::view") {
    auto sizes = ExprsAttribute(node, "sizes"), strides = ExprsAttribute(node, "strides");
    const Attribute* dtype = node.FindAttribute("dtype");
    const auto* code = dtype == nullptr ? nullptr : std::get_if<int64_t>(dtype);
    if (!sizes || !strides || sizes->size() != strides->size())
      return Annotated(g, n, "attributes sizes and strides are missing or do not match");
    const TensorType& base = g.value(node.inputs[0]).type.tensor();
    std::optional<DType> t = code != nullptr ? DTypeFromScalarType(*code) : base.dtype;
    if (!t) return Annotated(g, n, "its dtype is not known");
    SetTypeIfNew(g, node.outputs[0], Type::Tensor(*t, *sizes, *strides));
    return absl::OkStatus();
  }
  if (name == "smelt::write_region") {
    SetTypeIfNew(g, node.outputs[0], g.value(node.inputs[0]).type);
    return absl::OkStatus();
  }
  if (name == "smelt::materialize") {
    auto strides = ExprsAttribute(node, "strides");
    const TensorType& value = g.value(node.inputs[0]).type.tensor();
    if (!value.dtype || !value.sizes) return Annotated(g, n, "the type of its argument is not known");
    SetTypeIfNew(
        g, node.outputs[0],
        strides ? Type::Tensor(*value.dtype, *value.sizes, *strides) : Type::Tensor(*value.dtype, *value.sizes));
    return absl::OkStatus();
  }

  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  // The elements of a list that another operator made.
  if (node.op.full() == "aten::__getitem__.t" && g.value(node.inputs[0]).type.kind() == TypeKind::kList &&
      g.value(node.inputs[0]).type.element().IsTensor()) {
    const std::vector<Type> types = ElementTypes(g, node.inputs[0]);
    auto i = GetIntExpr(g, node.inputs[1]);
    Type t = Type::Tensor();
    if (i && i->IsConstant()) {
      const int64_t size = static_cast<int64_t>(types.size()),
                    k = *i->Constant() < 0 ? *i->Constant() + size : *i->Constant();
      if (k >= 0 && k < size) t = types[k];
    }
    SetTypeIfNew(g, node.outputs[0], t);
    return absl::OkStatus();
  }
  SymbolicDecide decide(&g.symbols, g.symbol_hints);
  SMELT_ASSIGN_OR_RETURN(Outputs out, Infer(call, decide, g.symbols));
  if (out.size() != g.node(n).outputs.size()) {
    // A graph may leave the results of a list of statements out.
    if (g.node(n).outputs.size() > out.size()) {
      return Annotated(g, n, absl::StrCat("has ", g.node(n).outputs.size(), " outputs, the operator ", out.size()));
    }
  }
  for (size_t i = 0; i < g.node(n).outputs.size(); ++i) {
    const ValueId v = g.node(n).outputs[i];
    if (out[i].type.kind() != TypeKind::kAny) SetTypeIfNew(g, v, out[i].type);
    if (out[i].expr && g.value(v).expr != out[i].expr) g.SetExpr(v, out[i].expr);
  }
  return absl::OkStatus();
}

absl::Status InferTypes(Graph& g) { return InferBlock(g, g.top()); }

std::vector<std::string> CheckTypes(const Graph& g) {
  std::vector<std::string> lines;
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (!node.blocks.empty() || node.op.name().rfind("aten::", 0) != 0) continue;
    auto call = OpCall::Of(g, n);
    if (!call.ok()) continue;
    SymbolicDecide decide(&g.symbols, g.symbol_hints);
    auto out = Infer(*call, decide, g.symbols);
    if (!out.ok()) {
      if (!absl::IsUnimplemented(out.status())) lines.push_back(std::string(out.status().message()));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size() && i < out->size(); ++i) {
      const Type &have = g.value(node.outputs[i]).type, &want = (*out)[i].type;
      if (!have.IsTensor() || !want.IsTensor() || !want.tensor().IsComplete() || !have.tensor().IsComplete()) continue;
      // Strides of dims of size 1 do not matter.
      const TensorType &a = have.tensor(), &b = want.tensor();
      bool equal = a.dtype == b.dtype && *a.sizes == *b.sizes;
      for (size_t d = 0; equal && d < a.sizes->size(); ++d) {
        equal = (*a.sizes)[d] == Expr(1) || (*a.strides)[d] == (*b.strides)[d];
      }
      if (!equal)
        lines.push_back(absl::StrCat(node.op.full(), ": %", g.value(node.outputs[i]).name, " is ", have.ToString(),
                                     ", inferred ", want.ToString()));
    }
  }
  return lines;
}

}  // namespace smelt
