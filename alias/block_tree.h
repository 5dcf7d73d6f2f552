// The positions of nodes in a graph's tree of blocks: the node of a block that contains another node, the order of two
// nodes, the loops around a node. Private to alias/.
#ifndef SMELT_ALIAS_BLOCK_TREE_H_
#define SMELT_ALIAS_BLOCK_TREE_H_

#include <cstdint>
#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// Each query takes O(log(depth)) steps: a block knows its parent and one block further up, at distances such that any
// ancestor is a logarithmic number of jumps away. Facts about a block are computed at the first query, and dropped when
// a node that has blocks moves into another block.
class BlockTree {
 public:
  explicit BlockTree(const Graph& g) : g_(g) {}

  // Returns n, or the node around it that is in b; invalid if there is none.
  NodeId AncestorIn(BlockId b, NodeId n) const;
  // Returns true when a comes before b in the text: in their common block, or the outer one first.
  bool IsBefore(NodeId a, NodeId b) const;
  // The nodes of the innermost common block that a and b are or are in.
  struct Common {
    NodeId a, b;
    BlockId below_a, below_b;  // their blocks on the way down; invalid if it is the node itself
  };
  Common CommonOf(NodeId a, NodeId b) const;
  // Returns the innermost or the outermost loop around n; invalid if there is none.
  NodeId InnermostLoop(NodeId n) const;
  NodeId OutermostLoopAround(NodeId n) const;

  void Forget() { ++epoch_; }
  // Notes that a node's operator has changed: the node may have become a loop, or ceased to be one.
  void OperatorChanged(NodeId n);
  int64_t steps() const { return steps_; }
  int64_t bytes() const { return static_cast<int64_t>(info_.capacity() * sizeof(Info)); }

 private:
  struct Info {
    uint32_t epoch = 0, generation = 0, depth = 0;
    bool in_loop_node = false;  // its owner is a loop
    BlockId parent, jump;
    NodeId owner, innermost, outermost;
  };
  const Info& Of(BlockId b) const;
  BlockId AncestorAt(BlockId b, uint32_t depth) const;

  const Graph& g_;
  uint32_t epoch_ = 1;
  mutable std::vector<Info> info_;
  mutable std::vector<BlockId> todo_;
  mutable int64_t steps_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_BLOCK_TREE_H_
