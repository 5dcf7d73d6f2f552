// The nodes that are to be evaluated again, and the loops that are to be solved again. Private to alias/.
//
//   WorkList work(state);
//   work.SetPointsTo(v, set, n, /*first=*/false);  // pushes the users of v if the set is another one
//   work.Push(n);
//
// Invariants: a node is in the queue at most once, and has kQueued then. While a loop is solved again, nodes outside wait
// for its result.
#ifndef SMELT_ALIAS_WORK_LIST_H_
#define SMELT_ALIAS_WORK_LIST_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

constexpr uint32_t kAllParts = UINT32_MAX;  // all arguments and results of a node

class WorkList {
 public:
  explicit WorkList(AliasDb::State& s) : s_(s) {}

  void Clear();
  void Push(NodeId n, uint32_t use = kAllParts);  // use: which of its arguments has changed
  void PushUsers(ValueId v);
  void SetPointsTo(ValueId v, SetId s, NodeId by, bool first);
  // Returns the steps of evaluating n, or those of its parts that have changed.
  int64_t CostOf(NodeId n, const std::vector<uint32_t>* changed) const;
  // Moves the changed parts of n, in order and each once, to *changed.
  void TakeChangedParts(NodeId n, std::vector<uint32_t>* changed);

  NodeId OutermostLoop(NodeId n) const;
  // The value that n passes on may be less than before. The loop around it, if there is one, is solved again, because
  // its back edges may keep alive what no longer comes in. If handles change storages (set_), everything is solved
  // again, because they act as loops do.
  void ResolveAround(NodeId n);
  // n gets another value, or is another value: a back edge alone may now keep alive the values that came through it.
  void ResolveFrom(NodeId n);
  void ResolveUsers(ValueId v);  // which holds less: loops that use it may go on handing it to themselves

  std::vector<NodeId> queue;
  NodeId resolving;                             // the outermost loop that is being solved again
  std::vector<NodeId> waiting;                  // for its result
  absl::flat_hash_set<uint32_t> resolve_loops;  // outermost loops to solve again: what is known there may be too much
  absl::flat_hash_set<uint32_t> must_resolve;   // of those: what is known there may be wrong
  // By index, of nodes in the queue that are wide: which of their arguments and results (of a loop: carried values)
  // have changed, if not all.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> changed_parts;
  bool growing = false;  // the node at hand has been evaluated many times: its results only grow

 private:
  void NotePart(NodeId n, bool as_result, uint32_t use);
  bool FlowsOn(ValueId v);  // it may reach a back edge or a container; only a few steps are followed

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_WORK_LIST_H_
