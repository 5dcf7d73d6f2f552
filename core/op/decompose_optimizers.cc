// Decomposes the steps of optimizers over lists of tensors (_fused_sgd_, _fused_adam_, ...), and those of the gradient
// scaler. PyTorch's kernels traverse each parameter's memory once and write everything at the end, so each parameter
// becomes a few elementwise operators and one copy_ per written tensor.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

void CopyInto(Emit& e, ValueId to, ValueId from) { e.Op("aten::copy_", {to, from, e.Const(false)}); }

// Returns a tensor of one element, of any shape, as a scalar tensor of dtype `t`.
ValueId OneNumber(Emit& e, ValueId v, DType t) { return e.Cast(e.Reshape(v, {}), t); }

// A hyperparameter: a number of the program, or a value computed from a tensor (a step, a learning rate) in float64.
struct Number {
  double constant = 0;
  ValueId tensor;  // a scalar of float64, if it is valid

  bool IsTensor() const { return tensor != ValueId(); }
};

// The steps of one parameter.
class Step {
 public:
  Step(Emit& e, const OpCall& call, ValueId param)
      : e_(e), call_(call), dtype_(e.DTypeOf(param)), compute_(OpMathType(dtype_)) {}

  // Multiplies by the number as the kernel sees it: in the dtype of the computation, first rounded to the parameter's
  // dtype if `rounded`.
  ValueId Mul(ValueId x, const Number& n, bool rounded = false) {
    if (n.IsTensor()) {
      const ValueId in = rounded ? e_.Cast(e_.Cast(n.tensor, dtype_), compute_) : e_.Cast(n.tensor, compute_);
      return e_.Mul(x, in);
    }
    return e_.MulN(x, Taken(n.constant, rounded));
  }
  double Taken(double number, bool rounded) const {
    if (rounded && dtype_ == DType::kBFloat16) return BFloat16ToFloat(FloatToBFloat16(static_cast<float>(number)));
    if (rounded && dtype_ == DType::kFloat16) return HalfToFloat(FloatToHalf(static_cast<float>(number)));
    return number;
  }
  Number Double(ValueId v) { return {0, OneNumber(e_, v, DType::kFloat64)}; }
  // Computes on constants if both are numbers, else on tensors: in float64, as the kernels do.
  Number Add(const Number& a, double b) { return a.IsTensor() ? Of(e_.AddN(a.tensor, b)) : Number{a.constant + b, {}}; }
  Number Times(const Number& a, double b) {
    return a.IsTensor() ? Of(e_.MulN(a.tensor, b)) : Number{a.constant * b, {}};
  }
  Number Over(const Number& a, const Number& b) {
    if (!a.IsTensor() && !b.IsTensor()) return {a.constant / b.constant, {}};
    const ValueId as_tensor = AsTensor(b);
    return Of(e_.Div(AsTensor(a), as_tensor));
  }
  // 1 - base^exponent
  Number OneMinusPower(double base, const Number& exponent) {
    return Of(e_.AddN(e_.Neg(e_.Op("aten::pow.Scalar", {e_.Const(base), AsTensor(exponent)})), 1));
  }
  Number Root(const Number& a) { return Of(e_.Sqrt(AsTensor(a))); }

