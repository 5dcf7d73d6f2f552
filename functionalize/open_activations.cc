#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/functionalize/composite_opener.h"

namespace smelt {

absl::Status CompositeOpener::NumberTensor(NodeId n) {
  const TensorType& t = TypeOfValue(g_.node(n).outputs[0]);
  if (!t.IsComplete()) return absl::UnimplementedError("a tensor of a list of numbers whose length is not known");
  if (t.rank() != 0) return ListTensor(n);
  const ValueId none = None(n);
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kScalarTensor,
                                        {In(n, 0), InsertConstant(g_, n, ScalarTypeOf(*t.dtype)), none, none, none}));
  ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::ListTensor(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
  const OpArg& list = call.arg(0);
  const TensorType t = TypeOfValue(g_.node(n).outputs[0]);
  std::vector<ValueId> numbers = list.element_values;
  if (numbers.empty()) {
    for (const Expr& i : list.ints) numbers.push_back(InsertSize(g_, n, i));
    for (double f : list.floats) numbers.push_back(InsertConstant(g_, n, f));
    for (bool b : list.bools) numbers.push_back(InsertConstant(g_, n, b));
  }
  const ValueId none = None(n), dtype = InsertConstant(g_, n, ScalarTypeOf(*t.dtype));
  if (numbers.empty()) {
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kZeros, {IntList(n, {Expr(0)}), dtype, none, none, none}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }
  std::vector<ValueId> elements;
  for (ValueId number : numbers) {
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kScalarTensor, {number, dtype, none, none, none}));
    elements.push_back(v[0]);
  }
  const NodeId made = g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), elements, {Type::List(Type::Tensor())});
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kStack, {g_.node(made).outputs[0], InsertConstant(g_, n, int64_t{0})}));
  ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::Rrelu(NodeId n) {
  if (IsFlagOfCall(In(n, 3))) return BranchOnFlag(n, 3);
  auto lower = GetConstant(g_, In(n, 1)), upper = GetConstant(g_, In(n, 2)), training = GetConstant(g_, In(n, 3));
  auto number = [](const std::optional<ConstantValue>& c) -> std::optional<double> {
    if (c && std::holds_alternative<double>(*c)) return std::get<double>(*c);
    if (c && std::holds_alternative<int64_t>(*c)) return static_cast<double>(std::get<int64_t>(*c));
    return std::nullopt;
  };
  if (!number(lower) || !number(upper) || !training || !std::holds_alternative<bool>(*training))
    return absl::UnimplementedError("rrelu whose mode or bounds are known only at run time");
  // PyTorch's result is contiguous, whatever the operand is.
  if (const TensorType& t = TypeOfValue(In(n, 0));
      g_.node(n).op.name() == op::kRrelu && *t.strides != ContiguousStrides(*t.sizes)) {
    SMELT_ASSIGN_OR_RETURN(auto dense, Insert(n, op::kClone, {In(n, 0), InsertConstant(g_, n, int64_t{0})}));
    g_.SetInput(n, 0, dense[0]);
  }
  if (std::get<bool>(*training)) return RandomRrelu(n, *number(lower), *number(upper));
  const ValueId slope = InsertConstant(g_, n, (*number(lower) + *number(upper)) / 2);
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, g_.node(n).op.name() == op::kRrelu ? op::kLeakyRelu : op::kLeakyReluInPlace,
                                        {In(n, 0), slope}));
  ReplaceWith(n, v[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::RandomRrelu(NodeId n, double lower, double upper) {
  const ValueId self = In(n, 0), none = None(n), zero = InsertConstant(g_, n, int64_t{0});
  SMELT_ASSIGN_OR_RETURN(auto slope, Insert(n, op::kEmptyLike, {self, none, none, none, none, none}));
  SMELT_ASSIGN_OR_RETURN(slope, Insert(n, op::kUniformInPlace,
                                       {slope[0], InsertConstant(g_, n, lower), InsertConstant(g_, n, upper), none}));
  SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, op::kMulTensor, {self, slope[0]}));
  SMELT_ASSIGN_OR_RETURN(auto negative, Insert(n, op::kLeScalar, {self, zero}));
  SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, op::kWhereSelf, {negative[0], scaled[0], self}));
  if (g_.node(n).op.name() == op::kRreluInPlace) {
    SMELT_ASSIGN_OR_RETURN(out, Insert(n, op::kCopyInPlace, {self, out[0], InsertConstant(g_, n, false)}));
  }
  ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::Dropout(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(int p, ArgumentIndex(n, "p"));
  SMELT_ASSIGN_OR_RETURN(int train, ArgumentIndex(n, "train"));
  if (IsFlagOfCall(In(n, train))) return BranchOnFlag(n, train);
  auto training = GetConstant(g_, In(n, train));
  auto rate = GetConstant(g_, In(n, p));
  if (!training || !std::holds_alternative<bool>(*training) || !rate || !std::holds_alternative<double>(*rate)) {
    return absl::UnimplementedError("dropout whose mode or rate is known only at run time");
  }
  const double drop = std::get<double>(*rate);
  if (!std::get<bool>(*training) || drop == 0) return Identity(n);
  const std::string name = g_.node(n).op.name();
  const bool alpha = absl::StrContains(name, "alpha");
  const bool feature = absl::StrContains(name, "feature"), in_place = absl::EndsWith(name, "_");
  if (drop == 1) {  // nothing is drawn
    SMELT_ASSIGN_OR_RETURN(auto zero, Insert(n, in_place ? op::kMulInPlaceScalar : op::kMulScalar,
                                             {In(n, 0), InsertConstant(g_, n, 0.0)}));
    ReplaceWith(n, zero[0]);
    return absl::OkStatus();
  }
  // x * bernoulli(1 - p) / (1 - p), as PyTorch computes it on the CPU.
  ValueId none = None(n);
  const ValueId self = In(n, 0);
  std::vector<ValueId> noise;
  if (feature) {  // one draw a channel
    std::vector<Expr> sizes = *TypeOfValue(self).sizes;
    if (sizes.size() < 2) return absl::InvalidArgumentError("feature dropout requires at least 2 dimensions");
    std::fill(sizes.begin() + 2, sizes.end(), Expr(1));
    SMELT_ASSIGN_OR_RETURN(noise, Insert(n, op::kNewEmpty, {self, IntList(n, sizes), none, none, none, none}));
  } else {
    SMELT_ASSIGN_OR_RETURN(noise, Insert(n, op::kEmptyLike, {self, none, none, none, none, none}));
  }
  SMELT_ASSIGN_OR_RETURN(auto drawn,
                         Insert(n, op::kBernoulliInPlaceFloat, {noise[0], InsertConstant(g_, n, 1 - drop), none}));
  if (alpha) return AlphaDropout(n, drawn[0], drop, in_place);
  SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, op::kDivInPlaceScalar, {drawn[0], InsertConstant(g_, n, 1 - drop)}));
  SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, in_place ? op::kMulInPlaceTensor : op::kMulTensor, {self, scaled[0]}));
  ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

