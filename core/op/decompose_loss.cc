// Decompositions of losses.
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

absl::StatusOr<ValueId> Reduce(Emit& e, const OpCall& call, ValueId loss) {
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetIntOr("reduction", kMean));
  std::vector<int64_t> dims;
  for (int d = 0; d < e.Rank(loss); ++d) dims.push_back(d);
  if (reduction == kNone || dims.empty()) return loss;
  return reduction == kMean ? e.Mean(loss, dims, false) : e.Sum(loss, dims, false);
}

Values Finish(Emit& e, const OpCall& call, ValueId loss, DType t) {
  SMELT_ASSIGN_OR_RETURN(ValueId v, Reduce(e, call, loss));
  return std::vector<ValueId>{e.Cast(v, t)};
}

// Returns the second operand; boolean targets become zeros and ones of the input's dtype.
ValueId TargetOf(Emit& e, const OpCall& call) {
  const ValueId target = call.arg(1).value;
  return e.DTypeOf(target) == DType::kBool ? e.Cast(target, e.DTypeOf(call.arg(0).value)) : target;
}

Values Mse(Emit& e, const OpCall& call) {
  ValueId d = e.Sub(call.arg(0).value, TargetOf(e, call));
  return Finish(e, call, e.Square(d), e.DTypeOf(d));
}
Values L1(Emit& e, const OpCall& call) {
  ValueId d = e.Abs(e.Sub(call.arg(0).value, call.arg(1).value));  // real, where the operands are complex, too
  return Finish(e, call, d, e.DTypeOf(d));
}
// The distance of a robust loss's operands, and the type of the loss. For one of the half types PyTorch's kernel
// computes entirely in float32 (`whole`); for the other it rounds after each step, and rounds the loss's parameter too.
struct Distance {
  ValueId d;
  DType t;
};
Distance DistanceOf(Emit& e, const OpCall& call, DType whole) {
  ValueId x = call.arg(0).value, y = TargetOf(e, call);
  const DType t = PromoteTypes(e.DTypeOf(x), e.DTypeOf(y));
  if (t == whole) {
    x = e.Cast(x, DType::kFloat32);
    y = e.Cast(y, DType::kFloat32);
  }
  return {e.Abs(e.Sub(x, y)), t};
}
Values SmoothL1(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", 1));
  const auto [d, t] = DistanceOf(e, call, DType::kBFloat16);
  ValueId loss = d;
  if (beta > 0) {
    ValueId near = e.Op("aten::lt.Scalar", {d, e.Const(beta)});
    const ValueId scalar = e.Scalar(e.DTypeOf(d), beta);
    ValueId square = e.Div(e.MulN(e.Square(d), 0.5), scalar);
    loss = e.Where(near, square, e.AddN(d, -0.5 * beta));
  }
  return Finish(e, call, e.Cast(loss, t), t);
}
Values Huber(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double delta, call.GetDoubleOr("delta", 1));
  const ValueId d = DistanceOf(e, call, DType::kFloat16).d;
  ValueId near = e.Op("aten::le.Scalar", {d, e.Const(delta)});
  const ValueId scalar = e.Scalar(e.DTypeOf(d), delta);
  ValueId line = e.Mul(e.AddN(d, -0.5 * delta), scalar);
  // PyTorch stores the loss in the input's dtype, regardless of the target's.
  const DType out = e.DTypeOf(call.arg(0).value);
  return Finish(e, call, e.Cast(e.Where(near, e.MulN(e.Square(d), 0.5), line), out), out);
}
Values KlDiv(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool log_target, call.GetBoolOr("log_target", false));
  ValueId input = call.arg(0).value, target = call.arg(1).value;
  const ValueId part = log_target ? e.Sub(target, input) : e.Mul(target, input);
  ValueId loss = log_target ? e.Mul(e.Exp(target), part) : e.Sub(e.Op("aten::xlogy.Tensor", {target, target}), part);
  return Finish(e, call, loss, e.DTypeOf(input));
}
Values BinaryCrossEntropy(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value, t = call.arg(1).value;
  auto log = [&](ValueId v) { return e.Op("aten::clamp_min", {e.Log(v), e.Const(-100.0)}); };
  AssertAll(e,
            e.Op("aten::logical_and", {e.Op("aten::ge.Scalar", {x, e.Const(int64_t{0})}),
                                       e.Op("aten::le.Scalar", {x, e.Const(int64_t{1})})}),
            "all elements of input should be between 0 and 1");
  ValueId one = e.Fill(x, 1);
  const ValueId second = log(e.Sub(one, x));
  const ValueId product = e.Mul(e.Sub(one, t), second);
  ValueId loss = e.Neg(e.Add(e.Mul(t, log(x)), product));
  if (call.arg(2).IsTensor()) loss = e.Mul(loss, call.arg(2).value);
  return Finish(e, call, loss, e.DTypeOf(x));
}
Values BinaryCrossEntropyWithLogits(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value, t = call.arg(1).value;
  ValueId one = e.Fill(x, 1);
  ValueId log_sigmoid = e.Op("aten::log_sigmoid", {x});
  ValueId loss;
  if (call.arg(3).IsTensor()) {
    ValueId log_weight = e.Add(e.Mul(e.Sub(call.arg(3).value, one), t), one);
    const ValueId product = e.Mul(log_weight, log_sigmoid);
    loss = e.Sub(e.Mul(e.Sub(one, t), x), product);
  } else {
    loss = e.Sub(e.Mul(e.Sub(one, t), x), log_sigmoid);
  }
  if (call.arg(2).IsTensor()) loss = e.Mul(loss, call.arg(2).value);
  return Finish(e, call, loss, e.DTypeOf(x));
}

