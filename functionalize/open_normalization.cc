#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/functionalize/composite_opener.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

absl::Status CompositeOpener::BatchNorm(NodeId n) {
  const std::string name = g_.node(n).op.name();
  SMELT_ASSIGN_OR_RETURN(int t, ArgumentIndex(n, "training"));
  if (IsFlagOfCall(In(n, t))) return BranchOnFlag(n, t);
  auto training = GetConstant(g_, In(n, t));
  if (!training || !std::holds_alternative<bool>(*training))
    return absl::UnimplementedError("batch_norm whose mode is known only at run time");
  auto is_none = [&](ValueId v) {
    auto c = GetConstant(g_, v);
    return c && std::holds_alternative<std::monostate>(*c);
  };
  if (!std::get<bool>(*training)) return absl::OkStatus();
  const bool no_stats_overload = g_.node(n).op.overload() == "no_stats";
  if (no_stats_overload) return absl::OkStatus();
  const ValueId mean = In(n, 3), var = In(n, 4);
  const TensorType& input = g_.value(In(n, 0)).type.tensor();
  if (name == op::kBatchNorm && input.sizes &&
      std::find(input.sizes->begin(), input.sizes->end(), Expr(0)) != input.sizes->end()) {
    // PyTorch returns a copy of an empty input, and leaves the statistics as they are.
    SMELT_ASSIGN_OR_RETURN(auto copy, Insert(n, op::kClone, {In(n, 0), InsertConstant(g_, n, std::monostate())}));
    return ReplaceOutputs(n, copy);
  }
  SMELT_ASSIGN_OR_RETURN(int m, ArgumentIndex(n, "momentum"));
  SMELT_ASSIGN_OR_RETURN(int e, ArgumentIndex(n, "eps"));
  if (is_none(mean) != is_none(var))
    return absl::FailedPreconditionError("running_mean and running_var must either both be None or neither be None");
  if (is_none(mean)) {
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kPrivateNativeBatchNormLegitNoStats,
                                          {In(n, 0), In(n, 1), In(n, 2), In(n, t), In(n, m), In(n, e)}, 3));
    return ReplaceOutputs(n, v);
  }
  // PyTorch writes the statistics channel by channel, in several threads, and reads the rest after that.
  if (mean != var) CheckApart(n, mean, var);
  for (int k = 0; k < 3; ++k) {
    if (is_none(In(n, k))) continue;
    CheckApart(n, mean, In(n, k));
    if (mean != var) CheckApart(n, var, In(n, k));
  }
  const auto normalize = [&] {
    return Insert(n, op::kPrivateNativeBatchNormLegitFunctional,
                  {In(n, 0), In(n, 1), In(n, 2), mean, var, In(n, t), In(n, m), In(n, e)}, 5);
  };
  SMELT_ASSIGN_OR_RETURN(auto v, normalize());
  SMELT_RETURN_IF_ERROR(Insert(n, op::kCopyInPlace, {mean, v[3], InsertConstant(g_, n, false)}).status());
  ValueId new_var = v[4];
  if (mean == var) {  // one tensor for both, which PyTorch writes one after the other
    SMELT_ASSIGN_OR_RETURN(auto second, normalize());
    new_var = second[4];
  }
  SMELT_RETURN_IF_ERROR(Insert(n, op::kCopyInPlace, {var, new_var, InsertConstant(g_, n, false)}).status());
  return ReplaceOutputs(n, v);
}

void CompositeOpener::CheckApart(NodeId anchor, ValueId written, ValueId read) {
  const NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kSmeltAssertNoOverlap), {written, read}, {});
  g_.SetAttribute(n, "rule", static_cast<int64_t>(OperandSharing::kApart));
  g_.SetAttribute(n, kOpened, g_.node(anchor).op.full());
  g_.SetSource(n, g_.node(anchor).source);
}

