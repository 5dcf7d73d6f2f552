// LowerGroup for repeated queries: fusion asks whether a group has a kernel, and then the plan asks for the kernel.
//
//   LoweredGroups lowered;                                            // of one graph
//   SMELT_RETURN_IF_ERROR(lowered.Lower(g, n, layout).status());      // lowers
//   SMELT_ASSIGN_OR_RETURN(LoweredKernel k, lowered.Lower(g, n, layout));  // copies
//
// A kernel is reused if everything that it was made from is the same: the group's subgraph, its operands and results,
// the set of used results, and the layout function's answer for each value that it was asked about. Other changes of
// the graph in between do not matter.
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

  // Like LowerGroup. Errors, and nodes other than smelt::FusionGroup, are not kept.
  absl::StatusOr<LoweredKernel> Lower(const Graph& g, NodeId n, const LayoutFn& layout);

  int reused() const { return reused_; }

 private:
  struct Entry;
  absl::flat_hash_map<NodeId, std::unique_ptr<Entry>> entries_;
  int reused_ = 0;
};

}  // namespace smelt

#endif  // SMELT_FUSER_LOWERED_GROUPS_H_
