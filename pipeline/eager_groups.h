// Forms fusion groups in the mutating graph, for the eager-order plan: runs of operators that compute, between views,
// writes and control flow that stay steps of their own.
//
//   EagerGroups formed = FormEagerGroups(graph);
//   formed.groups[0];    // the nodes of the first group
//
// A group begins with a node and takes later nodes of its block that use a tensor of the group, or that compute as many
// elements as a member does. A node joins where the alias database allows it to stand next to the group. What it needs
// becomes a member, too, or moves ahead of the group, as other views and numbers do. The database is built once and
// follows the moves.
//
// Views of what a group makes are members. If a group writes a tensor and sees parts of it, the group's call makes the
// same views (eager_bases.h).
//
// An operator that writes may be a member, if it replaces all elements of a tensor. Tensors of a group may share
// memory in some calls unless the database rules it out: whoever runs a group checks that.
#ifndef SMELT_PIPELINE_EAGER_GROUPS_H_
#define SMELT_PIPELINE_EAGER_GROUPS_H_

#include <memory>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/eager_bases.h"

namespace smelt {

// Two nodes that compute, or more, and views of what they make. They are adjacent now, in the order of the program.
using EagerGroup = std::vector<NodeId>;

struct EagerGroups {
  std::unique_ptr<AliasDb> db;  // of the graph
  std::vector<EagerGroup> groups;
  EagerBases bases;
};

// The graph's composites are open. Moves nodes within their blocks.
EagerGroups FormEagerGroups(Graph& g);

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_GROUPS_H_
