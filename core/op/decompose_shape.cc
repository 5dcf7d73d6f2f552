// Decomposes composites over shapes and products that have no kernel in PyTorch either.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

Values One(ValueId v) { return std::vector<ValueId>{v}; }

absl::StatusOr<int> DimArg(const OpCall& call, absl::string_view name, int rank, int64_t d) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr(name, d));
  if (dim < -std::max(rank, 1) || dim >= std::max(rank, 1))
    return call.Error(absl::StrCat("dim ", dim, " is out of range"));
  return static_cast<int>(WrapDim(dim, rank));
}

// Returns the tensors of a list argument.
absl::StatusOr<std::vector<ValueId>> Elements(const OpCall& call, int i) {
  const OpArg& list = call.arg(i);
  std::vector<ValueId> v;
  for (const OpArg& e : list.elements) {
    if (!e.IsTensor() || e.value == ValueId()) return call.Unsupported("a list whose elements are not known");
    v.push_back(e.value);
  }
  if (v.empty()) return call.Error("expects a non-empty list of tensors");
  return v;
}

Values MaxOther(Emit& e, const OpCall& call) {
  return One(e.Op("aten::maximum", {call.arg(0).value, call.arg(1).value}));
}
Values MinOther(Emit& e, const OpCall& call) {
  return One(e.Op("aten::minimum", {call.arg(0).value, call.arg(1).value}));
}

// Sums over pairs of dims, as one matrix product.
ValueId Contract(Emit& e, ValueId a, ValueId b, const std::vector<int64_t>& da, const std::vector<int64_t>& db) {
  auto split = [&](ValueId v, const std::vector<int64_t>& dims, std::vector<int64_t>& free) {
    for (int d = 0; d < e.Rank(v); ++d) {
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) free.push_back(d);
    }
  };
  std::vector<int64_t> fa, fb;
  split(a, da, fa);
  split(b, db, fb);
  std::vector<Expr> sizes, rows, inner, columns;
  for (int64_t d : fa) rows.push_back(e.Sizes(a)[d]);
  for (int64_t d : da) inner.push_back(e.Sizes(a)[d]);
  for (int64_t d : fb) columns.push_back(e.Sizes(b)[d]);
  sizes = rows;
  sizes.insert(sizes.end(), columns.begin(), columns.end());
  std::vector<int64_t> pa = fa, pb = db;
  pa.insert(pa.end(), da.begin(), da.end());
  pb.insert(pb.end(), fb.begin(), fb.end());
  ValueId x = e.Reshape(e.Permute(a, pa), {Product(rows), Product(inner)});
  ValueId y = e.Reshape(e.Permute(b, pb), {Product(inner), Product(columns)});
  return e.View(e.Mm(x, y), sizes);
}

Values Tensordot(Emit& e, const OpCall& call) {
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> da, call.GetInts("dims_self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> db, call.GetInts("dims_other"));
  if (da.size() != db.size()) return call.Error("both dimension lists should have same length");
  for (auto [dims, rank] : {std::pair(&da, e.Rank(a)), std::pair(&db, e.Rank(b))}) {
    for (int64_t& d : *dims) {
      absl::StatusOr<int> wrapped = view_rules::WrapDim(d, rank);
      if (!wrapped.ok() || rank == 0) return call.Error(absl::StrCat("dim ", d, " is none of a tensor of rank ", rank));
      d = *wrapped;
    }
  }
  // A contracted dim of one element broadcasts, so the other operand is summed over it.
  for (size_t i = 0; i < da.size(); ++i) {
    const Expr na = e.Sizes(a)[da[i]], nb = e.Sizes(b)[db[i]];
    // The sum has the operand's own dtype, for integers too.
    if (na == Expr(1) && nb != Expr(1)) b = e.Cast(e.Sum(b, {db[i]}, true), e.DTypeOf(b));
    if (nb == Expr(1) && na != Expr(1)) a = e.Cast(e.Sum(a, {da[i]}, true), e.DTypeOf(a));
  }
  return One(Contract(e, a, b, da, db));
}

Values Inner(Emit& e, const OpCall& call) {
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.Rank(a) == 0 || e.Rank(b) == 0) return One(e.Mul(a, b));
  return One(Contract(e, a, b, {e.Rank(a) - 1}, {e.Rank(b) - 1}));
}