struct Nll {
  ValueId loss;    // per element, 0 where ignored
  ValueId weight;  // per element
};
// Log probabilities [N, C, ...] (or [C]) and a target [N, ...] (or []). Computes log_softmax(self) along `dim` at
// `index` only: (x - max) - log(sum).
ValueId LogSoftmaxAt(Emit& e, ValueId self, int64_t dim, ValueId index) {
  const ValueId max = e.Amax(self, {dim}, true);
  e.AllowEmptyReduction(max, e.Sizes(self)[dim]);
  const ValueId sum = e.Sum(e.Exp(e.Sub(self, max)), {dim}, true);
  const ValueId log = e.Log(sum);
  return e.Sub(e.Sub(e.Op("aten::gather", {self, e.Const(dim), index, e.Const(false)}), max), log);
}

// Computes from `scores` instead of their log_softmax if that is valid.
absl::StatusOr<Nll> NllOf(Emit& e, const OpCall& call, ValueId logp, ValueId target, ValueId weight, bool has_weight,
                          ValueId scores = ValueId()) {
  if (scores.valid()) logp = scores;
  SMELT_ASSIGN_OR_RETURN(int64_t ignore, call.GetIntOr("ignore_index", -100));
  const int64_t dim = e.Rank(logp) == 1 ? 0 : 1;
  ValueId valid = e.NeInt(target, ignore);
  ValueId safe = e.Where(valid, target, e.Fill(target, 0));
  const ValueId index = e.Unsqueeze(safe, dim);
  const ValueId picked = e.Squeeze(scores.valid() ? LogSoftmaxAt(e, scores, dim, index)
                                                  : e.Op("aten::gather", {logp, e.Const(dim), index, e.Const(false)}),
                                   dim);
  ValueId w;
  if (has_weight) {
    // weight[safe] in the shape of the target.
    std::vector<Expr> shape = e.Sizes(safe);
    w = e.View(e.Op("aten::index_select", {weight, e.Const(int64_t{0}), e.Reshape(safe, {Product(shape)})}), shape);
    w = e.Where(valid, w, e.Fill(w, 0));
  } else {
    w = e.Cast(valid, e.DTypeOf(logp));
  }
  const ValueId filled = e.Fill(picked, 0);
  return Nll{e.Neg(e.Where(valid, e.Mul(picked, w), filled)), w};
}

