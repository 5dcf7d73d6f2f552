#include "smelt/core/op/decompose.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/tables.h"

namespace smelt {
namespace {

// Where elements lie; the strides of dims of size 1 do not matter.
bool SameStrides(const TensorType& a, const TensorType& b) {
  for (size_t d = 0; d < a.sizes->size(); ++d) {
    if ((*a.sizes)[d] != Expr(1) && (*a.strides)[d] != (*b.strides)[d]) return false;
  }
  return true;
}

std::string Text(const std::vector<Expr>& sizes) {
  return absl::StrJoin(sizes, ", ", [](std::string* out, const Expr& e) { out->append(e.ToString()); });
}

// Sizes may be one and written differently, unless both are numbers.
absl::Status CouldBeEqual(const OpCall& call, const std::vector<Expr>& have, const std::vector<Expr>& want) {
  bool equal = have.size() == want.size();
  for (size_t d = 0; equal && d < have.size(); ++d) {
    equal = !have[d].IsConstant() || !want[d].IsConstant() || have[d] == want[d];
  }
  if (equal) return absl::OkStatus();
  return call.Unsupported(
      absl::StrCat("its result should have sizes [", Text(want), "], and would have [", Text(have), "]"));
}

}  // namespace

bool HasDecomposition(OpName op) { return FindDecomposition(op) != nullptr; }

absl::StatusOr<bool> Decompose(Graph& g, NodeId n) {
  const DecompositionRule rule = FindDecomposition(g.node(n).op);
  if (rule == nullptr) return false;
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  Emit e(g, n);
  absl::StatusOr<std::vector<ValueId>> results = rule(e, call);
  if (!results.ok()) return results.status();
  if (results->empty()) return false;
  // Results have the dtype and strides that the node's types say, else those that a rule says: what follows may rely on
  // them.
  std::vector<InferredOutput> types;
  if (op_internal::HasTypeRule(call.op())) {
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

}  // namespace smelt