Values Kron(Emit& e, const OpCall& call) {
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  const int rank = std::max(e.Rank(a), e.Rank(b));
  std::vector<Expr> sa = e.Sizes(a), sb = e.Sizes(b), wide_a, wide_b, out;
  sa.insert(sa.begin(), rank - sa.size(), Expr(1));
  sb.insert(sb.begin(), rank - sb.size(), Expr(1));
  for (int d = 0; d < rank; ++d) {
    wide_a.push_back(sa[d]);
    wide_a.push_back(1);
    wide_b.push_back(1);
    wide_b.push_back(sb[d]);
    out.push_back(sa[d] * sb[d]);
  }
  const ValueId view = e.View(b, wide_b);
  const ValueId product = e.Mul(e.View(a, wide_a), view);
  if (!e.ok()) return e.status();
  // A view where the strides allow it, as in PyTorch: the result has their order.
  SymbolicDecide decide(&e.graph().symbols);
  const TensorType& t = e.TypeOf(product);
  const bool viewable = view_rules::View(decide, ExprGeometry{*t.sizes, *t.strides, Expr(0)}, out).ok() &&
                        decide.status().ok() && decide.assumptions().empty();
  return One(viewable ? e.View(product, out) : e.Reshape(product, out));
}

absl::StatusOr<std::vector<ValueId>> Grids(Emit& e, const OpCall& call, bool xy) {
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> tensors, Elements(call, 0));
  const bool swap = xy && tensors.size() >= 2;
  if (swap) std::swap(tensors[0], tensors[1]);
  std::vector<Expr> sizes;
  for (ValueId t : tensors) sizes.push_back(e.Rank(t) == 0 ? Expr(1) : e.Sizes(t)[0]);
  std::vector<ValueId> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (e.Rank(tensors[i]) > 1) return call.Error("expects scalar or 1-d tensors");
    std::vector<Expr> shape(tensors.size(), Expr(1));
    shape[i] = sizes[i];
    grids.push_back(e.Expand(e.View(tensors[i], shape), sizes));
  }
  if (swap) std::swap(grids[0], grids[1]);
  return grids;
}

Values Meshgrid(Emit& e, const OpCall& call) {
  const OpArg* indexing = call.Find("indexing");
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> grids, Grids(e, call, indexing != nullptr && indexing->string == "xy"));
  return One(e.List(grids));
}

Values CartesianProd(Emit& e, const OpCall& call) {
  if (call.arg(0).elements.size() == 1) return One(call.arg(0).elements[0].value);
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> grids, Grids(e, call, false));
  for (ValueId& g : grids) g = e.Unsqueeze(e.Reshape(g, {Product(e.Sizes(g))}), 1);
  return One(e.Cat(grids, 1));
}

Values Diag(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t k, call.GetIntOr("diagonal", 0));
  if (e.Rank(x) == 1) return One(e.Op("aten::diag_embed", {x, e.Const(k), e.Const(int64_t{0}), e.Const(int64_t{1})}));
  if (e.Rank(x) != 2) return call.Error(absl::StrCat("supports 1D or 2D tensors, got ", e.Rank(x), "D"));
  ValueId d = e.Op("aten::diagonal", {x, e.Const(k), e.Const(int64_t{0}), e.Const(int64_t{1})});
  return One(e.Op("aten::clone", {d, e.Const(int64_t{0})}));
}
Values Diagflat(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t k, call.GetIntOr("offset", 0));
  x = e.Reshape(x, {Product(e.Sizes(x))});
  return One(e.Op("aten::diag_embed", {x, e.Const(k), e.Const(int64_t{0}), e.Const(int64_t{1})}));
}

ValueId Flip(Emit& e, ValueId x, std::vector<int64_t> dims) { return e.Op("aten::flip", {x, e.Const(dims)}); }
Values Fliplr(Emit& e, const OpCall& call) { return One(Flip(e, call.arg(0).value, {1})); }
Values Flipud(Emit& e, const OpCall& call) { return One(Flip(e, call.arg(0).value, {0})); }

