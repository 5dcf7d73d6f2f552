// Forms fusion groups in the mutating graph, for the eager-order plan: runs of operators that compute, between views,
// writes and control flow that stay steps of their own.
//
//   std::vector<EagerGroup> groups = FormEagerGroups(graph);
//
// A group begins with a node and takes later nodes of its block that use a tensor of the group. A node joins where the
// alias database allows it to stand next to the group; views and numbers that it needs move ahead of the group. The
// database is built once and follows the moves.
//
// An operator that writes may be a member, if it replaces all elements of a tensor. Tensors of a group may share
// memory in some calls unless the database rules it out: whoever runs a group checks that.
#ifndef SMELT_PIPELINE_EAGER_GROUPS_H_
#define SMELT_PIPELINE_EAGER_GROUPS_H_

#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {

// Two nodes or more, which are adjacent now, in the order of the program.
using EagerGroup = std::vector<NodeId>;

// The graph's composites are open. Moves nodes within their blocks.
std::vector<EagerGroup> FormEagerGroups(Graph& g);

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_GROUPS_H_
