// The program, a node at a time. Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_OPERATORS_H_
#define SMELT_FUNCTIONALIZE_OPERATORS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

absl::Status ProcessBlock(ProgramWalk& walk, BlockId b);

// Returns the list with the current values of its tensors.
absl::StatusOr<ValueId> ReadTensorList(ProgramWalk& walk, ValueId list, NodeId anchor);

// Erases an unused view operator, and the unused ones that it was made of, so that the next nodes reuse their memory
// while it is in the caches.
void EraseUnusedView(ProgramWalk& walk, ValueId v);

// Checks that a write does not go to a constant of the program, which would then differ in the next call.
absl::Status CheckNoConstant(const ProgramWalk& walk, TensorId written);
// Checks that a change of geometry does not go to a tensor that may have other names because of a branch or a loop.
absl::Status CheckNoOtherName(const ProgramWalk& walk, TensorId changed);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_OPERATORS_H_