Values Rot90(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t k, call.GetIntOr("k", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dims"));
  if (dims.size() != 2) return call.Error("expected total rotation dims == 2");
  switch ((k % 4 + 4) % 4) {
    case 1:
      return One(e.Transpose(Flip(e, x, {dims[1]}), dims[0], dims[1]));
    case 2:
      return One(Flip(e, x, dims));
    case 3:
      return One(e.Transpose(Flip(e, x, {dims[0]}), dims[0], dims[1]));
    default:
      return One(e.Op("aten::clone", {x, e.Const(int64_t{0})}));
  }
}

// prelu broadcasts its weight to one value per channel.
Values Prelu(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value, w = call.arg(1).value;
  if (e.Rank(w) > 1) return call.Error("weight is expected to be a scalar or 1D tensor");
  if (e.Rank(w) == 1 && e.Rank(x) > 0) {
    std::vector<Expr> shape(e.Rank(x), Expr(1));
    shape[e.Rank(x) > 1 ? 1 : 0] = e.Sizes(w)[0];
    w = e.View(w, shape);
  } else if (e.Rank(x) == 0 && e.Rank(w) == 1) {
    w = e.View(w, {});
  }
  return One(e.Op("aten::_prelu_kernel", {x, w}));
}

// VIEW_copy of views that return lists, and narrow_copy.
Values ListViewCopy(Emit& e, const OpCall& call) {
  const std::string name(absl::StripSuffix(call.op().name(), "_copy"));
  const std::string full = call.op().overload().empty() ? name : absl::StrCat(name, ".", call.op().overload());
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(ValueOf(e, a));
  if (name == "aten::narrow" || name == "aten::view_as_real")
    return One(e.Op("aten::clone", {e.Op(full, args), e.Const(int64_t{0})}));
  const SymbolRanges ranges;
  SMELT_ASSIGN_OR_RETURN(std::vector<InferredOutput> out, InferCall(OpCall(OpName::Get(full), call.args()), ranges));
  if (out.empty() || out[0].elements.empty()) return call.Unsupported("the number of parts is not known");
  ValueId list = e.Op(full, args);
  std::vector<ValueId> parts = e.Multi("prim::ListUnpack", {list}, static_cast<int>(out[0].elements.size()));
  for (ValueId& p : parts) p = e.Op("aten::clone", {p, e.Const(int64_t{0})});
  return One(e.List(parts));
}

// The mean of neighbours times their distance, summed or cumulatively summed.
Values Trapezoid(Emit& e, const OpCall& call) {
  ValueId y = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int dim, DimArg(call, "dim", e.Rank(y), -1));
  if (e.Rank(y) == 0) return call.Error("expects at least one dim");
  const Expr n = e.Sizes(y)[dim];
  const ValueId slice = e.Slice(y, dim, 1, n);
  ValueId pairs = e.Add(e.Slice(y, dim, 0, n - 1), slice);
  const bool cumulative = absl::StrContains(call.op().name(), "cumulative");
  ValueId r;
  if (call.op().overload() == "dx") {
    SMELT_ASSIGN_OR_RETURN(double dx, call.GetDoubleOr("dx", 1));
    ValueId sum =
        cumulative ? e.Op("aten::cumsum", {pairs, e.Const(int64_t{dim}), e.None()}) : e.Sum(pairs, {dim}, false);
    r = e.MulN(sum, dx / 2);
  } else {
    ValueId x = call.arg(1).value;
    if (e.Rank(x) != 1 && e.Rank(x) != e.Rank(y)) return call.Unsupported("an x of another rank");
    if (e.Rank(x) == 1) {
      std::vector<Expr> shape(e.Rank(y), Expr(1));
      shape[dim] = e.Sizes(x)[0];
      x = e.Reshape(x, shape);
    }
    const Expr m = e.Sizes(x)[dim];
    const ValueId second = e.Slice(x, dim, 0, m - 1);
    ValueId terms = e.Mul(e.Sub(e.Slice(x, dim, 1, m), second), pairs);
    ValueId sum =
        cumulative ? e.Op("aten::cumsum", {terms, e.Const(int64_t{dim}), e.None()}) : e.Sum(terms, {dim}, false);
    r = e.DivN(sum, 2);
  }
  return One(r);
}

