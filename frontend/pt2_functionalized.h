// Calls of operators that write, in archives after run_decompositions().
#ifndef SMELT_FRONTEND_PT2_FUNCTIONALIZED_H_
#define SMELT_FRONTEND_PT2_FUNCTIONALIZED_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_parts.h"

namespace smelt {
namespace pt2_internal {

// Reads auto_functionalized(operator, **arguments) and auto_functionalized_v2, into which run_decompositions() turns
// the call of an operator that writes: the call on copies, which are results. In the second form written arguments are
// views of the tensors `_all_bases`, which are copied.
absl::Status ReadAutoFunctionalized(Pt2Parts& p, const Json& inputs, const Json& outputs, NodeId anchor, Scope& scope);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_FUNCTIONALIZED_H_
