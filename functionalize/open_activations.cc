#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/functionalize/composite_opener.h"

namespace smelt {
namespace {

absl::Status ListTensor(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  const OpArg& list = call.arg(0);
  const TensorType t = o.TypeOfValue(g.node(n).outputs[0]);
  std::vector<ValueId> numbers = list.element_values;
  if (numbers.empty()) {
    for (const Expr& i : list.ints) numbers.push_back(InsertSize(g, n, i));
    for (double f : list.floats) numbers.push_back(InsertConstant(g, n, f));
    for (bool b : list.bools) numbers.push_back(InsertConstant(g, n, b));
  }
  const ValueId none = o.None(n), dtype = InsertConstant(g, n, ScalarTypeOf(*t.dtype));
  if (numbers.empty()) {
    SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kZeros, {o.IntList(n, {Expr(0)}), dtype, none, none, none}));
    o.ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }
  std::vector<ValueId> elements;
  for (ValueId number : numbers) {
    SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kScalarTensor, {number, dtype, none, none, none}));
    elements.push_back(v[0]);
  }
  const NodeId made = g.InsertBefore(n, OpName::Get(op::kPrimListConstruct), elements, {Type::List(Type::Tensor())});
  SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kStack, {g.node(made).outputs[0], InsertConstant(g, n, int64_t{0})}));
  o.ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

// tensor(number, dtype, device, requires_grad), tensor(list of numbers, …)
absl::Status NumberTensor(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const TensorType& t = o.TypeOfValue(g.node(n).outputs[0]);
  if (!t.IsComplete()) return absl::UnimplementedError("a tensor of a list of numbers whose length is not known");
  if (t.rank() != 0) return ListTensor(o, n);
  const ValueId none = o.None(n);
  SMELT_ASSIGN_OR_RETURN(
      auto v,
      o.Insert(n, op::kScalarTensor, {o.In(n, 0), InsertConstant(g, n, ScalarTypeOf(*t.dtype)), none, none, none}));
  o.ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

// In training each element that is not positive has its own slope.
absl::Status RandomRrelu(CompositeOpener& o, NodeId n, double lower, double upper) {
  Graph& g = o.graph();
  const ValueId self = o.In(n, 0), none = o.None(n), zero = InsertConstant(g, n, int64_t{0});
  SMELT_ASSIGN_OR_RETURN(auto slope, o.Insert(n, op::kEmptyLike, {self, none, none, none, none, none}));
  SMELT_ASSIGN_OR_RETURN(slope, o.Insert(n, op::kUniformInPlace,
                                         {slope[0], InsertConstant(g, n, lower), InsertConstant(g, n, upper), none}));
  SMELT_ASSIGN_OR_RETURN(auto scaled, o.Insert(n, op::kMulTensor, {self, slope[0]}));
  SMELT_ASSIGN_OR_RETURN(auto negative, o.Insert(n, op::kLeScalar, {self, zero}));
  SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, op::kWhereSelf, {negative[0], scaled[0], self}));
  if (g.node(n).op.name() == op::kRreluInPlace) {
    SMELT_ASSIGN_OR_RETURN(out, o.Insert(n, op::kCopyInPlace, {self, out[0], InsertConstant(g, n, false)}));
  }
  o.ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

// rrelu(x, lower, upper, training): outside of training the slope is the mean of both.
absl::Status Rrelu(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  if (o.IsFlagOfCall(o.In(n, 3))) return o.BranchOnFlag(n, 3);
  auto lower = GetConstant(g, o.In(n, 1)), upper = GetConstant(g, o.In(n, 2)), training = GetConstant(g, o.In(n, 3));
  auto number = [](const std::optional<ConstantValue>& c) -> std::optional<double> {
    if (c && std::holds_alternative<double>(*c)) return std::get<double>(*c);
    if (c && std::holds_alternative<int64_t>(*c)) return static_cast<double>(std::get<int64_t>(*c));
    return std::nullopt;
  };
  if (!number(lower) || !number(upper) || !training || !std::holds_alternative<bool>(*training))
    return absl::UnimplementedError("rrelu whose mode or bounds are known only at run time");
  // PyTorch's result is contiguous, whatever the operand is.
  if (const TensorType& t = o.TypeOfValue(o.In(n, 0));
      g.node(n).op.name() == op::kRrelu && *t.strides != ContiguousStrides(*t.sizes)) {
    SMELT_ASSIGN_OR_RETURN(auto dense, o.Insert(n, op::kClone, {o.In(n, 0), InsertConstant(g, n, int64_t{0})}));
    g.SetInput(n, 0, dense[0]);
  }
  if (std::get<bool>(*training)) return RandomRrelu(o, n, *number(lower), *number(upper));
  const ValueId slope = InsertConstant(g, n, (*number(lower) + *number(upper)) / 2);
  SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, g.node(n).op.name() == op::kRrelu ? op::kLeakyRelu : op::kLeakyReluInPlace,
                                          {o.In(n, 0), slope}));
  o.ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