Values Vander(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  const bool of_many = call.op().name() == "aten::linalg_vander";
  if (of_many ? e.Rank(x) == 0 : e.Rank(x) != 1) return call.Error("x must be a one-dimensional tensor");
  Expr n = e.Sizes(x).back();
  if (!call.IsNone("N")) {
    SMELT_ASSIGN_OR_RETURN(n, call.GetExpr("N"));
  }
  SMELT_ASSIGN_OR_RETURN(bool increasing, call.GetBoolOr("increasing", false));
  ValueId none = e.None();
  ValueId powers = e.Op("aten::arange", {e.Size(n), e.Const(ScalarTypeOf(DType::kInt64)), none, none, none});
  ValueId r = e.Op("aten::pow.Tensor_Tensor", {e.Unsqueeze(x, -1), powers});
  return One(increasing || of_many ? r : Flip(e, r, {1}));
}

Values Dist(Emit& e, const OpCall& call) {
  ValueId d = e.Sub(call.arg(0).value, call.arg(1).value);
  ValueId none = e.None();
  return One(e.Op("aten::linalg_vector_norm", {d, ValueOf(e, call.arg(2)), none, e.Const(false), none}));
}

// Scales slices along `dim` whose norm exceeds maxnorm.
Values Renorm(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t dim, DimArg(call, "dim", e.Rank(self), 0));
  if (e.Rank(self) < 2) return call.Error("renorm: input needs at least 2 dimensions");
  std::vector<int64_t> others;
  for (int64_t d = 0; d < e.Rank(self); ++d) {
    if (d != dim) others.push_back(d);
  }
  SMELT_ASSIGN_OR_RETURN(double maxnorm, call.GetDoubleOr("maxnorm", 0));
  const DType own = *e.TypeOf(self).dtype,
              c = own == DType::kFloat64 || own == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32;
  const ValueId norm =
      e.Op("aten::linalg_vector_norm", {e.Cast(IsComplex(own) ? e.Abs(self) : self, c), ValueOf(e, call.arg(1)),
                                        e.Const(others), e.Const(true), e.None()});
  const ValueId most = e.Scalar(c, maxnorm);
  const ValueId scalar = e.Scalar(c, 1);
  const ValueId quotient = e.Div(most, e.Add(norm, e.Scalar(c, 1e-7)));
  const ValueId scale = e.Where(e.Op("aten::gt.Tensor", {norm, most}), quotient, scalar);
  return One(e.Mul(self, IsComplex(own) ? scale : e.Cast(scale, own)));
}

Values Vecdot(Emit& e, const OpCall& call) {
  const ValueId x = call.arg(0).value;
  ValueId p = e.Mul(IsComplex(e.DTypeOf(x)) ? e.Op("aten::conj_physical", {x}) : x, call.arg(1).value);
  SMELT_ASSIGN_OR_RETURN(int dim, DimArg(call, "dim", e.Rank(p), -1));
  return One(e.Sum(p, {dim}, false));
}

// Returns the norm over all dims but one; these are kept with size 1.
ValueId NormExcept(Emit& e, ValueId v, double p, int64_t dim) {
  std::vector<int64_t> dims;
  for (int d = 0; d < e.Rank(v); ++d) {
    if (d != dim) dims.push_back(d);
  }
  if (dims.empty() && e.Rank(v) == 1) {  // of each element
    return e.Op("aten::linalg_vector_norm",
                {e.Unsqueeze(v, 1), e.Const(p), e.Const(std::vector<int64_t>{1}), e.Const(false), e.None()});
  }
  return e.Op("aten::linalg_vector_norm", {v, e.Const(p), e.Const(dims), e.Const(true), e.None()});
}
Values NormExceptDim(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr("pow", 2));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", 0));
  return One(NormExcept(e, call.arg(0).value, p, dim < 0 ? -1 : dim));
}
Values WeightNorm(Emit& e, const OpCall& call) {
  ValueId v = call.arg(0).value, g = call.arg(1).value;
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", 0));
  if (dim < -1) dim += e.Rank(v);
  ValueId norm = NormExcept(e, v, 2, dim);
  ValueId w = e.Mul(v, e.Div(g, norm));
  if (call.op().name() == "aten::_weight_norm") return One(w);
  return std::vector<ValueId>{w, norm};
}

