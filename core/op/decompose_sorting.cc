// Decomposes operators that depend on order (argsort, medians, quantiles) into a sort, and histograms.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// Returns the sorted values, then their indices; NaN comes last.
std::vector<ValueId> Sorted(Emit& e, ValueId x, int64_t dim, bool descending = false) {
  return e.Multi("aten::sort.stable", {x, e.Const(true), e.Const(dim), e.Const(descending)}, 2);
}
ValueId IsNan(Emit& e, ValueId x) { return e.Op("aten::ne.Tensor", {x, x}); }

Values Argsort(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  SMELT_ASSIGN_OR_RETURN(bool descending, call.GetBoolOr("descending", false));
  return std::vector<ValueId>{Sorted(e, call.arg(0).value, dim, descending)[1]};
}
Values Msort(Emit& e, const OpCall& call) { return std::vector<ValueId>{Sorted(e, call.arg(0).value, 0)[0]}; }

// searchsorted(sorted_sequence, number, ...), bucketize(number, boundaries, ...): makes the number a tensor.
Values SearchNumber(Emit& e, const OpCall& call) {
  const bool bucketize = call.op().name() == "aten::bucketize";
  const int at = bucketize ? 0 : 1;
  const DType t = e.DTypeOf(call.arg(1 - at).value);
  if (!IsFloating(t) && call.arg(at).kind != OpArg::Kind::kInt) return call.Unsupported("a fraction among integers");
  SMELT_ASSIGN_OR_RETURN(double number, call.GetDouble("self"));
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(ValueOf(e, a));
  args[at] = e.Full(t, {}, number);
  return std::vector<ValueId>{e.Op(absl::StrCat(call.op().name(), ".Tensor"), std::move(args))};
}

// kthvalue, mode: the library's functions keep the dim.
Values OneOfALine(Emit& e, const OpCall& call) {
  const ValueId x = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", -1));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  const bool kth = call.op().name() == "aten::kthvalue";
  Expr k = 1;
  if (kth) {
    SMELT_ASSIGN_OR_RETURN(k, call.GetExpr("k"));
  }
  dim = WrapDim(dim, e.Rank(x));
  const auto n = e.Sizes(x)[dim].Constant();
  if (const auto number = k.Constant(); number && (*number < 1 || (n && *number > *n)))
    return call.Error("selected number k out of range for dimension");
  if (n && *n == 0) return call.Error(absl::StrCat("Expected reduction dim ", dim, " to have non-zero size."));
  if (keepdim) return std::vector<ValueId>();
  std::vector<ValueId> args = {x};
  if (kth) args.push_back(e.Size(k));
  args.push_back(e.Const(dim));
  args.push_back(e.Const(true));
  std::vector<ValueId> results = e.Multi(call.op().full(), args, 2);
  for (ValueId& v : results) v = e.Squeeze(v, dim);
  return results;
}

// Along a kept dim it is the library's function; without a dim it is over all elements.
Values Median(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  const bool whole = call.op().overload().empty();
  int64_t dim = 0;
  bool keepdim = false;
  if (whole) {
    x = e.Flatten(x);
  } else {
    SMELT_ASSIGN_OR_RETURN(dim, call.GetInt("dim"));
    SMELT_ASSIGN_OR_RETURN(keepdim, call.GetBoolOr("keepdim", false));
  }
  dim = WrapDim(dim, e.Rank(x));
  if (e.Sizes(x)[dim] == Expr(0)) return call.Unsupported("a dim whose size is 0");
  if (keepdim) return std::vector<ValueId>();
  std::vector<ValueId> results = e.Multi(absl::StrCat(call.op().name(), ".dim"), {x, e.Const(dim), e.Const(true)}, 2);
  for (ValueId& v : results) v = e.Squeeze(v, dim);
  if (whole) results.pop_back();
  return results;
}