// x * a*noise + b, which keeps the mean and the variance of selu's results: PyTorch's _dropout_impl.
absl::Status AlphaDropout(CompositeOpener& o, NodeId n, ValueId noise, double drop, bool in_place) {
  Graph& g = o.graph();
  constexpr double kAlpha = 1.7580993408473766;
  const double a = 1.0 / std::sqrt((kAlpha * kAlpha * drop + 1) * (1 - drop));
  auto number = [&](double v) { return InsertConstant(g, n, v); };
  const ValueId one = InsertConstant(g, n, int64_t{1});
  SMELT_ASSIGN_OR_RETURN(auto b, o.Insert(n, op::kAddScalar, {noise, number(-1), one}));
  SMELT_ASSIGN_OR_RETURN(b, o.Insert(n, op::kMulInPlaceScalar, {b[0], number(kAlpha * a)}));
  SMELT_ASSIGN_OR_RETURN(b, o.Insert(n, op::kAddInPlaceScalar, {b[0], number(kAlpha * a * drop), one}));
  SMELT_ASSIGN_OR_RETURN(auto scaled, o.Insert(n, op::kMulInPlaceScalar, {noise, number(a)}));
  SMELT_ASSIGN_OR_RETURN(auto out,
                         o.Insert(n, in_place ? op::kMulInPlaceTensor : op::kMulTensor, {o.In(n, 0), scaled[0]}));
  SMELT_ASSIGN_OR_RETURN(out, o.Insert(n, in_place ? op::kAddInPlaceTensor : op::kAddTensor, {out[0], b[0], one}));
  o.ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

absl::Status Dropout(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  SMELT_ASSIGN_OR_RETURN(int p, o.ArgumentIndex(n, "p"));
  SMELT_ASSIGN_OR_RETURN(int train, o.ArgumentIndex(n, "train"));
  if (o.IsFlagOfCall(o.In(n, train))) return o.BranchOnFlag(n, train);
  auto training = GetConstant(g, o.In(n, train));
  auto rate = GetConstant(g, o.In(n, p));
  if (!training || !std::holds_alternative<bool>(*training) || !rate || !std::holds_alternative<double>(*rate)) {
    return absl::UnimplementedError("dropout whose mode or rate is known only at run time");
  }
  const double drop = std::get<double>(*rate);
  if (!std::get<bool>(*training) || drop == 0) return o.Identity(n);
  const std::string name = g.node(n).op.name();
  const bool alpha = absl::StrContains(name, "alpha");
  const bool feature = absl::StrContains(name, "feature"), in_place = absl::EndsWith(name, "_");
  if (drop == 1) {  // nothing is drawn
    SMELT_ASSIGN_OR_RETURN(auto zero, o.Insert(n, in_place ? op::kMulInPlaceScalar : op::kMulScalar,
                                               {o.In(n, 0), InsertConstant(g, n, 0.0)}));
    o.ReplaceWith(n, zero[0]);
    return absl::OkStatus();
  }
  // x * bernoulli(1 - p) / (1 - p), as PyTorch computes it on the CPU.
  ValueId none = o.None(n);
  const ValueId self = o.In(n, 0);
  std::vector<ValueId> noise;
  if (feature) {  // one draw a channel
    std::vector<Expr> sizes = *o.TypeOfValue(self).sizes;
    if (sizes.size() < 2) return absl::InvalidArgumentError("feature dropout requires at least 2 dimensions");
    std::fill(sizes.begin() + 2, sizes.end(), Expr(1));
    SMELT_ASSIGN_OR_RETURN(noise, o.Insert(n, op::kNewEmpty, {self, o.IntList(n, sizes), none, none, none, none}));
  } else {
    SMELT_ASSIGN_OR_RETURN(noise, o.Insert(n, op::kEmptyLike, {self, none, none, none, none, none}));
  }
  SMELT_ASSIGN_OR_RETURN(auto drawn,
                         o.Insert(n, op::kBernoulliInPlaceFloat, {noise[0], InsertConstant(g, n, 1 - drop), none}));
  if (alpha) return AlphaDropout(o, n, drawn[0], drop, in_place);
  SMELT_ASSIGN_OR_RETURN(auto scaled, o.Insert(n, op::kDivInPlaceScalar, {drawn[0], InsertConstant(g, n, 1 - drop)}));
  SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, in_place ? op::kMulInPlaceTensor : op::kMulTensor, {self, scaled[0]}));
  o.ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