  // Returns the gradient that the step uses: unscaled (and written back so), negated, plus the decayed weight.
  absl::StatusOr<ValueId> Gradient(ValueId grad, ValueId param, bool decays, bool rounded) {
    ValueId g = ToCompute(e_, grad);
    if (const ValueId scale = TensorArg(call_, "grad_scale"); scale != ValueId()) {
      g = e_.Div(g, OneNumber(e_, scale, compute_));
      Write(grad, g);
    }
    SMELT_ASSIGN_OR_RETURN(bool maximize, call_.GetBool("maximize"));
    if (maximize) g = e_.Neg(g);
    SMELT_ASSIGN_OR_RETURN(double weight_decay, call_.GetDouble("weight_decay"));
    if (decays && weight_decay != 0) g = e_.Add(g, Mul(ToCompute(e_, param), {weight_decay, {}}, rounded));
    return g;
  }
  // Writes at the end of the step, unless an infinite gradient was found.
  void Write(ValueId to, ValueId value) { writes_.push_back({to, value}); }
  absl::Status Finish() {
    ValueId skipped;
    if (const ValueId found = TensorArg(call_, "found_inf"); found != ValueId())
      skipped = e_.EqN(OneNumber(e_, found, DType::kFloat32), 1);
    std::vector<ValueId> values;
    for (const auto& [to, value] : writes_) {
      const ValueId rounded = e_.Cast(value, e_.DTypeOf(to));
      values.push_back(skipped != ValueId() ? e_.Where(skipped, to, rounded) : rounded);
    }
    for (size_t i = 0; i < writes_.size(); ++i) CopyInto(e_, writes_[i].first, values[i]);
    return e_.status();
  }
  ValueId AsTensor(const Number& n) { return n.IsTensor() ? n.tensor : e_.Scalar(DType::kFloat64, n.constant); }
  ValueId InCompute(const Number& n) { return e_.Cast(AsTensor(n), compute_); }

 private:
  static Number Of(ValueId tensor) { return {0, tensor}; }

  Emit& e_;
  const OpCall& call_;
  const DType dtype_, compute_;
  std::vector<std::pair<ValueId, ValueId>> writes_;
};

// Returns the elements of the lists `names`, one list per name, all as long as the first. PyTorch's kernels pair
// elements by their position in memory, which gives an unintended result for tensors that are not contiguous.
absl::StatusOr<std::vector<std::vector<ValueId>>> Lists(Emit& e, const OpCall& call,
                                                        const std::vector<absl::string_view>& names) {
  std::vector<std::vector<ValueId>> out;
  for (absl::string_view name : names) {
    const OpArg* list = call.Find(name);
    if (list == nullptr || list->kind != OpArg::Kind::kTensorList)
      return call.Unsupported(absl::StrCat(name, " is not a list of tensors that is made in place"));
    std::vector<ValueId> values;
    for (const OpArg& a : list->elements) {
      if (!a.IsTensor() || !a.tensor.IsComplete())
        return call.Unsupported(absl::StrCat("a tensor of ", name, " whose type is not known"));
      values.push_back(a.value);
    }
    const size_t n = out.empty() ? values.size() : out[0].size();
    if (values.size() != n)
      return call.Error(absl::StrCat(name, " has ", values.size(), " tensors, ", names[0], " has ", n));
    out.push_back(std::move(values));
  }
  for (size_t i = 0; i < out[0].size(); ++i) {
    const DType t = e.DTypeOf(out[0][i]);
    if (!IsFloating(t)) return call.Error(absl::StrCat("parameters of ", ScalarTypeName(t)));
    for (size_t k = 0; k < out.size(); ++k) {
      if (e.DTypeOf(out[k][i]) != t)
        return call.Error(
            absl::StrCat(names[k], " holds ", ScalarTypeName(e.DTypeOf(out[k][i])), " beside a ", ScalarTypeName(t)));
      if (e.Sizes(out[k][i]) != e.Sizes(out[0][i]))
        return call.Unsupported(absl::StrCat("a tensor of ", names[k], " with other sizes than its parameter"));
      if (!e.IsContiguous(out[k][i]))
        return call.Unsupported(absl::StrCat(
            "a tensor of ", names[k], " that is not contiguous: PyTorch pairs elements by their place in memory"));
    }
  }
  return out;
}

absl::StatusOr<Number> LearningRate(Emit& e, const OpCall& call) {
  if (const ValueId lr = TensorArg(call, "lr"); lr != ValueId()) return Number{0, OneNumber(e, lr, DType::kFloat64)};
  SMELT_ASSIGN_OR_RETURN(double lr, call.GetDouble("lr"));
  return Number{lr, {}};
}

