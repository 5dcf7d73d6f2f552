// LowerGroup for who asks more than once: fusion, whether a group has a kernel, and then the plan, which kernel.
//
//   LoweredGroups lowered;                                            // of one graph
//   SMELT_RETURN_IF_ERROR(lowered.Lower(g, n, layout).status());      // lowers
//   SMELT_ASSIGN_OR_RETURN(LoweredKernel k, lowered.Lower(g, n, layout));  // copies
//
// A kernel is given again where all that it was made from is the same: the group's subgraph, its operands and results,
// which results are used, and what the layout function said of each value that it was asked for. Whatever else happened
// to the graph in between does not matter.
#ifndef SMELT_FUSER_LOWERED_GROUPS_H_
#define SMELT_FUSER_LOWERED_GROUPS_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

class LoweredGroups {
 public:
  LoweredGroups();
  LoweredGroups(const LoweredGroups&) = delete;
  LoweredGroups& operator=(const LoweredGroups&) = delete;
  ~LoweredGroups();

  // As LowerGroup. Errors, and nodes that are no smelt::FusionGroup, are not kept.
  absl::StatusOr<LoweredKernel> Lower(const Graph& g, NodeId n, const LayoutFn& layout);

  int reused() const { return reused_; }

 private:
  struct Entry;
  absl::flat_hash_map<NodeId, std::unique_ptr<Entry>> entries_;
  int reused_ = 0;
};

}  // namespace smelt

#endif  // SMELT_FUSER_LOWERED_GROUPS_H_