// x * mask / (1 - p), and the mask, of booleans.
absl::Status NativeDropout(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  SMELT_ASSIGN_OR_RETURN(int p, o.ArgumentIndex(n, "p"));
  SMELT_ASSIGN_OR_RETURN(int train, o.ArgumentIndex(n, "train"));
  if (o.IsFlagOfCall(o.In(n, train))) return o.BranchOnFlag(n, train);
  auto training = GetConstant(g, o.In(n, train));
  auto rate = GetConstant(g, o.In(n, p));
  if (!training || !rate || !std::holds_alternative<double>(*rate)) {
    return absl::UnimplementedError("dropout whose mode or rate is known only at run time");
  }
  const bool* trains = std::get_if<bool>(&*training);  // None: it does
  const double drop = trains != nullptr && !*trains ? 0 : std::get<double>(*rate);
  const ValueId self = o.In(n, 0), none = o.None(n);
  SMELT_ASSIGN_OR_RETURN(auto noise, o.Insert(n, op::kEmptyLike, {self, none, none, none, none, none}));
  if (drop == 0 || drop == 1) {  // nothing is drawn
    SMELT_ASSIGN_OR_RETURN(noise, o.Insert(n, op::kFillInPlaceScalar, {noise[0], InsertConstant(g, n, 1 - drop)}));
  } else {
    SMELT_ASSIGN_OR_RETURN(noise,
                           o.Insert(n, op::kBernoulliInPlaceFloat, {noise[0], InsertConstant(g, n, 1 - drop), none}));
  }
  SMELT_ASSIGN_OR_RETURN(auto mask, o.Insert(n, op::kNeScalar, {noise[0], InsertConstant(g, n, int64_t{0})}));
  SMELT_ASSIGN_OR_RETURN(auto kept, o.Insert(n, op::kMulTensor, {self, noise[0]}));
  const double scale = drop == 1 ? 0 : 1 / (1 - drop);
  SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, op::kMulScalar, {kept[0], InsertConstant(g, n, scale)}));
  return o.ReplaceOutputs(n, {out[0], mask[0]});
}

// x / (1 + exp(-x)); the operator on real numbers means something else.
absl::Status ComplexSilu(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  if (g.node(n).inputs.size() != 1 || !IsComplex(*o.TypeOfValue(o.In(n, 0)).dtype)) return absl::OkStatus();
  const bool in_place = g.node(n).op.name() == op::kSiluInPlace;
  const ValueId one = InsertConstant(g, n, int64_t{1});
  SMELT_ASSIGN_OR_RETURN(auto e, o.Insert(n, op::kNeg, {o.In(n, 0)}));
  SMELT_ASSIGN_OR_RETURN(e, o.Insert(n, op::kExp, {e[0]}));
  SMELT_ASSIGN_OR_RETURN(e, o.Insert(n, op::kAddScalar, {e[0], one, one}));
  SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, in_place ? op::kDivInPlaceTensor : op::kDivTensor, {o.In(n, 0), e[0]}));
  o.ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

}  // namespace

void AddActivationOpenings(OpeningTable& table) {
  table[Opening::kNumberTensor] = NumberTensor;
  table[Opening::kRrelu] = Rrelu;
  table[Opening::kDropout] = Dropout;
  table[Opening::kNativeDropout] = NativeDropout;
  table[Opening::kComplexSilu] = ComplexSilu;
}

}  // namespace smelt