absl::StatusOr<std::vector<ValueId>> ReduceNll(Emit& e, const OpCall& call, const Nll& nll) {
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetIntOr("reduction", kMean));
  std::vector<int64_t> dims;
  for (int d = 0; d < e.Rank(nll.loss); ++d) dims.push_back(d);
  auto sum = [&](ValueId v) { return dims.empty() ? v : e.Sum(v, dims, false); };
  ValueId total = sum(nll.weight);
  // Without a reduction PyTorch leaves the total weight 0.
  if (reduction == kNone) return std::vector<ValueId>{nll.loss, e.Fill(total, 0)};
  ValueId loss = sum(nll.loss);
  return std::vector<ValueId>{reduction == kMean ? e.Div(loss, total) : loss, total};
}

Values NllLoss(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(Nll nll, NllOf(e, call, self, call.arg(1).value, call.arg(2).value, call.arg(2).IsTensor()));
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> r, ReduceNll(e, call, nll));
  const std::string& name = call.op().name();
  if (name == "aten::nll_loss_forward" || name == "aten::nll_loss2d_forward") return r;
  return std::vector<ValueId>{e.Contiguous(r[0])};
}

// Returns the share of each of the classes, as a number.
ValueId Share(Emit& e, double whole, const Expr& classes) {
  if (classes.IsConstant()) return e.Const(whole / static_cast<double>(*classes.Constant()));
  return e.Op("aten::div.float", {e.Const(whole), e.Op("aten::Float.Scalar", {e.Size(classes)})});
}

Values CrossEntropy(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value, target = call.arg(1).value;
  SMELT_ASSIGN_OR_RETURN(double smoothing, call.GetDoubleOr("label_smoothing", 0));
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetIntOr("reduction", kMean));
  const int64_t dim = e.Rank(self) == 1 ? 0 : 1;
  const bool probabilities = IsFloating(e.DTypeOf(target));
  if (!probabilities && smoothing == 0 && OpMathType(e.DTypeOf(self)) == e.DTypeOf(self) &&
      e.Sizes(self)[dim] != Expr(0)) {
    // Only one element per row of the log_softmax is needed; the others are not computed. (For half types it is rounded
    // in between.)
    SMELT_ASSIGN_OR_RETURN(Nll nll, NllOf(e, call, ValueId(), target, call.arg(2).value, call.arg(2).IsTensor(), self));
    SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> r, ReduceNll(e, call, nll));
    return std::vector<ValueId>{r[0]};
  }
  ValueId logp = e.Op("aten::log_softmax.int", {self, e.Const(dim), e.None()});
  if (probabilities) {
    ValueId t = target;
    const Expr classes = e.Sizes(self)[dim];
    if (smoothing > 0) {
      t = e.Op("aten::add.Scalar", {e.MulN(t, 1 - smoothing), Share(e, smoothing, classes), e.Const(int64_t{1})});
    }
    ValueId product = e.Mul(logp, t);
    if (call.arg(2).IsTensor()) {
      std::vector<Expr> shape(e.Rank(self), Expr(1));
      shape[dim] = classes;
      product = e.Mul(product, e.View(call.arg(2).value, shape));
    }
    ValueId loss = e.Neg(e.Sum(product, {dim}, false));
    if (reduction == kNone) return std::vector<ValueId>{loss};
    std::vector<int64_t> dims;
    for (int d = 0; d < e.Rank(loss); ++d) dims.push_back(d);
    if (dims.empty()) return std::vector<ValueId>{loss};
    return std::vector<ValueId>{reduction == kMean ? e.Mean(loss, dims, false) : e.Sum(loss, dims, false)};
  }
  SMELT_ASSIGN_OR_RETURN(Nll nll, NllOf(e, call, logp, target, call.arg(2).value, call.arg(2).IsTensor()));
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> r, ReduceNll(e, call, nll));
  if (smoothing == 0) return std::vector<ValueId>{r[0]};
  const Expr classes = e.Sizes(self)[dim];
  // Each class counts with its own weight; the mean is over the weights of the targets.
  Nll counted = nll;
  ValueId terms = logp;
  if (call.arg(2).IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(counted, NllOf(e, call, logp, target, ValueId(), false));
    std::vector<Expr> shape(e.Rank(self), Expr(1));
    shape[dim] = classes;
    terms = e.Mul(logp, e.View(call.arg(2).value, shape));
  }
  Nll smooth = nll;
  smooth.loss = e.Mul(e.Neg(e.Sum(terms, {dim}, false)), counted.weight);
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> s, ReduceNll(e, call, smooth));
  const ValueId second = e.Op("aten::mul.Scalar", {s[0], Share(e, smoothing, classes)});
  return std::vector<ValueId>{e.Add(e.MulN(r[0], 1 - smoothing), second)};
}

