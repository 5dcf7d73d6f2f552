#include "smelt/core/op/decompose.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/check_arguments.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/layout_rule.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/tables.h"

namespace smelt {

namespace {

// Compares strides; those of dims of size 1 do not matter.
bool SameStrides(const TensorType& a, const TensorType& b) {
  for (size_t d = 0; d < a.sizes->size(); ++d) {
    if ((*a.sizes)[d] != Expr(1) && (*a.strides)[d] != (*b.strides)[d]) return false;
  }
  return true;
}

std::string Text(const std::vector<Expr>& sizes) {
  return absl::StrJoin(sizes, ", ", [](std::string* out, const Expr& e) { out->append(e.ToString()); });
}

// Two sizes may be equal although they are written differently, unless both are numbers.
absl::Status CouldBeEqual(const OpCall& call, const std::vector<Expr>& have, const std::vector<Expr>& want) {
  bool equal = have.size() == want.size();
  for (size_t d = 0; equal && d < have.size(); ++d) {
    equal = !have[d].IsConstant() || !want[d].IsConstant() || have[d] == want[d];
  }
  if (equal) return absl::OkStatus();
  return call.Unsupported(
      absl::StrCat("its result should have sizes [", Text(want), "], and would have [", Text(have), "]"));
}

// Returns whether the call works along a dim of a scalar tensor, where dims 0 and -1 are both valid.
bool IsAlongADimOfAScalar(const OpCall& call) {
  static const auto* const operators = new absl::flat_hash_set<std::string>{
      "aten::softmax",       "aten::_softmax",        "aten::log_softmax", "aten::_log_softmax",
      "aten::_safe_softmax", "aten::special_softmax", "aten::std",         "aten::var",
      "aten::std_mean",      "aten::var_mean",        "aten::norm",        "aten::linalg_vector_norm",
      "aten::quantile",      "aten::nanquantile",     "aten::logsumexp",   "aten::logcumsumexp",
      "aten::kthvalue",      "aten::median",          "aten::nanmedian",   "aten::mode"};
  const OpArg* dim = call.Find("dim");
  return operators->contains(call.op().name()) && call.arg(0).IsTensor() && call.arg(0).tensor.sizes &&
         call.arg(0).tensor.rank() == 0 && dim != nullptr &&
         (dim->kind == OpArg::Kind::kInt || (dim->kind == OpArg::Kind::kIntList && !dim->ints.empty()));
}

// Makes the same call on a tensor of one element. Results of that shape become scalar tensors again.
absl::StatusOr<std::vector<ValueId>> AsOneElement(Emit& e, const OpCall& call) {
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(ValueOf(e, a));
  args[0] = e.Unsqueeze(args[0], 0);
  const FunctionSchema* schema = FindSchema(call.op());
  std::vector<ValueId> results = e.Multi(call.op().full(), args, static_cast<int>(schema->returns.size()));
  if (!e.ok()) return e.status();
  for (ValueId& v : results) {
    if (e.Rank(v) == 1 && e.Sizes(v)[0] == Expr(1)) v = e.Squeeze(v, 0);
  }
  if (!e.ok()) return e.status();
  return results;
}

}  // namespace

bool HasDecomposition(OpName op) { return FindDecomposition(op) != nullptr; }

namespace {

enum class Strides { kAsTheyCome, kAsInferred };

absl::StatusOr<bool> DecomposeWith(Graph& g, NodeId n, Strides strides) {
  const DecompositionRule rule = FindDecomposition(g.node(n).op);
  if (rule == nullptr) return false;
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  SMELT_RETURN_IF_ERROR(op_internal::CheckArguments(call));
  Emit e(g, n);
  absl::StatusOr<std::vector<ValueId>> results = IsAlongADimOfAScalar(call) ? AsOneElement(e, call) : rule(e, call);
  if (!results.ok()) return results.status();
  if (results->empty()) return false;
  // Results have the dtype and strides of the node's types, or else those of a rule, because later nodes may rely on
  // them.
  std::vector<InferredOutput> types;
  if (op_internal::HasTypeRule(call.op()) ||
      (strides == Strides::kAsInferred && op_internal::HasLayoutRule(call.op()))) {
    auto inferred = InferCall(call, g.symbols);
    if (inferred.ok()) types = *std::move(inferred);
  }
  for (size_t i = 0; i < results->size() && i < g.node(n).outputs.size(); ++i) {
    ValueId& v = (*results)[i];
    if (!g.IsLive(v) || !g.value(v).type.IsTensor()) continue;
    Type want = g.value(g.node(n).outputs[i]).type;
    if (!want.IsTensor() || !want.tensor().IsComplete()) want = i < types.size() ? types[i].type : Type();
    if (!want.IsTensor() || !want.tensor().IsComplete()) continue;
    v = e.Cast(v, *want.tensor().dtype);
    if (!e.ok()) return e.status();
    const TensorType& have = g.value(v).type.tensor();
    if (!have.IsComplete()) continue;
    if (*have.sizes != *want.tensor().sizes) {
      SMELT_RETURN_IF_ERROR(CouldBeEqual(call, *have.sizes, *want.tensor().sizes));
      continue;
    }
    if (SameStrides(have, want.tensor())) continue;
    if (*want.tensor().strides == ContiguousStrides(*want.tensor().sizes)) {
      v = e.Contiguous(v);
    } else {
      const NodeId copy = g.InsertBefore(n, OpName::Get("smelt::materialize"), {v}, {want});
      g.SetAttribute(copy, "strides", *want.tensor().strides);
      g.SetSource(copy, g.node(n).source);
      v = g.node(copy).outputs[0];
    }
  }
  if (!e.ok()) return e.status();
  SMELT_RETURN_IF_ERROR(e.ReplaceNode(*results));
  return true;
}

}  // namespace

absl::StatusOr<bool> Decompose(Graph& g, NodeId n) { return DecomposeWith(g, n, Strides::kAsInferred); }

namespace op_internal {
absl::StatusOr<bool> DecomposeAsItComes(Graph& g, NodeId n) { return DecomposeWith(g, n, Strides::kAsTheyCome); }
}  // namespace op_internal

}  // namespace smelt
