// Forms fusion groups: kernels that do the work of several nodes, without memory in between.
//
//   SMELT_ASSIGN_OR_RETURN(FusionReport report, FormGroups(graph, {}));   // after ExpandComposites
//   SMELT_RETURN_IF_ERROR(VerifyFusionPlan(graph));
//   report.edges[0]   // {"aten::mul.Tensor %5", "aten::add.Tensor %6", true, "same loop"}
//
// A group is a node smelt::FusionGroup with the attributes "Subgraph" (its inputs are the node's, in order) and "name".
// The pass walks each block once; a group costs as much as its nodes and operands.
//
// Decisions: a node joins the group of its operands, or a group joins its readers, if one loop nest does both, memory
// traffic shrinks, and no computation is repeated that costs more than reading its result. Groups over one loop that
// read the same operand are joined. A group stands where all its operands are ready and nothing outside needs it yet.
// The readers of a memory's old contents stay before the smelt::write_region that replaces them.
#ifndef SMELT_FUSER_FUSE_H_
#define SMELT_FUSER_FUSE_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/fuser/lowered_groups.h"

namespace smelt {

struct FuseOptions {
  bool explain = false;  // fills FusionReport::edges
  bool verify = false;   // checks the result of the pass "fuse" with VerifyFusionPlan
  int max_group_nodes = 128;
  int max_group_operands = 48;
  // A launch costs more than memory traffic: tensors are small. Read by "overlay-regions", too.
  bool few_launches = false;
  // The live database of this graph. Its moves bring a group's nodes together before they become one. If it knows a
  // dependence in between, the group is not made.
  AliasDb* alias_db = nullptr;
  absl::flat_hash_set<ValueId> written_inputs;  // whose memory the call rewrites
  LoweredGroups* lowered = nullptr;             // keeps the groups' kernels, for the plan
};

// The reason why a value did or did not stay inside a kernel.
struct FusionEdge {
  std::string producer, consumer;  // "aten::mul.Tensor %5"
  bool fused = false;
  std::string reason;
};

struct FusionReport {
  int groups = 0;          // of two nodes or more
  int fused_nodes = 0;     // inside them
  int single_kernels = 0;  // nodes that stay kernels by themselves
  int refused_groups = 0;  // whose nodes the alias database did not allow to be moved together
  std::vector<FusionEdge> edges;
};

absl::StatusOr<FusionReport> FormGroups(Graph& g, const FuseOptions& options);

// Erases leaves that every reader now computes for itself, and views of erased values. Returns the number of erased
// nodes.
int EraseSpentNodes(Graph& g);

// "fuse" is both. Reads FuseOptions, WrittenInputs and the alias database of the context; leaves FusionReport, and the
// groups' kernels in LoweredGroups.
Pass FusePass();

}  // namespace smelt

#endif  // SMELT_FUSER_FUSE_H_