absl::Status CompositeOpener::InstanceNorm(NodeId n) {
  auto is_none = [&](ValueId v) {
    auto c = GetConstant(g_, v);
    return c && std::holds_alternative<std::monostate>(*c);
  };
  if (is_none(In(n, 3)) && is_none(In(n, 4))) return absl::OkStatus();
  auto use = GetConstant(g_, In(n, 5));
  if (use && std::holds_alternative<bool>(*use) && !std::get<bool>(*use)) return absl::OkStatus();
  // PyTorch's own way: the batch norm of one sample with batch * channels channels, its running statistics averaged
  // over the batch.
  const std::vector<Expr> s = *TypeOfValue(In(n, 0)).sizes;
  const Expr batch = s[0], channels = s[1];
  std::vector<Expr> flat = s;
  flat[0] = 1;
  flat[1] = batch * channels;
  auto view = [&](ValueId v, const std::vector<Expr>& sizes) -> absl::StatusOr<ValueId> {
    if (at_run_time_) {
      SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, op::kReshape, {v, IntList(n, sizes)}));
      return out[0];
    }
    if (HasFormat(TypeOfValue(v), 0) != true) {
      SMELT_ASSIGN_OR_RETURN(auto copy, Insert(n, op::kClone, {v, InsertConstant(g_, n, int64_t{0})}));
      v = copy[0];
    }
    SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, op::kView, {v, IntList(n, sizes)}));
    return out[0];
  };
  auto repeat = [&](ValueId v) -> absl::StatusOr<ValueId> {
    if (is_none(v)) return v;
    SMELT_ASSIGN_OR_RETURN(auto out, Insert(n, op::kRepeat, {v, IntList(n, {batch})}));
    return out[0];
  };
  SMELT_ASSIGN_OR_RETURN(ValueId x, view(In(n, 0), flat));
  SMELT_ASSIGN_OR_RETURN(ValueId weight, repeat(In(n, 1)));
  SMELT_ASSIGN_OR_RETURN(ValueId bias, repeat(In(n, 2)));
  SMELT_ASSIGN_OR_RETURN(ValueId mean, repeat(In(n, 3)));
  SMELT_ASSIGN_OR_RETURN(ValueId var, repeat(In(n, 4)));
  SMELT_ASSIGN_OR_RETURN(auto v,
                         Insert(n, op::kPrivateNativeBatchNormLegitFunctional,
                                {x, weight, bias, mean, var, InsertConstant(g_, n, true), In(n, 6), In(n, 7)}, 5));
  for (int k = 0; k < 2; ++k) {
    SMELT_ASSIGN_OR_RETURN(ValueId rows, view(v[3 + k], {batch, channels}));
    SMELT_ASSIGN_OR_RETURN(auto average, Insert(n, op::kMeanDim,
                                                {rows, InsertConstant(g_, n, std::vector<int64_t>{0}),
                                                 InsertConstant(g_, n, false), None(n)}));
    SMELT_RETURN_IF_ERROR(
        Insert(n, op::kCopyInPlace, {In(n, 3 + k), average[0], InsertConstant(g_, n, false)}).status());
  }
  SMELT_ASSIGN_OR_RETURN(ValueId out, view(v[0], s));
  ReplaceWith(n, out);
  return absl::OkStatus();
}

absl::Status CompositeOpener::EmbeddingRenorm(NodeId n) {
  const ValueId self = In(n, 0), indices = In(n, 1), max_norm = In(n, 2), none = None(n);
  const std::vector<Expr> rows = {(*TypeOfValue(self).sizes)[0]};
  auto constant = [&](const ConstantValue& v) { return InsertConstant(g_, n, v); };
  SMELT_ASSIGN_OR_RETURN(auto zeros, Insert(n, op::kNewZeros, {self, IntList(n, rows), none, none, none, none}));
  SMELT_ASSIGN_OR_RETURN(auto one, Insert(n, op::kNewOnes, {self, IntList(n, {}), none, none, none, none}));
  NodeId list =
      g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), {indices}, {Type::List(Type::Optional(Type::Tensor()))});
  SMELT_ASSIGN_OR_RETURN(auto named,
                         Insert(n, op::kIndexPut, {zeros[0], g_.node(list).outputs[0], one[0], constant(false)}));
  SMELT_ASSIGN_OR_RETURN(auto column, Insert(n, op::kUnsqueeze, {named[0], constant(int64_t{1})}));
  SMELT_ASSIGN_OR_RETURN(auto norm, Insert(n, op::kLinalgVectorNorm,
                                           {self, In(n, 3), constant(std::vector<int64_t>{1}), constant(true), none}));
  SMELT_ASSIGN_OR_RETURN(auto seen, Insert(n, op::kMulTensor, {norm[0], column[0]}));
  SMELT_ASSIGN_OR_RETURN(auto large, Insert(n, op::kGtScalar, {seen[0], max_norm}));
  SMELT_ASSIGN_OR_RETURN(auto safe, Insert(n, op::kAddScalar, {norm[0], constant(1e-7), constant(int64_t{1})}));
  SMELT_ASSIGN_OR_RETURN(auto inverse, Insert(n, op::kReciprocal, {safe[0]}));
  SMELT_ASSIGN_OR_RETURN(auto scale, Insert(n, op::kMulScalar, {inverse[0], max_norm}));
  SMELT_ASSIGN_OR_RETURN(auto scaled, Insert(n, op::kMulTensor, {self, scale[0]}));
  SMELT_ASSIGN_OR_RETURN(auto rows_now, Insert(n, op::kWhereSelf, {large[0], scaled[0], self}));
  if (g_.node(n).op.name() == op::kEmbeddingRenorm) {
    ReplaceWith(n, rows_now[0]);
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(auto written, Insert(n, op::kCopyInPlace, {self, rows_now[0], constant(false)}));
  ReplaceWith(n, written[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::CheckErrors(NodeId n) {
  const auto name = GetConstant(g_, In(n, 1));
  if (!name || !std::holds_alternative<std::string>(*name))
    return absl::UnimplementedError("an api_name that is not a constant");
  SMELT_ASSIGN_OR_RETURN(auto well, Insert(n, op::kEqScalar, {In(n, 0), InsertConstant(g_, n, int64_t{0})}));
  SMELT_ASSIGN_OR_RETURN(auto all, Insert(n, op::kAll, {well[0]}));
  const ValueId message = InsertConstant(
      g_, n, absl::StrCat(std::get<std::string>(*name), ": the input matrix is singular or not positive-definite"));
  const NodeId assertion = g_.InsertBefore(n, OpName::Get(op::kPrivateAssertAsyncMsg), {all[0], message}, {});
  g_.SetSource(assertion, g_.node(n).source);
  g_.Erase(n);
  return absl::OkStatus();
}

}  // namespace smelt
