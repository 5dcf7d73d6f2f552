// What PyTorch refuses before an operator writes, because of memory that its arguments share.
#ifndef SMELT_CORE_OP_WRITE_RULES_H_
#define SMELT_CORE_OP_WRITE_RULES_H_

#include "smelt/core/ir/op_name.h"

namespace smelt {

// How the other tensor arguments may lie to the written one. PyTorch looks only at tensors that cover their span
// without gaps; what it does not look at it computes, in whatever order.
enum class OperandSharing {
  kAny,
  kNotPartly,  // the same elements, or none
  kNone,
};

// Of an operator that writes, `functional` being its pure form if there is one. kNone also where PyTorch accepts
// operands in the written memory and its answer hangs on the order in which it visits elements (masked_scatter_,
// addmm_).
OperandSharing OperandSharingOf(OpName writes, OpName functional);

// Whether it writes one value everywhere, so that PyTorch lets it write expanded memory.
bool WritesExpanded(OpName writes);

// Whether an out= operator lays out a result that it resizes contiguously, and not as its functional form does.
bool ResizesContiguously(OpName out);

}  // namespace smelt

#endif  // SMELT_CORE_OP_WRITE_RULES_H_
