#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/functionalize/composite_opener.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/view_or_copy.h"

namespace smelt {
namespace {

// Inserts a check that refuses calls in which `read` overlaps `written`, for a write whose result would then depend
// on PyTorch's order of computation.
void CheckApart(Graph& g, NodeId anchor, ValueId written, ValueId read) {
  const NodeId n = g.InsertBefore(anchor, OpName::Get(op::kSmeltAssertNoOverlap), {written, read}, {});
  g.SetAttribute(n, "rule", static_cast<int64_t>(OperandSharing::kApart));
  g.SetAttribute(n, kOpened, g.node(anchor).op.full());
  g.SetSource(n, g.node(anchor).source);
}

// Training: the functional form, then the running statistics are written.
absl::Status BatchNorm(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const std::string name = g.node(n).op.name();
  SMELT_ASSIGN_OR_RETURN(int t, o.ArgumentIndex(n, "training"));
  if (o.IsFlagOfCall(o.In(n, t))) return o.BranchOnFlag(n, t);
  auto training = GetConstant(g, o.In(n, t));
  if (!training || !std::holds_alternative<bool>(*training))
    return absl::UnimplementedError("batch_norm whose mode is known only at run time");
  auto is_none = [&](ValueId v) {
    auto c = GetConstant(g, v);
    return c && std::holds_alternative<std::monostate>(*c);
  };
  if (!std::get<bool>(*training)) return absl::OkStatus();
  const bool no_stats_overload = g.node(n).op.overload() == "no_stats";
  if (no_stats_overload) return absl::OkStatus();
  const ValueId mean = o.In(n, 3), var = o.In(n, 4);
  const TensorType& input = g.value(o.In(n, 0)).type.tensor();
  if (name == op::kBatchNorm && input.sizes &&
      std::find(input.sizes->begin(), input.sizes->end(), Expr(0)) != input.sizes->end()) {
    // PyTorch returns a copy of an empty input, and leaves the statistics as they are.
    SMELT_ASSIGN_OR_RETURN(auto copy, o.Insert(n, op::kClone, {o.In(n, 0), InsertConstant(g, n, std::monostate())}));
    return o.ReplaceOutputs(n, copy);
  }
  SMELT_ASSIGN_OR_RETURN(int m, o.ArgumentIndex(n, "momentum"));
  SMELT_ASSIGN_OR_RETURN(int e, o.ArgumentIndex(n, "eps"));
  if (is_none(mean) != is_none(var))
    return absl::FailedPreconditionError("running_mean and running_var must either both be None or neither be None");
  if (is_none(mean)) {
    SMELT_ASSIGN_OR_RETURN(auto v,
                           o.Insert(n, op::kPrivateNativeBatchNormLegitNoStats,
                                    {o.In(n, 0), o.In(n, 1), o.In(n, 2), o.In(n, t), o.In(n, m), o.In(n, e)}, 3));
    return o.ReplaceOutputs(n, v);
  }
  // PyTorch writes the statistics channel by channel, in several threads, and reads the rest after that.
  if (mean != var) CheckApart(g, n, mean, var);
  for (int k = 0; k < 3; ++k) {
    if (is_none(o.In(n, k))) continue;
    CheckApart(g, n, mean, o.In(n, k));
    if (mean != var) CheckApart(g, n, var, o.In(n, k));
  }
  const auto normalize = [&] {
    return o.Insert(n, op::kPrivateNativeBatchNormLegitFunctional,
                    {o.In(n, 0), o.In(n, 1), o.In(n, 2), mean, var, o.In(n, t), o.In(n, m), o.In(n, e)}, 5);
  };
  SMELT_ASSIGN_OR_RETURN(auto v, normalize());
  SMELT_RETURN_IF_ERROR(o.Insert(n, op::kCopyInPlace, {mean, v[3], InsertConstant(g, n, false)}).status());
  ValueId new_var = v[4];
  if (mean == var) {  // one tensor for both, which PyTorch writes one after the other
    SMELT_ASSIGN_OR_RETURN(auto second, normalize());
    new_var = second[4];
  }
  SMELT_RETURN_IF_ERROR(o.Insert(n, op::kCopyInPlace, {var, new_var, InsertConstant(g, n, false)}).status());
  return o.ReplaceOutputs(n, v);
}

// instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, …): without running statistics it is
// pure.
absl::Status InstanceNorm(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  auto is_none = [&](ValueId v) {
    auto c = GetConstant(g, v);
    return c && std::holds_alternative<std::monostate>(*c);
  };
  if (is_none(o.In(n, 3)) && is_none(o.In(n, 4))) return absl::OkStatus();
  auto use = GetConstant(g, o.In(n, 5));
  if (use && std::holds_alternative<bool>(*use) && !std::get<bool>(*use)) return absl::OkStatus();
  // PyTorch's own way: the batch norm of one sample with batch * channels channels, its running statistics averaged
  // over the batch.
  const std::vector<Expr> s = *o.TypeOfValue(o.In(n, 0)).sizes;
  const Expr batch = s[0], channels = s[1];
  std::vector<Expr> flat = s;
  flat[0] = 1;
  flat[1] = batch * channels;
  auto view = [&](ValueId v, const std::vector<Expr>& sizes) -> absl::StatusOr<ValueId> {
    if (o.at_run_time()) {
      SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, op::kReshape, {v, o.IntList(n, sizes)}));
      return out[0];
    }
    if (HasFormat(g, o.TypeOfValue(v), 0) != true) {
      SMELT_ASSIGN_OR_RETURN(auto copy, o.Insert(n, op::kClone, {v, InsertConstant(g, n, int64_t{0})}));
      v = copy[0];
    }
    SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, op::kView, {v, o.IntList(n, sizes)}));
    return out[0];
  };
  auto repeat = [&](ValueId v) -> absl::StatusOr<ValueId> {
    if (is_none(v)) return v;
    SMELT_ASSIGN_OR_RETURN(auto out, o.Insert(n, op::kRepeat, {v, o.IntList(n, {batch})}));
    return out[0];
  };
  SMELT_ASSIGN_OR_RETURN(ValueId x, view(o.In(n, 0), flat));
  SMELT_ASSIGN_OR_RETURN(ValueId weight, repeat(o.In(n, 1)));
  SMELT_ASSIGN_OR_RETURN(ValueId bias, repeat(o.In(n, 2)));
  SMELT_ASSIGN_OR_RETURN(ValueId mean, repeat(o.In(n, 3)));
  SMELT_ASSIGN_OR_RETURN(ValueId var, repeat(o.In(n, 4)));
  SMELT_ASSIGN_OR_RETURN(auto v,
                         o.Insert(n, op::kPrivateNativeBatchNormLegitFunctional,
                                  {x, weight, bias, mean, var, InsertConstant(g, n, true), o.In(n, 6), o.In(n, 7)}, 5));
  for (int k = 0; k < 2; ++k) {
    SMELT_ASSIGN_OR_RETURN(ValueId rows, view(v[3 + k], {batch, channels}));
    SMELT_ASSIGN_OR_RETURN(auto average, o.Insert(n, op::kMeanDim,
                                                  {rows, InsertConstant(g, n, std::vector<int64_t>{0}),
                                                   InsertConstant(g, n, false), o.None(n)}));
    SMELT_RETURN_IF_ERROR(
        o.Insert(n, op::kCopyInPlace, {o.In(n, 3 + k), average[0], InsertConstant(g, n, false)}).status());
  }
  SMELT_ASSIGN_OR_RETURN(ValueId out, view(v[0], s));
  o.ReplaceWith(n, out);
  return absl::OkStatus();
}