// x * mask / (1 - p), and the mask, of booleans.
absl::Status CompositeOpener::NativeDropout(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(int p, ArgumentIndex(n, "p"));
  SMELT_ASSIGN_OR_RETURN(int train, ArgumentIndex(n, "train"));
  if (IsFlagOfCall(In(n, train))) return BranchOnFlag(n, train);
  auto training = GetConstant(g_, In(n, train));
  auto rate = GetConstant(g_, In(n, p));
  if (!training || !rate || !std::holds_alternative<double>(*rate)) {
    return absl::UnimplementedError("dropout whose mode or rate is known only at run time");
  }
  const bool* trains = std::get_if<bool>(&*training);  // None: it does
  const double drop = trains != nullptr && !*trains ? 0 : std::get<double>(*rate);
  const ValueId self = In(n, 0), none = None(n);
  SMELT_ASSIGN_OR_RETURN(auto noise, Insert(n, op::kEmptyLike, {self, none, none, none, none, none}));
  if (drop == 0 || drop == 1) {  // nothing is drawn
    SMELT_ASSIGN_OR_RETURN(noise, Insert(n, op::kFillInPlaceScalar, {noise[0], InsertConstant(g_, n, 1 - drop)}));
  } else {
    SMELT_ASSIGN_OR_RETURN(noise,
                           Insert(n, op::kBernoulliInPlaceFloat, {noise[0], InsertConstant(g_, n, 1 - drop), none}));
  }
  SMELT_ASSIGN_OR_RETURN(auto mask, Insert(n, op::kNeScalar, {noise[0], InsertConstant(g_, n, int64_t{0})}));
  SMELT_ASSIGN_OR_RETURN(auto kept, Insert(n, op::kMulTensor, {self, noise[0]}));
  const double scale = drop == 1 ? 0 : 1 / (1 - drop);
  SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, op::kMulScalar, {kept[0], InsertConstant(g_, n, scale)}));
  return ReplaceOutputs(n, {out[0], mask[0]});
}

absl::Status CompositeOpener::AlphaDropout(NodeId n, ValueId noise, double drop, bool in_place) {
  constexpr double kAlpha = 1.7580993408473766;
  const double a = 1.0 / std::sqrt((kAlpha * kAlpha * drop + 1) * (1 - drop));
  auto number = [&](double v) { return InsertConstant(g_, n, v); };
  const ValueId one = InsertConstant(g_, n, int64_t{1});
  SMELT_ASSIGN_OR_RETURN(auto b, Insert(n, op::kAddScalar, {noise, number(-1), one}));
  SMELT_ASSIGN_OR_RETURN(b, Insert(n, op::kMulInPlaceScalar, {b[0], number(kAlpha * a)}));
  SMELT_ASSIGN_OR_RETURN(b, Insert(n, op::kAddInPlaceScalar, {b[0], number(kAlpha * a * drop), one}));
  SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, op::kMulInPlaceScalar, {noise, number(a)}));
  SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, in_place ? op::kMulInPlaceTensor : op::kMulTensor, {In(n, 0), scaled[0]}));
  SMELT_ASSIGN_OR_RETURN(out, Insert(n, in_place ? op::kAddInPlaceTensor : op::kAddTensor, {out[0], b[0], one}));
  ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::ComplexSilu(NodeId n) {
  if (g_.node(n).inputs.size() != 1 || !IsComplex(*TypeOfValue(In(n, 0)).dtype)) return absl::OkStatus();
  const bool in_place = g_.node(n).op.name() == op::kSiluInPlace;
  const ValueId one = InsertConstant(g_, n, int64_t{1});
  SMELT_ASSIGN_OR_RETURN(auto e, Insert(n, op::kNeg, {In(n, 0)}));
  SMELT_ASSIGN_OR_RETURN(e, Insert(n, op::kExp, {e[0]}));
  SMELT_ASSIGN_OR_RETURN(e, Insert(n, op::kAddScalar, {e[0], one, one}));
  SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, in_place ? op::kDivInPlaceTensor : op::kDivTensor, {In(n, 0), e[0]}));
  ReplaceWith(n, out[0]);
  return absl::OkStatus();
}

}  // namespace smelt
