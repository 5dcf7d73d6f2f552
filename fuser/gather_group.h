// Brings the nodes of a fusion group together, by the alias database's moves.
#ifndef SMELT_FUSER_GATHER_GROUP_H_
#define SMELT_FUSER_GATHER_GROUP_H_

#include <functional>
#include <string>

#include "absl/types/span.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Moves `members`, nodes of one block, next to `anchor`, which is one of them. Nodes for which `goes_along` holds
// (views, lists) move too if they are between members. Returns false, with *why, if some node depends on one member and
// another member on it, through a value or through memory. Then the graph is in another legal order, and the nodes
// cannot be one. Costs as much as the dependences in between.
bool GatherGroup(AliasDb& db, Graph& g, absl::Span<const NodeId> members, NodeId anchor,
                 const std::function<bool(const Node&)>& goes_along, std::string* why);

}  // namespace smelt

#endif  // SMELT_FUSER_GATHER_GROUP_H_
