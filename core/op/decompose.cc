#include "smelt/core/op/decompose.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/tables.h"

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
  // Results have the operator's own dtype and strides, where a rule says them.
  if (op_internal::HasTypeRule(call.op())) {
    SMELT_ASSIGN_OR_RETURN(std::vector<InferredOutput> types, InferCall(call, g.symbols));
    for (size_t i = 0; i < results->size() && i < types.size(); ++i) {
      ValueId& v = (*results)[i];
      if (!g.IsLive(v) || !g.value(v).type.IsTensor() || !types[i].type.IsTensor() ||
          !types[i].type.tensor().IsComplete())
        continue;
      const TensorType& want = types[i].type.tensor();
      v = e.Cast(v, *want.dtype);
      if (!e.ok()) return e.status();
      if (g.value(v).type.tensor().strides == want.strides || g.value(v).type.tensor().sizes != want.sizes) continue;
      if (*want.strides == ContiguousStrides(*want.sizes)) v = e.Contiguous(v);
    }
    if (!e.ok()) return e.status();
  }
  SMELT_RETURN_IF_ERROR(e.ReplaceNode(*results));
  return true;
}

}  // namespace smelt