// Returns the step counts, tensors of one element.
absl::StatusOr<std::vector<ValueId>> StepCounts(const OpCall& call, size_t n) {
  std::vector<ValueId> out;
  const OpArg* list = call.Find("state_steps");
  if (list == nullptr || list->kind != OpArg::Kind::kTensorList || list->elements.size() != n)
    return call.Unsupported("state_steps is not a list of a tensor for each parameter");
  for (const OpArg& a : list->elements) {
    if (!a.IsTensor() || a.tensor.dtype != DType::kFloat32)
      return call.Unsupported("a state_step that is not a float32 tensor");
    out.push_back(a.value);
  }
  return out;
}

// The replacement of an operator without results: the result of a rule must not be empty.
Values Nothing(const Emit& e) {
  if (!e.ok()) return e.status();
  return std::vector<ValueId>{ValueId()};
}

// _fused_sgd_(self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize,
// is_first_step, grad_scale, found_inf)
Values FusedSgd(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double momentum, call.GetDouble("momentum"));
  SMELT_ASSIGN_OR_RETURN(double dampening, call.GetDouble("dampening"));
  SMELT_ASSIGN_OR_RETURN(bool nesterov, call.GetBool("nesterov"));
  SMELT_ASSIGN_OR_RETURN(bool first, call.GetBool("is_first_step"));
  std::vector<absl::string_view> names = {"self", "grads"};
  if (momentum != 0) names.push_back("momentum_buffer_list");
  SMELT_ASSIGN_OR_RETURN(auto lists, Lists(e, call, names));
  SMELT_ASSIGN_OR_RETURN(Number lr, LearningRate(e, call));
  for (size_t i = 0; i < lists[0].size(); ++i) {
    const ValueId param = lists[0][i];
    if (IsHalf(e.DTypeOf(param)))
      return call.Unsupported("parameters of half types, which PyTorch 2.13's kernel for CPUs does not update");
    Step step(e, call, param);
    SMELT_ASSIGN_OR_RETURN(ValueId g, step.Gradient(lists[1][i], param, /*decays=*/true, /*rounded=*/false));
    if (momentum != 0) {
      ValueId buffer = g;
      if (!first) {
        const ValueId scaled = e.MulN(g, 1 - dampening);
        buffer = e.Add(e.MulN(lists[2][i], momentum), scaled);
      }
      step.Write(lists[2][i], buffer);
      g = nesterov ? e.Add(g, e.MulN(buffer, momentum)) : buffer;
    }
    step.Write(param, e.Sub(param, step.Mul(g, lr)));
    SMELT_RETURN_IF_ERROR(step.Finish());
  }
  return Nothing(e);
}

// _fused_adam_(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, weight_decay,
// eps, amsgrad, maximize, grad_scale, found_inf); _fused_adamw_ decays the weights themselves.
Values FusedAdam(Emit& e, const OpCall& call) {
  const bool decoupled = call.op().name() == "aten::_fused_adamw_";
  SMELT_ASSIGN_OR_RETURN(double beta1, call.GetDouble("beta1"));
  SMELT_ASSIGN_OR_RETURN(double beta2, call.GetDouble("beta2"));
  SMELT_ASSIGN_OR_RETURN(double weight_decay, call.GetDouble("weight_decay"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDouble("eps"));
  SMELT_ASSIGN_OR_RETURN(bool amsgrad, call.GetBool("amsgrad"));
  std::vector<absl::string_view> names = {"self", "grads", "exp_avgs", "exp_avg_sqs"};
  if (amsgrad) names.push_back("max_exp_avg_sqs");
  SMELT_ASSIGN_OR_RETURN(auto lists, Lists(e, call, names));
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> counts, StepCounts(call, lists[0].size()));
  SMELT_ASSIGN_OR_RETURN(Number lr, LearningRate(e, call));
  for (size_t i = 0; i < lists[0].size(); ++i) {
    Step step(e, call, lists[0][i]);
    SMELT_ASSIGN_OR_RETURN(ValueId g, step.Gradient(lists[1][i], lists[0][i], !decoupled, /*rounded=*/false));
    ValueId param = ToCompute(e, lists[0][i]);
    if (decoupled && weight_decay != 0) param = step.Mul(param, step.Add(step.Times(lr, -weight_decay), 1));
    const ValueId mean = e.Op("aten::lerp.Scalar", {ToCompute(e, lists[2][i]), g, e.Const(1 - beta1)});
    const ValueId product = e.Mul(e.MulN(g, 1 - beta2), g);
    ValueId square = e.Add(e.MulN(ToCompute(e, lists[3][i]), beta2), product);
    step.Write(lists[2][i], mean);
    step.Write(lists[3][i], square);
    if (amsgrad) {
      square = e.Op("aten::maximum", {ToCompute(e, lists[4][i]), square});
      step.Write(lists[4][i], square);
    }
    const Number count = step.Double(counts[i]);
    const Number root = step.Root(step.OneMinusPower(beta2, count));
    const Number size = step.Over(lr, step.OneMinusPower(beta1, count));
    const ValueId in_compute = step.InCompute(root);
    const ValueId denominator = e.AddN(e.Div(e.Sqrt(square), in_compute), eps);
    step.Write(lists[0][i], e.Sub(param, e.Div(step.Mul(mean, size), denominator)));
    SMELT_RETURN_IF_ERROR(step.Finish());
  }
  return Nothing(e);
}