// embedding_renorm_(self, indices, max_norm, norm_type): the rows that the indices name are scaled to a norm of
// max_norm if theirs is larger. embedding_renorm does so in a copy.
absl::Status EmbeddingRenorm(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const ValueId self = o.In(n, 0), indices = o.In(n, 1), max_norm = o.In(n, 2), none = o.None(n);
  const std::vector<Expr> rows = {(*o.TypeOfValue(self).sizes)[0]};
  auto constant = [&](const ConstantValue& v) { return InsertConstant(g, n, v); };
  SMELT_ASSIGN_OR_RETURN(auto zeros, o.Insert(n, op::kNewZeros, {self, o.IntList(n, rows), none, none, none, none}));
  SMELT_ASSIGN_OR_RETURN(auto one, o.Insert(n, op::kNewOnes, {self, o.IntList(n, {}), none, none, none, none}));
  NodeId list =
      g.InsertBefore(n, OpName::Get(op::kPrimListConstruct), {indices}, {Type::List(Type::Optional(Type::Tensor()))});
  SMELT_ASSIGN_OR_RETURN(auto named,
                         o.Insert(n, op::kIndexPut, {zeros[0], g.node(list).outputs[0], one[0], constant(false)}));
  SMELT_ASSIGN_OR_RETURN(auto column, o.Insert(n, op::kUnsqueeze, {named[0], constant(int64_t{1})}));
  SMELT_ASSIGN_OR_RETURN(
      auto norm,
      o.Insert(n, op::kLinalgVectorNorm, {self, o.In(n, 3), constant(std::vector<int64_t>{1}), constant(true), none}));
  SMELT_ASSIGN_OR_RETURN(auto seen, o.Insert(n, op::kMulTensor, {norm[0], column[0]}));
  SMELT_ASSIGN_OR_RETURN(auto large, o.Insert(n, op::kGtScalar, {seen[0], max_norm}));
  SMELT_ASSIGN_OR_RETURN(auto safe, o.Insert(n, op::kAddScalar, {norm[0], constant(1e-7), constant(int64_t{1})}));
  SMELT_ASSIGN_OR_RETURN(auto inverse, o.Insert(n, op::kReciprocal, {safe[0]}));
  SMELT_ASSIGN_OR_RETURN(auto scale, o.Insert(n, op::kMulScalar, {inverse[0], max_norm}));
  SMELT_ASSIGN_OR_RETURN(auto scaled, o.Insert(n, op::kMulTensor, {self, scale[0]}));
  SMELT_ASSIGN_OR_RETURN(auto rows_now, o.Insert(n, op::kWhereSelf, {large[0], scaled[0], self}));
  if (g.node(n).op.name() == op::kEmbeddingRenorm) {
    o.ReplaceWith(n, rows_now[0]);
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(auto written, o.Insert(n, op::kCopyInPlace, {self, rows_now[0], constant(false)}));
  o.ReplaceWith(n, written[0]);
  return absl::OkStatus();
}

// _linalg_check_errors(info, api_name, is_matrix): the form in which run_decompositions() expresses that an inverse
// refuses a singular matrix.
absl::Status CheckErrors(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const auto name = GetConstant(g, o.In(n, 1));
  if (!name || !std::holds_alternative<std::string>(*name))
    return absl::UnimplementedError("an api_name that is not a constant");
  SMELT_ASSIGN_OR_RETURN(auto well, o.Insert(n, op::kEqScalar, {o.In(n, 0), InsertConstant(g, n, int64_t{0})}));
  SMELT_ASSIGN_OR_RETURN(auto all, o.Insert(n, op::kAll, {well[0]}));
  const ValueId message = InsertConstant(
      g, n, absl::StrCat(std::get<std::string>(*name), ": the input matrix is singular or not positive-definite"));
  const NodeId assertion = g.InsertBefore(n, OpName::Get(op::kPrivateAssertAsyncMsg), {all[0], message}, {});
  g.SetSource(assertion, g.node(n).source);
  g.Erase(n);
  return absl::OkStatus();
}

}  // namespace

void AddNormalizationOpenings(OpeningTable& table) {
  table[Opening::kBatchNorm] = BatchNorm;
  table[Opening::kInstanceNorm] = InstanceNorm;
  table[Opening::kEmbeddingRenorm] = EmbeddingRenorm;
  table[Opening::kCheckErrors] = CheckErrors;
}

}  // namespace smelt
