// Decomposes random operators into functions of uniform, normal and exponential draws.
#include <algorithm>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "smelt/core/base/elementary.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// Returns draws from [0, 1), or normal ones ("aten::randn").
ValueId Draws(Emit& e, const std::vector<Expr>& sizes, DType t, const char* op = "aten::rand") {
  return e.Op(op, {e.Ints(sizes), e.Const(ScalarTypeOf(t)), e.None(), e.None(), e.None()});
}

Values LogNormal(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double mean, call.GetDoubleOr("mean", 1));
  SMELT_ASSIGN_OR_RETURN(double std, call.GetDoubleOr("std", 2));
  if (!(std > 0)) return call.Error("log_normal_ expects std > 0.0");
  const ValueId self = call.arg(0).value;
  const DType t = e.DTypeOf(self);
  const ValueId draws = Draws(e, e.Sizes(self), OpMathType(t), "aten::randn");
  return std::vector<ValueId>{e.Cast(e.Exp(e.AddN(e.MulN(draws, std), mean)), t)};
}

Values Cauchy(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double median, call.GetDoubleOr("median", 0));
  SMELT_ASSIGN_OR_RETURN(double sigma, call.GetDoubleOr("sigma", 1));
  if (!(sigma > 0)) return call.Error("cauchy_ expects sigma > 0.0");
  const ValueId self = call.arg(0).value;
  const DType t = e.DTypeOf(self);
  const ValueId angle = e.MulN(e.AddN(Draws(e, e.Sizes(self), OpMathType(t)), -0.5), std::numbers::pi);
  return std::vector<ValueId>{e.Cast(e.AddN(e.MulN(e.Op("aten::tan", {angle}), sigma), median), t)};
}

// Returns the number of trials until the first success.
Values Geometric(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDouble("p"));
  if (!(p > 0 && p < 1)) return call.Error("geometric_ expects p to be in (0, 1)");
  const ValueId self = call.arg(0).value;
  const ValueId failed = e.Op("aten::log1p", {e.Neg(Draws(e, e.Sizes(self), DType::kFloat64))});
  const ValueId trials = e.Op("aten::ceil", {e.DivN(failed, Log1p(-p))});
  return std::vector<ValueId>{e.Cast(e.Op("aten::clamp_min", {trials, e.Const(int64_t{1})}), e.DTypeOf(self))};
}

// random(self, from, to), (self, to), (self): integers that the dtype holds exactly.
Values Random(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  const DType t = e.DTypeOf(self);
  int64_t most;
  if (IsFloating(t)) {
    most = int64_t{1} << (t == DType::kFloat64 ? 53 : t == DType::kFloat32 ? 24 : t == DType::kFloat16 ? 11 : 8);
  } else {
    // The bounds are doubles at the draw.
    const int bits = t == DType::kBool ? 1 : 8 * ItemSize(t) - (IsSigned(t) ? 1 : 0);
    most = (int64_t{1} << std::min(bits, 53)) - 1;
  }
  SMELT_ASSIGN_OR_RETURN(int64_t from, call.GetIntOr("from", 0));
  SMELT_ASSIGN_OR_RETURN(int64_t to, call.GetIntOr("to", most + 1));
  if (from >= to) return call.Error("random_ expects 'from' to be less than 'to'");
  const ValueId drawn = e.Op("aten::randint.low", {e.Const(from), e.Const(to), e.Ints(e.Sizes(self)),
                                                   e.Const(ScalarTypeOf(DType::kInt64)), e.None(), e.None(), e.None()});
  return std::vector<ValueId>{e.Cast(drawn, t)};
}

