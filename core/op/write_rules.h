// What PyTorch refuses before an operator writes, because of memory that its arguments share.
#ifndef SMELT_CORE_OP_WRITE_RULES_H_
#define SMELT_CORE_OP_WRITE_RULES_H_

#include "absl/strings/string_view.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/tensor/element_order.h"

namespace smelt {

// Of an operator that writes, `functional` being its pure form if there is one: for its argument called `argument`.
OperandSharing OperandSharingOf(OpName writes, OpName functional, absl::string_view argument);
// Whether it writes one value everywhere, so that PyTorch lets it write expanded memory.
bool WritesExpanded(OpName writes);

// Whether an out= operator lays out a result that it resizes contiguously, and not as its functional form does.
bool ResizesContiguously(OpName out);

}  // namespace smelt

#endif  // SMELT_CORE_OP_WRITE_RULES_H_