// _fused_adagrad_(self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, grad_scale,
// found_inf). Its kernel converts its numbers to the parameters' dtype.
Values FusedAdagrad(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double lr_decay, call.GetDouble("lr_decay"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDouble("eps"));
  SMELT_ASSIGN_OR_RETURN(auto lists, Lists(e, call, {"self", "grads", "state_sums"}));
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> counts, StepCounts(call, lists[0].size()));
  SMELT_ASSIGN_OR_RETURN(Number lr, LearningRate(e, call));
  for (size_t i = 0; i < lists[0].size(); ++i) {
    Step step(e, call, lists[0][i]);
    SMELT_ASSIGN_OR_RETURN(ValueId g, step.Gradient(lists[1][i], lists[0][i], /*decays=*/true, /*rounded=*/true));
    const ValueId product = e.Mul(g, g);
    const ValueId sum = e.Add(ToCompute(e, lists[2][i]), product);
    step.Write(lists[2][i], sum);
    const Number decayed = step.Add(step.Times(step.Add(step.Double(counts[i]), -1), lr_decay), 1);
    const ValueId denominator = e.AddN(e.Sqrt(sum), step.Taken(eps, /*rounded=*/true));
    const ValueId change = e.Div(step.Mul(g, step.Over(lr, decayed), /*rounded=*/true), denominator);
    step.Write(lists[0][i], e.Sub(ToCompute(e, lists[0][i]), change));
    SMELT_RETURN_IF_ERROR(step.Finish());
  }
  return Nothing(e);
}

absl::Status CheckOneFloat(const OpCall& call, absl::string_view name) {
  SMELT_ASSIGN_OR_RETURN(TensorType t, call.GetTensor(name));
  Expr count = 1;
  for (const Expr& n : *t.sizes) count = count * n;
  if (t.dtype != DType::kFloat32 || count != Expr(1))
    return call.Error(absl::StrCat(name, " must be a float32 tensor of one element"));
  return absl::OkStatus();
}

