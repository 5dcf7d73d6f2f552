// Where a node stands, seen from a block around it.
#ifndef SMELT_CORE_IR_ENCLOSING_NODE_H_
#define SMELT_CORE_IR_ENCLOSING_NODE_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns the node of block `b` that is `n`, or has it in its blocks; invalid if `n` is not inside of `b`. Takes as many
// steps as there are blocks in between.
inline NodeId EnclosingNode(const Graph& g, BlockId b, NodeId n) {
  while (n.valid() && g.node(n).parent != b) {
    const BlockId parent = g.node(n).parent;
    n = parent.valid() ? g.block(parent).owner : NodeId();
  }
  return n;
}

}  // namespace smelt

#endif  // SMELT_CORE_IR_ENCLOSING_NODE_H_