// normal(mean, std) with one or two tensors; with two numbers it stays as it is.
Values Normal(Emit& e, const OpCall& call) {
  const OpArg &mean = call.arg(0), &std = call.arg(1);
  if (!mean.IsTensor() && !std.IsTensor()) return std::vector<ValueId>();
  const DType t = e.DTypeOf(mean.IsTensor() ? mean.value : std.value);
  const ValueId zero = e.Scalar(t, 0);
  const std::vector<Expr> sizes =
      e.Sizes(e.Add(mean.IsTensor() ? mean.value : zero, std.IsTensor() ? std.value : zero));
  if (!e.ok()) return e.status();
  ValueId out = Draws(e, sizes, t, "aten::randn");
  if (std.IsTensor()) {
    AssertAll(e, e.Op("aten::ge.Scalar", {std.value, e.Const(int64_t{0})}),
              "normal expects all elements of std >= 0.0");
    out = e.Mul(out, std.value);
  } else {
    if (!std.known || std.number < 0) return call.Error("normal expects std >= 0.0");
    out = e.MulN(out, std.number);
  }
  if (!mean.IsTensor() && !mean.known) return call.Unsupported("a mean that is known only at run time");
  return std::vector<ValueId>{mean.IsTensor() ? e.Add(out, mean.value) : e.AddN(out, mean.number)};
}

// multinomial(self, num_samples, replacement): draws categories by their weights. For one sample, or without
// replacement, the samples have the largest quotients of weight and exponential draw; otherwise they are found in the
// cumulative sum.
Values Multinomial(Emit& e, const OpCall& call) {
  const ValueId weights = ToCompute(e, call.arg(0).value);
  const int rank = e.Rank(weights);
  if (rank != 1 && rank != 2) return call.Error("prob_dist must be 1 or 2 dim");
  SMELT_ASSIGN_OR_RETURN(int64_t samples, call.GetInt("num_samples"));
  SMELT_ASSIGN_OR_RETURN(bool replacement, call.GetBoolOr("replacement", false));
  if (samples <= 0) return call.Error("cannot sample n_sample <= 0 samples");
  const DType t = e.DTypeOf(weights);
  const std::vector<Expr> sizes = e.Sizes(weights);
  const Expr categories = sizes.back();
  if (!replacement && categories.IsConstant() && samples > *categories.Constant())
    return call.Error("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  AssertAll(e,
            e.Op("aten::logical_and",
                 {e.Op("aten::isfinite", {weights}), e.Op("aten::ge.Scalar", {weights, e.Const(int64_t{0})})}),
            "probability tensor contains either `inf`, `nan` or element < 0");
  AssertAll(e, e.Op("aten::gt.Scalar", {e.Sum(weights, {-1}, false), e.Const(int64_t{0})}),
            "invalid multinomial distribution (sum of probabilities <= 0)");
  if (!replacement || samples == 1) {
    const ValueId exponential = e.Neg(e.Op("aten::log1p", {e.Neg(Draws(e, sizes, t))}));
    const ValueId least = e.Const(static_cast<double>(std::numeric_limits<float>::min()));
    const ValueId keys = e.Div(weights, e.Op("aten::clamp_min", {exponential, least}));
    if (samples == 1) return std::vector<ValueId>{e.Op("aten::argmax", {keys, e.Const(int64_t{-1}), e.Const(true)})};
    return std::vector<ValueId>{
        e.Multi("aten::topk", {keys, e.Const(samples), e.Const(int64_t{-1}), e.Const(true), e.Const(true)}, 2)[1]};
  }
  const ValueId running = e.Contiguous(e.Op("aten::cumsum", {weights, e.Const(int64_t{-1}), e.None()}));
  std::vector<Expr> drawn = sizes;
  drawn.back() = Expr(samples);
  const ValueId slice = e.Slice(running, rank - 1, categories - 1, categories);
  const ValueId at = e.Mul(Draws(e, drawn, t), slice);
  const ValueId found =
      e.Op("aten::searchsorted.Tensor", {running, at, e.Const(false), e.Const(true), e.None(), e.None()});
  // A draw that rounds up to the whole sum finds no category; the likeliest one is taken.
  const ValueId likeliest = e.Op("aten::argmax", {weights, e.Const(int64_t{-1}), e.Const(true)});
  return std::vector<ValueId>{e.Where(e.Op("aten::lt.Scalar", {found, e.Size(categories)}), found, likeliest)};
}

}  // namespace

void AddRandomRules(DecompositionTable& t) {
  t["aten::log_normal"] = LogNormal;
  t["aten::cauchy"] = Cauchy;
  t["aten::geometric"] = Geometric;
  t["aten::random"] = Random;
  t["aten::normal"] = Normal;
  t["aten::multinomial"] = Multinomial;
}

}  // namespace smelt