// _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale): sets found_inf to 1 if any element of any
// tensor is not finite, and multiplies all tensors by inv_scale.
Values Unscale(Emit& e, const OpCall& call) {
  SMELT_RETURN_IF_ERROR(CheckOneFloat(call, "found_inf"));
  SMELT_RETURN_IF_ERROR(CheckOneFloat(call, "inv_scale"));
  const OpArg* list = call.Find("self");
  if (list == nullptr || list->kind != OpArg::Kind::kTensorList)
    return call.Unsupported("self is not a list of tensors that is made in place");
  const ValueId found_inf = TensorArg(call, "found_inf"), inv_scale = TensorArg(call, "inv_scale");
  for (const OpArg& a : list->elements) {
    if (!a.IsTensor() || !a.tensor.IsComplete()) return call.Unsupported("a tensor of self whose type is not known");
    if (!IsFloating(*a.tensor.dtype)) return call.Error(absl::StrCat("a tensor of ", ScalarTypeName(*a.tensor.dtype)));
    const ValueId finite = e.Op("aten::all", {e.Op("aten::isfinite", {a.value})});
    const ValueId one_number = OneNumber(e, inv_scale, OpMathType(*a.tensor.dtype));
    const ValueId scaled = e.Mul(ToCompute(e, a.value), one_number);
    CopyInto(e, found_inf, e.Where(finite, found_inf, e.Scalar(DType::kFloat32, 1)));
    CopyInto(e, a.value, scaled);
  }
  return Nothing(e);
}

// _amp_update_scale_(self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval): lowers the scale
// after an infinite gradient, and raises it after growth_interval steps without one unless it would become infinite.
Values UpdateScale(Emit& e, const OpCall& call) {
  SMELT_RETURN_IF_ERROR(CheckOneFloat(call, "self"));
  SMELT_RETURN_IF_ERROR(CheckOneFloat(call, "found_inf"));
  SMELT_ASSIGN_OR_RETURN(TensorType tracker_type, call.GetTensor("growth_tracker"));
  if (tracker_type.dtype != DType::kInt32) return call.Error("growth_tracker must be an int32 tensor");
  SMELT_ASSIGN_OR_RETURN(double growth, call.GetDouble("scale_growth_factor"));
  SMELT_ASSIGN_OR_RETURN(double backoff, call.GetDouble("scale_backoff_factor"));
  SMELT_ASSIGN_OR_RETURN(int64_t interval, call.GetInt("growth_interval"));
  const ValueId self = TensorArg(call, "self"), tracker = TensorArg(call, "growth_tracker");
  const ValueId scale = e.Reshape(self, {}), wide = e.Cast(scale, DType::kFloat64);
  const ValueId found = e.NeInt(e.Reshape(TensorArg(call, "found_inf"), {}), 0);
  const ValueId steps = e.Op("aten::add.Scalar", {e.Reshape(tracker, {}), e.Const(int64_t{1}), e.Const(int64_t{1})});
  const ValueId due = e.Op("aten::eq.Scalar", {steps, e.Const(interval)});
  const ValueId grown = e.Cast(e.MulN(wide, growth), DType::kFloat32);
  const ValueId larger = e.Where(e.Op("aten::isfinite", {grown}), grown, scale);
  const ValueId smaller = e.Cast(e.MulN(wide, backoff), DType::kFloat32);
  const ValueId zero = e.Scalar(DType::kInt32, 0);
  const ValueId next = e.Where(found, smaller, e.Where(due, larger, scale));
  const ValueId counted = e.Where(found, zero, e.Where(due, zero, steps));
  CopyInto(e, self, next);
  CopyInto(e, tracker, counted);
  if (!e.ok()) return e.status();
  return std::vector<ValueId>{self};
}

}  // namespace

bool PairsElementsByPlace(OpName op) {
  return absl::StartsWith(op.name(), "aten::_fused_") && absl::EndsWith(op.name(), "_");
}

void AddOptimizerRules(DecompositionTable& t) {
  t["aten::_fused_sgd_"] = t["aten::_fused_sgd_.tensor_lr"] = FusedSgd;
  t["aten::_fused_adam_"] = t["aten::_fused_adam_.tensor_lr"] = FusedAdam;
  t["aten::_fused_adamw_"] = t["aten::_fused_adamw_.tensor_lr"] = FusedAdam;
  t["aten::_fused_adagrad_"] = t["aten::_fused_adagrad_.tensor_lr"] = FusedAdagrad;
  t["aten::_amp_foreach_non_finite_check_and_unscale_"] = Unscale;
  t["aten::_amp_update_scale_"] = UpdateScale;
}

}  // namespace smelt
