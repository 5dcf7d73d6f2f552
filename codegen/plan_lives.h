// The positions of a graph's nodes in program order, and the last use of each value.
//
//   Lives lives(graph);
//   if (lives.LastUse(StorageOf(graph, v)) <= lives.Begin(n)) ...   // nothing needs v's memory after n
//
// Uses count for the value whose memory is used: a view's uses are its base's.
#ifndef SMELT_CODEGEN_PLAN_LIVES_H_
#define SMELT_CODEGEN_PLAN_LIVES_H_

#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class Lives {
 public:
  static constexpr int kForever = std::numeric_limits<int>::max() / 2;

  explicit Lives(const Graph& g);

  // A node's blocks are between its begin and its end.
  int Begin(NodeId n) const { return begin_.at(n); }
  int End(NodeId n) const { return end_.at(n); }
  int BlockEnd(BlockId b) const { return block_end_.at(b); }

  // `root` is no view. 0: never used.
  int LastUse(ValueId root) const;
  void SetLastUse(ValueId root, int position) { last_use_[root] = position; }

 private:
  void Number(BlockId b);
  void ComputeLastUses(BlockId b);
  void Use(ValueId v, int position);

  const Graph& g_;
  int next_position_ = 0;
  absl::flat_hash_map<NodeId, int> begin_, end_;
  absl::flat_hash_map<BlockId, int> block_begin_, block_end_;
  std::vector<NodeId> loops_;  // the loops that enclose the current node
  absl::flat_hash_map<ValueId, int> last_use_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_LIVES_H_