// --- backward: the gradient of each element, divided by their number for a mean ---

absl::StatusOr<ValueId> Scaled(Emit& e, const OpCall& call, ValueId grad, ValueId self) {
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetIntOr("reduction", kMean));
  if (reduction != kMean) return grad;
  return e.DivBy(grad, Product(e.Sizes(self)));
}

// Returns `inner(d)` for d between -bound and bound, else the sign of d times `outer`.
ValueId Clipped(Emit& e, ValueId d, double bound, ValueId inner, double outer) {
  ValueId low = e.Op("aten::le.Scalar", {d, e.Const(-bound)}), high = e.Op("aten::ge.Scalar", {d, e.Const(bound)});
  const ValueId chosen = e.Where(high, e.Fill(inner, outer), inner);
  return e.Where(low, e.Fill(inner, -outer), chosen);
}
Values SmoothL1Backward(Emit& e, const OpCall& call) {
  ValueId self = call.arg(1).value, d = e.Sub(self, call.arg(2).value);
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", 1));
  SMELT_ASSIGN_OR_RETURN(ValueId grad, Scaled(e, call, call.arg(0).value, self));
  ValueId slope = beta > 0 ? Clipped(e, d, beta, e.DivN(d, beta), 1) : e.Op("aten::sign", {d});
  return std::vector<ValueId>{e.Cast(e.Mul(grad, slope), e.DTypeOf(d))};
}
Values HuberBackward(Emit& e, const OpCall& call) {
  ValueId self = call.arg(1).value, d = e.Sub(self, call.arg(2).value);
  SMELT_ASSIGN_OR_RETURN(double delta, call.GetDoubleOr("delta", 1));
  SMELT_ASSIGN_OR_RETURN(ValueId grad, Scaled(e, call, call.arg(0).value, self));
  return std::vector<ValueId>{e.Cast(e.Mul(grad, Clipped(e, d, delta, d, delta)), e.DTypeOf(d))};
}
Values BinaryCrossEntropyBackward(Emit& e, const OpCall& call) {
  ValueId x = call.arg(1).value, t = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(ValueId grad, Scaled(e, call, call.arg(0).value, x));
  ValueId slope = e.Op("aten::clamp_min", {e.Mul(e.Sub(e.Fill(x, 1), x), x), e.Const(1e-12)});
  ValueId r = e.Div(e.Mul(grad, e.Sub(x, t)), slope);
  if (call.arg(3).IsTensor()) r = e.Mul(r, call.arg(3).value);
  return std::vector<ValueId>{e.Cast(r, e.DTypeOf(x))};
}

