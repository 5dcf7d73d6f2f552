// The loops of a graph, numbered, with the loops around each. Private to alias/.
//
//   LoopTable loops(graph, tree);
//   const uint32_t l = loops.Around(n);  // 0: n is in no loop
//   loops.IsWithin(l, outer);            // O(log depth)
//
// Invariants: entry 0 stands for no loop and is around all others. The number of a loop's parent is smaller than its
// own. A loop keeps its number until Clear, and gets one when somebody first asks for it.
#ifndef SMELT_ALIAS_LOOP_TABLE_H_
#define SMELT_ALIAS_LOOP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/alias/block_tree.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

inline bool IsLoopKind(EffectKind k) { return k == EffectKind::kLoop || k == EffectKind::kWhile; }

struct Loop {
  NodeId node;
  uint32_t parent = 0;
  uint32_t jump = 0;  // one further up: any is a logarithmic number of jumps away
  uint32_t top = 0;   // the outermost around it, or itself
  uint32_t depth = 0;
  uint32_t first_carried = 0, num_carried = 0;  // see CarriedBy
  int64_t cost = 0;                             // of an outermost loop: the steps that it took when it was last solved
};

class LoopTable {
 public:
  LoopTable(const Graph& g, const BlockTree& tree) : g_(g), tree_(tree) { Clear(); }
  void Clear();
  Loop& operator[](uint32_t loop) { return loops_[loop]; }
  const Loop& operator[](uint32_t loop) const { return loops_[loop]; }
  bool IsEmpty() const { return loops_.size() == 1; }

  uint32_t IndexOf(NodeId loop_node);                   // of a loop itself
  uint32_t KnownIndexOf(NodeId loop_node) const;        // 0: none yet
  const Loop& AtNode(uint32_t node_index) const;        // entry 0 if no loop with a number is there
  void Forget(NodeId n);                                // which is about to be erased
  uint32_t Around(NodeId n);                            // the innermost loop around it
  uint32_t CommonOf(NodeId a, NodeId b);                // the innermost loop around both, which may be one of them
  NodeId OutermostOf(NodeId n) const;                   // n itself, if it is one; invalid if there is none
  bool IsWithin(uint32_t inner, uint32_t outer) const;  // inner == outer or inside

  // The loops from `loop` outwards that are not around the allocations in holder_loop: the innermost and the outermost;
  // 0 if there are none.
  struct Range {
    uint32_t inner = 0, outer = 0;
  };
  Range Between(uint32_t loop, uint32_t holder_loop) const;

  // Sets to remember for the loop, at least `size` of them, empty at first: what went in and came back when it was last
  // evaluated, for each carried value. Valid until the next call.
  absl::Span<SetId> CarriedBy(uint32_t loop, size_t size);
  absl::Span<const SetId> all_carried() const { return carried_; }

  std::vector<Loop>::const_iterator begin() const { return loops_.begin(); }
  std::vector<Loop>::const_iterator end() const { return loops_.end(); }
  int64_t bytes() const;

 private:
  const Graph& g_;
  const BlockTree& tree_;
  std::vector<Loop> loops_;
  std::vector<uint32_t> of_node_;  // by node index; 0: none; short while there are no loops
  std::vector<SetId> carried_;     // of all loops
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_LOOP_TABLE_H_
