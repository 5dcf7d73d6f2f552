// How messages name a node: its operator, and the line of source that it comes from.
//
//   OperatorAndSource(node);   // "aten::add.Tensor (model.py:41)", or "aten::add.Tensor" if the line is not known
#ifndef SMELT_CORE_IR_NODE_TEXT_H_
#define SMELT_CORE_IR_NODE_TEXT_H_

#include <string>

#include "smelt/core/ir/graph.h"

namespace smelt {

std::string OperatorAndSource(const Node& node);
// Names an operator that is no node. `source` may be null.
std::string OperatorAndSource(OpName op, const SourceLocation* source);

}  // namespace smelt

#endif  // SMELT_CORE_IR_NODE_TEXT_H_