Values MarginRanking(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double margin, call.GetDoubleOr("margin", 0));
  const ValueId difference = e.Sub(call.arg(0).value, call.arg(1).value);
  ValueId d = e.Mul(e.Neg(call.arg(2).value), difference);
  ValueId loss = e.Op("aten::clamp_min", {e.AddN(d, margin), e.Const(int64_t{0})});
  return Finish(e, call, loss, e.DTypeOf(loss));
}
Values HingeEmbedding(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double margin, call.GetDoubleOr("margin", 1));
  ValueId self = call.arg(0).value, target = call.arg(1).value;
  ValueId far = e.Op("aten::clamp_min", {e.AddN(e.Neg(self), margin), e.Const(int64_t{0})});
  ValueId zero = e.Fill(self, 0);
  const ValueId chosen = e.Where(e.NeInt(target, -1), self, zero);
  ValueId loss = e.Add(e.Where(e.NeInt(target, 1), far, zero), chosen);
  return Finish(e, call, loss, e.DTypeOf(loss));
}
Values SoftMargin(Emit& e, const OpCall& call) {
  // Computes step by step in the input's dtype, to which the first step casts the target.
  const ValueId self = call.arg(0).value;
  const ValueId target = e.Cast(call.arg(1).value, e.DTypeOf(self));
  ValueId loss = e.Op("aten::log1p", {e.Exp(e.Mul(e.Neg(target), self))});
  return Finish(e, call, loss, e.DTypeOf(loss));
}

// triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)
Values TripletMargin(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double margin, call.GetDoubleOr("margin", 1));
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr("p", 2));
  SMELT_ASSIGN_OR_RETURN(double epsilon, call.GetDoubleOr("eps", 1e-6));
  SMELT_ASSIGN_OR_RETURN(bool swap, call.GetBoolOr("swap", false));
  auto distance = [&](ValueId a, ValueId b) {
    return e.Op("aten::pairwise_distance", {a, b, e.Const(p), e.Const(epsilon), e.Const(false)});
  };
  const ValueId anchor = call.arg(0).value, positive = call.arg(1).value, negative = call.arg(2).value;
  const ValueId near = distance(anchor, positive);
  ValueId far = distance(anchor, negative);
  if (swap) far = e.Op("aten::minimum", {far, distance(positive, negative)});
  const ValueId loss = e.Op("aten::clamp_min", {e.Sub(e.AddN(near, margin), far), e.Const(int64_t{0})});
  return Finish(e, call, loss, e.DTypeOf(loss));
}