// Pools one dim as two, the other of size 1.
Values MaxPool1dWithIndices(Emit& e, const OpCall& call) {
  auto pair = [&](absl::string_view name, int64_t one) -> absl::StatusOr<ValueId> {
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> v, call.GetInts(name));
    if (v.empty()) return e.Const(std::vector<int64_t>{});
    return e.Const(std::vector<int64_t>{one, v[0]});
  };
  ValueId x = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(ValueId kernel, pair("kernel_size", 1));
  SMELT_ASSIGN_OR_RETURN(ValueId stride, pair("stride", 1));
  SMELT_ASSIGN_OR_RETURN(ValueId padding, pair("padding", 0));
  SMELT_ASSIGN_OR_RETURN(ValueId dilation, pair("dilation", 1));
  std::vector<ValueId> r = e.Multi("aten::max_pool2d_with_indices",
                                   {e.Unsqueeze(x, -2), kernel, stride, padding, dilation, ValueOf(e, call.arg(5))}, 2);
  return std::vector<ValueId>{e.Squeeze(r[0], -2), e.Squeeze(r[1], -2)};
}
Values AdaptiveMaxPool1d(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> n, call.GetInts("output_size"));
  if (n.size() != 1) return call.Error("output_size must have one element");
  std::vector<ValueId> r = e.Multi("aten::adaptive_max_pool2d",
                                   {e.Unsqueeze(call.arg(0).value, -2), e.Const(std::vector<int64_t>{1, n[0]})}, 2);
  return std::vector<ValueId>{e.Squeeze(r[0], -2), e.Squeeze(r[1], -2)};
}

Values BatchNormNoUpdate(Emit& e, const OpCall& call) {
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(ValueOf(e, a));
  std::vector<ValueId> r = e.Multi("aten::_native_batch_norm_legit_no_training", args, 3);
  r.push_back(e.Full(DType::kUInt8, {Expr(0)}, 0));
  return r;
}
Values BatchNormWithUpdateFunctional(Emit& e, const OpCall& call) {
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(ValueOf(e, a));
  args.insert(args.begin() + 5, e.Const(true));  // training
  std::vector<ValueId> r = e.Multi("aten::_native_batch_norm_legit_functional", args, 5);
  r.insert(r.begin() + 3, e.Full(DType::kUInt8, {Expr(0)}, 0));
  return r;
}

}  // namespace

void AddShapeRules(DecompositionTable& t) {
  t["aten::max.other"] = MaxOther;
  t["aten::min.other"] = MinOther;
  t["aten::tensordot"] = Tensordot;
  t["aten::inner"] = Inner;
  t["aten::kron"] = Kron;
  t["aten::meshgrid"] = t["aten::meshgrid.indexing"] = Meshgrid;
  t["aten::cartesian_prod"] = CartesianProd;
  t["aten::diag"] = Diag;
  t["aten::diagflat"] = Diagflat;
  t["aten::fliplr"] = Fliplr;
  t["aten::flipud"] = Flipud;
  t["aten::rot90"] = Rot90;
  t["aten::prelu"] = Prelu;
  t["aten::narrow_copy"] = t["aten::view_as_real_copy"] = ListViewCopy;
  t["aten::split_copy.Tensor"] = t["aten::split_with_sizes_copy"] = t["aten::unbind_copy.int"] = ListViewCopy;
  t["aten::trapezoid.dx"] = t["aten::trapezoid.x"] = t["aten::trapz.dx"] = t["aten::trapz.x"] = Trapezoid;
  t["aten::cumulative_trapezoid.dx"] = t["aten::cumulative_trapezoid.x"] = Trapezoid;
  t["aten::vander"] = t["aten::linalg_vander"] = Vander;
  t["aten::dist"] = Dist;
  t["aten::renorm"] = Renorm;
  t["aten::linalg_vecdot"] = Vecdot;
  t["aten::norm_except_dim"] = NormExceptDim;
  t["aten::_weight_norm"] = t["aten::_weight_norm_interface"] = WeightNorm;
  t["aten::max_pool1d_with_indices"] = MaxPool1dWithIndices;
  t["aten::adaptive_max_pool1d"] = AdaptiveMaxPool1d;
  t["aten::_batch_norm_no_update"] = BatchNormNoUpdate;
  t["aten::_batch_norm_with_update_functional"] = BatchNormWithUpdateFunctional;
}

}  // namespace smelt
