// Operators that write into tensors, as their functional counterparts. Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_WRITE_OPERATORS_H_
#define SMELT_FUNCTIONALIZE_WRITE_OPERATORS_H_

#include "absl/status/status.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

// In-place and out= operators: the functional counterpart, then the write.
absl::Status ProcessWrite(ProgramWalk& walk, NodeId n, ProgramWalk::Operator& op);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_WRITE_OPERATORS_H_
