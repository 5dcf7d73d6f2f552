// PyTorch refuses some operands that overlap the tensor that an operator writes. It checks only tensors that cover their
// span (assert_no_partial_overlap, assert_no_overlap). Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_SHARING_CHECKS_H_
#define SMELT_FUNCTIONALIZE_SHARING_CHECKS_H_

#include "absl/status/status.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

// Checks an operand, which may be a tensor or a list of tensors.
absl::Status CheckSharing(ProgramWalk& walk, TensorId written, ValueId operand, OperandSharing rule, NodeId anchor);
// Also checks, for tensors that PyTorch does not check, whether the result depends on its order of computation.
absl::Status CheckSharing(ProgramWalk& walk, TensorId written, TensorId read, OperandSharing rule, NodeId anchor);

// Forgets the checks of a tensor after a change of its geometry, so that they are made again.
void ForgetChecks(ProgramWalk& walk, TensorId t);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_SHARING_CHECKS_H_
