// Control flow that runs one of two blocks: TorchScript's prim::If, whose blocks read the values around them, and
// torch.export's smelt::cond, whose operands are the parameters of its blocks.
#ifndef SMELT_CORE_OP_BRANCH_H_
#define SMELT_CORE_OP_BRANCH_H_

#include "smelt/core/ir/op_name.h"
#include "smelt/core/op/ops.h"

namespace smelt {

inline bool IsBranch(OpName op) { return op == op::kPrimIf || op == op::kSmeltCond; }

}  // namespace smelt

#endif  // SMELT_CORE_OP_BRANCH_H_