// quantile(self, q, dim, keepdim, interpolation), nanquantile; q: a number or a vector, whose dim comes first.
Values Quantile(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  const DType t = e.DTypeOf(x);
  const bool ignore_nan = call.op().name() == "aten::nanquantile";
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  std::string interpolation = "linear";
  if (!call.IsNone("interpolation")) {
    SMELT_ASSIGN_OR_RETURN(interpolation, call.GetString("interpolation"));
  }
  ValueId q = call.arg(1).value;
  bool many = false;
  if (call.arg(1).IsTensor()) {
    many = e.Rank(q) == 1;
    if (e.Rank(q) > 1) return call.Error("q must be a scalar or 1D tensor");
    if (!many) q = e.Unsqueeze(q, 0);
  } else {
    SMELT_ASSIGN_OR_RETURN(double number, call.GetDouble("q"));
    if (!(number >= 0 && number <= 1)) return call.Error("q must be in the range [0, 1]");
    q = e.Full(t, {Expr(1)}, number);
  }
  const int rank = e.Rank(x);
  int64_t dim = 0;
  bool moved = false;  // a dim of size 1 is left in its place
  if (call.IsNone("dim")) {
    x = e.Flatten(x);
  } else {
    if (rank == 0) return call.Unsupported("a tensor of rank 0 along a dim");
    SMELT_ASSIGN_OR_RETURN(dim, call.GetInt("dim"));
    dim = WrapDim(dim, rank);
    moved = dim != rank - 1;
    if (moved) x = e.Transpose(e.Unsqueeze(x, -1), dim, -1);
  }
  const int64_t last = e.Rank(x) - 1;
  const Expr n = e.Sizes(x)[last];
  if (n == Expr(0)) return call.Error("input tensor must be non-empty");
  const ValueId sorted = Sorted(e, x, last)[0], d = e.Const(last);
  // The position between the elements: [..., q].
  std::vector<Expr> sizes = e.Sizes(x);
  sizes[last] = e.Sizes(q)[0];
  ValueId at;
  if (ignore_nan) {
    const ValueId numbers = e.Sum(e.Cast(e.Op("aten::eq.Tensor", {x, x}), t), {last}, true);
    at = e.Op("aten::clamp_min", {e.Mul(e.AddN(numbers, -1), q), e.Const(int64_t{0})});
  } else {
    at = e.Expand(e.Op("aten::mul.Scalar", {q, e.Size(n - 1)}), sizes);
    const ValueId any = e.Op("aten::any.dim", {IsNan(e, x), d, e.Const(true)});
    at = e.Op("aten::masked_fill.Scalar", {at, e.Expand(any, sizes), e.Size(n - 1)});
  }
  if (interpolation == "lower") at = e.Op("aten::floor", {at});
  if (interpolation == "higher") at = e.Op("aten::ceil", {at});
  if (interpolation == "nearest") at = e.Op("aten::round", {at});
  auto element = [&](ValueId place) {
    return e.Op("aten::gather", {sorted, d, e.Cast(place, DType::kInt64), e.Const(false)});
  };
  const ValueId floor = e.Op("aten::floor", {at});
  ValueId v = element(floor);
  if (interpolation == "linear" || interpolation == "midpoint") {
    const ValueId weight = interpolation == "linear" ? e.Sub(at, floor) : e.Full(t, sizes, 0.5);
    v = e.Op("aten::lerp.Tensor", {v, element(e.Op("aten::ceil", {at})), weight});
  }
  // [..., q]: the quantiles' dim comes first.
  v = e.Transpose(e.Unsqueeze(v, 0), 0, -1);
  if (moved) v = e.Squeeze(v, last + 1);
  const bool whole = call.IsNone("dim");
  if (!keepdim || whole) v = e.Squeeze(v, dim + 1);
  if (!many) v = e.Select(v, 0, 0);
  if (keepdim && whole) {
    std::vector<Expr> ones(many ? rank + 1 : rank, Expr(1));
    if (many) ones[0] = e.Sizes(q)[0];
    v = e.Reshape(v, ones);
  }
  return std::vector<ValueId>{v};
}

// histc(self, bins, min, max): the number of elements in each bin. The outermost edges are min and max, or the smallest
// and the largest element.
Values Histc(Emit& e, const OpCall& call) {
  const ValueId x = e.Flatten(call.arg(0).value);
  const DType t = e.DTypeOf(x);
  SMELT_ASSIGN_OR_RETURN(int64_t bins, call.GetIntOr("bins", 100));
  SMELT_ASSIGN_OR_RETURN(double min, call.GetDoubleOr("min", 0));
  SMELT_ASSIGN_OR_RETURN(double max, call.GetDoubleOr("max", 0));
  if (bins < 1) return call.Error("bins must be > 0");
  if (max < min) return call.Error("max must be larger than min");
  if (!IsFloating(t)) return call.Unsupported("integers");
  ValueId low, high;
  if (min < max) {
    low = e.Scalar(t, min);
    high = e.Scalar(t, max);
  } else {
    low = e.Op("aten::amin", {x, e.Dims({0}), e.Const(false)});
    high = e.Op("aten::amax", {x, e.Dims({0}), e.Const(false)});
    AssertAll(e, e.Op("aten::isfinite", {e.Sub(high, low)}), "histc: the range of the elements is not finite");
    const ValueId one_value = e.Op("aten::eq.Tensor", {low, high});
    const ValueId below = e.AddN(low, -1), above = e.AddN(high, 1);
    low = e.Where(one_value, below, low);
    high = e.Where(one_value, above, high);
  }
  const ValueId counts =
      e.Op("aten::logical_and", {e.Op("aten::ge.Tensor", {x, low}), e.Op("aten::le.Tensor", {x, high})});
  const ValueId difference = e.Sub(high, low);
  // In PyTorch's order, each step rounded: edges decide.
  const ValueId distance = e.Sub(x, low);
  const ValueId scaled = e.Mul(distance, e.Scalar(t, static_cast<double>(bins)));
  ValueId bin = e.Cast(e.Div(scaled, difference), DType::kInt64);
  bin = e.Op("aten::clamp_max", {e.Where(counts, bin, e.Scalar(DType::kInt64, 0)), e.Const(bins - 1)});
  return std::vector<ValueId>{
      e.Op("aten::scatter_add", {e.Full(t, {Expr(bins)}, 0), e.Const(int64_t{0}), bin, e.Cast(counts, t)})};
}

}  // namespace

void AddSortingRules(DecompositionTable& t) {
  t["aten::argsort"] = Argsort;
  t["aten::msort"] = Msort;
  t["aten::searchsorted.Scalar"] = t["aten::bucketize.Scalar"] = SearchNumber;
  t["aten::kthvalue"] = t["aten::mode"] = OneOfALine;
  t["aten::median"] = t["aten::nanmedian"] = Median;
  t["aten::quantile"] = t["aten::nanquantile"] = Quantile;
  t["aten::histc"] = Histc;
}

}  // namespace smelt
