#include "smelt/core/op/decompose.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

bool HasDecomposition(OpName op) { return FindDecomposition(op) != nullptr; }

absl::StatusOr<bool> Decompose(Graph& g, NodeId n) {
  const DecompositionRule rule = FindDecomposition(g.node(n).op);
  if (rule == nullptr) return false;
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  Emit e(g, n);
  absl::StatusOr<std::vector<ValueId>> results = rule(e, call);
  if (!results.ok()) return results.status();
  if (results->empty()) return false;
  SMELT_RETURN_IF_ERROR(e.ReplaceNode(*results));
  return true;
}

}  // namespace smelt
