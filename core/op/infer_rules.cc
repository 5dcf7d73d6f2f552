// Helpers that rules share, and rules that many operators have in common.
#include "smelt/core/op/infer_rules.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/layout_rule.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/memory_format.h"

namespace smelt::op_internal {

absl::Status ErrorIn(const OpCall& call, const absl::Status& error) {
  return WithCause(call.Error(error.message()), CauseOf(error));
}

Geo GeoOf(SymbolicDecide& decide, const TensorType& t) {
  Geo g;
  g.sizes = *t.sizes;
  g.strides = t.strides ? *t.strides : view_rules::ContiguousStrides(decide, g.sizes);
  return g;
}

Format Suggest(Ctx& c, const TensorType& t) {
  const Geo g = GeoOf(c.decide, t);
  if (!SuggestsChannelsLast(c.decide, absl::MakeConstSpan(g.sizes), absl::MakeConstSpan(g.strides)))
    return Format::kContiguous;
  return g.rank() == 4 ? Format::kChannelsLast : Format::kChannelsLast3d;
}

Format SuggestAsRow(Ctx& c, const TensorType& t) {
  const Geo g = GeoOf(c.decide, t);
  const bool last = SuggestsChannelsLastAsRow(c.decide, absl::MakeConstSpan(g.sizes), absl::MakeConstSpan(g.strides));
  return last ? Format::kChannelsLast : Format::kContiguous;
}

void AddAsRow(Ctx& c, DType dtype, std::vector<Expr> sizes, Format f) {
  if (f == Format::kContiguous) return c.Add(dtype, std::move(sizes));
  const size_t channels = sizes.size() - 2;  // without a batch, too
  std::vector<Expr> strides = {c.decide.Mul(sizes[channels], sizes[channels + 1]), 1, sizes[channels]};
  if (channels == 0) strides.erase(strides.begin());
  c.AddStrided(dtype, std::move(sizes), std::move(strides));
}

absl::StatusOr<Format> FormatArg(Ctx& c, Format d) {
  SMELT_ASSIGN_OR_RETURN(int64_t f, c.call.GetIntOr("memory_format", static_cast<int64_t>(d)));
  return static_cast<Format>(f);
}

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

absl::StatusOr<int> Dim(Ctx& c, absl::string_view name, int rank, int64_t d) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, c.call.GetIntOr(name, d));
  auto w = view_rules::WrapDim(dim, rank);
  if (!w.ok()) return ErrorIn(c.call, w.status());
  return *w;
}

DType DTypeOr(Ctx& c, DType d) { return c.call.GetDType("dtype").value_or(d); }

Rule SameAs(const char* name) {
  return [name](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType t, c.call.GetTensor(name));
    c.Add(*t.dtype, *t.sizes);
    return absl::OkStatus();
  };
}

absl::StatusOr<std::vector<int64_t>> Spatial(Ctx& c, absl::string_view name, int n, std::optional<int64_t> d) {
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

Rule AdaptivePool(int n, bool max) {
  return [n, max](Ctx& c) -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(TensorType x, TensorArgument(c, 0));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, c.call.GetExprs("output_size"));
    if (out.size() == 1) out.assign(n, out[0]);
    if (static_cast<int>(out.size()) != n) return c.call.Error(absl::StrCat("output_size must have ", n, " elements"));
    if (x.rank() < n + 1) return c.call.Error(absl::StrCat("Expected at least ", n + 1, "D tensor"));
    std::vector<Expr> sizes = *x.sizes;
    for (int d = max || n == 3 ? 1 : x.rank() - n; d < x.rank(); ++d) {
      if (sizes[d] == Expr(0))
        return c.call.Error(
            absl::StrCat("Expected input to have non-zero size for non-batch dimensions, but dim ", d, " is empty"));
    }
    for (int d = 0; d < n; ++d) sizes[x.rank() - n + d] = out[d];
    c.Add(*x.dtype, sizes);
    if (max) c.Add(DType::kInt64, sizes);
    return absl::OkStatus();
  };
}

// gcd, polygamma and others, which are elementwise but have no scalar function.
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
  if (!g.ok()) return ErrorIn(c.call, g.status());
  DType t = ResultType(p);
  const std::string& n = c.call.op().name();
  if (!IsFloating(t) && n != "aten::gcd" && n != "aten::lcm") t = DType::kFloat32;
  c.AddStrided(t, g->sizes, g->strides);
  return absl::OkStatus();
}

// Returns the dtypes of the results, including complex ones.
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
  if (n == "aten::abs" || n == "aten::absolute" || n == "aten::angle") return std::vector<DType>{RealOf(t)};
  return std::vector<DType>{t};
}

absl::Status InferPointwise(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<DType> dtypes, PointwiseDTypes(c.call));
  if (c.call.op().name() == "aten::copy") return SameAs("self")(c);
  std::vector<Geo> operands;
  std::vector<std::vector<Expr>> shapes;
  for (int i = 0; i < static_cast<int>(c.call.args().size()); ++i) {
    if (!c.call.arg(i).IsTensor()) continue;
    SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, i));
    operands.push_back(GeoOf(c.decide, t));
    shapes.push_back(*t.sizes);
  }
  if (operands.empty()) return c.call.Error("no tensor argument");
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, view_rules::BroadcastSizes<SymbolicDecide>(c.decide, shapes));
  SMELT_ASSIGN_OR_RETURN(const std::optional<Geo> ruled, LaidOutByRule(c.call, c.decide, 0, sizes));
  if (ruled) {
    for (DType t : dtypes) c.AddStrided(t, ruled->sizes, ruled->strides);
    return absl::OkStatus();
  }
  const std::string& name = c.call.op().name();
  if (name == "aten::conj_physical" && !IsComplex(dtypes[0])) {  // the tensor itself
    c.AddStrided(dtypes[0], operands[0].sizes, operands[0].strides);
    return absl::OkStatus();
  }
  if (name == "aten::ldexp" && operands.size() == 2) {  // self * 2 ** other, and a power of a number is contiguous
    operands[1].strides = view_rules::ContiguousStrides(c.decide, operands[1].sizes);
  } else if (name == "aten::float_power") {  // of copies in float64
    for (size_t k = 0; k < operands.size(); ++k) {
      if (c.call.arg(static_cast<int>(k)).tensor.dtype != dtypes[0])
        operands[k].strides = view_rules::PreservedStrides(c.decide, operands[k]);
    }
  }
  auto g = view_rules::PointwiseOutput<SymbolicDecide>(c.decide, operands);
  if (!g.ok()) return ErrorIn(c.call, g.status());
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
    // The same call on real numbers gives the dims.
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
  // Norms of complex numbers are real, even those requested in a complex dtype.
  const bool norm = absl::StrContains(c.call.op().name(), "norm");
  for (DType t : m.results) c.Add(norm ? RealOf(t) : t, sizes);
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

// Every element of a list, as ForeachCalls describes.
absl::Status InferForeach(Ctx& c) {
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

}  // namespace smelt::op_internal
