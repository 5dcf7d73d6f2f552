// The operators that an archive's nodes call.
#ifndef SMELT_FRONTEND_PT2_TARGETS_H_
#define SMELT_FRONTEND_PT2_TARGETS_H_

#include <string>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/declare.h"
#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

// "torch.ops.aten.add_.Tensor" is aten::add_.Tensor; "_operator.mul" is aten::mul.int, or .float if one of the inputs
// is. `operators` are those of the user's own; it may be null.
absl::StatusOr<OpName> TargetName(const std::string& target, const Json& inputs, const OperatorDeclarations* operators);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_TARGETS_H_