// cosine_embedding_loss(input1, input2, target, margin, reduction)
Values CosineEmbedding(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double margin, call.GetDoubleOr("margin", 0));
  const ValueId a = call.arg(0).value, b = call.arg(1).value, target = call.arg(2).value;
  const std::vector<int64_t> last = {e.Rank(a) - 1};
  constexpr double kEpsilon = 1e-12;
  auto norm = [&](ValueId v) { return e.AddN(e.Sum(e.Square(v), last, false), kEpsilon); };
  const ValueId second = norm(b);
  const ValueId root = e.Sqrt(e.Mul(norm(a), second));
  const ValueId cosine = e.Div(e.Sum(e.Mul(a, b), last, false), root);
  const ValueId near = e.Op("aten::rsub.Scalar", {cosine, e.Const(1.0), e.Const(1.0)});
  const ValueId far = e.Op("aten::clamp_min", {e.AddN(cosine, -margin), e.Const(int64_t{0})});
  const ValueId zero = e.Fill(cosine, 0);
  const ValueId chosen = e.Where(e.EqN(target, -1), far, zero);
  const ValueId loss = e.Add(e.Where(e.EqN(target, 1), near, zero), chosen);
  return Finish(e, call, loss, e.DTypeOf(loss));
}
// poisson_nll_loss(input, target, log_input, full, eps, reduction)
Values PoissonNll(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool log_input, call.GetBool("log_input"));
  SMELT_ASSIGN_OR_RETURN(bool full, call.GetBool("full"));
  SMELT_ASSIGN_OR_RETURN(double epsilon, call.GetDouble("eps"));
  const ValueId input = call.arg(0).value, target = call.arg(1).value;
  const ValueId log = log_input ? input : e.Log(e.AddN(input, epsilon));
  const ValueId expected = e.Mul(target, log);
  ValueId loss = e.Sub(log_input ? e.Exp(input) : input, expected);
  if (full) {  // Stirling's formula, for targets above 1
    const ValueId scaled = e.MulN(e.Log(e.MulN(target, 2 * 3.14159265358979323846)), 0.5);
    const ValueId stirling = e.Add(e.Sub(e.Mul(target, e.Log(target)), target), scaled);
    const ValueId large = e.Op("aten::gt.Scalar", {target, e.Const(int64_t{1})});
    loss = e.Add(loss, e.Where(large, stirling, e.Fill(stirling, 0)));
  }
  return Finish(e, call, loss, e.DTypeOf(loss));
}
// multi_margin_loss(self, target, p, margin, weight, reduction)
Values MultiMargin(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr("p", 1));
  SMELT_ASSIGN_OR_RETURN(double margin, call.GetDoubleOr("margin", 1));
  const ValueId self = call.arg(0).value, target = call.arg(1).value;
  if (e.Rank(self) != 2) return call.Unsupported("a single sample");
  const ValueId column = e.Unsqueeze(target, 1);
  const ValueId own = e.Op("aten::gather", {self, e.Const(int64_t{1}), column, e.Const(false)});
  ValueId d = e.Op("aten::clamp_min", {e.AddN(e.Sub(self, own), margin), e.Const(int64_t{0})});
  if (p == 2) d = e.Square(d);
  if (call.arg(4).IsTensor())
    d = e.Mul(d, e.Unsqueeze(e.Op("aten::index_select", {call.arg(4).value, e.Const(int64_t{0}), target}), 1));
  const Expr classes = e.Sizes(self)[1];
  const ValueId other =
      e.Op("aten::ne.Tensor",
           {e.Op("aten::arange", {e.Size(classes), e.Const(ScalarTypeOf(DType::kInt64)), e.None(), e.None(), e.None()}),
            column});
  const ValueId loss = e.DivBy(e.Sum(e.Where(other, d, e.Fill(d, 0)), {1}, false), classes);
  return Finish(e, call, loss, e.DTypeOf(self));
}

}  // namespace

void AddLossRules(DecompositionTable& t) {
  t["aten::mse_loss"] = Mse;
  t["aten::l1_loss"] = L1;
  t["aten::smooth_l1_loss"] = SmoothL1;
  t["aten::huber_loss"] = Huber;
  t["aten::kl_div"] = KlDiv;
  t["aten::binary_cross_entropy"] = BinaryCrossEntropy;
  t["aten::binary_cross_entropy_with_logits"] = BinaryCrossEntropyWithLogits;
  t["aten::nll_loss"] = t["aten::nll_loss_nd"] = t["aten::nll_loss2d"] = NllLoss;
  t["aten::nll_loss_forward"] = t["aten::nll_loss2d_forward"] = NllLoss;
  t["aten::cross_entropy_loss"] = CrossEntropy;
  t["aten::smooth_l1_loss_backward"] = SmoothL1Backward;
  t["aten::huber_loss_backward"] = HuberBackward;
  t["aten::binary_cross_entropy_backward"] = BinaryCrossEntropyBackward;
  t["aten::margin_ranking_loss"] = MarginRanking;
  t["aten::hinge_embedding_loss"] = HingeEmbedding;
  t["aten::soft_margin_loss"] = SoftMargin;
  t["aten::triplet_margin_loss"] = TripletMargin;
  t["aten::cosine_embedding_loss"] = CosineEmbedding;
  t["aten::poisson_nll_loss"] = PoissonNll;
  t["aten::multi_margin_loss"] = MultiMargin;
}

}  // namespace smelt
