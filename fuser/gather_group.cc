#include "smelt/fuser/gather_group.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace smelt {

bool GatherGroup(AliasDb& db, Graph& g, absl::Span<const NodeId> members, NodeId anchor,
                 const std::function<bool(const Node&)>& goes_along, std::string* why) {
  const BlockId block = g.node(anchor).parent;
  absl::flat_hash_set<NodeId> cluster(members.begin(), members.end());
  // A view between two members stays between them.
  const auto joins = [&](auto&& self, NodeId n) -> bool {
    if (!n.valid() || g.IsParam(n) || g.node(n).parent != block) return false;
    if (cluster.contains(n)) return true;
    if (!goes_along(g.node(n))) return false;
    bool between = false;
    for (ValueId v : g.node(n).inputs) between |= self(self, g.value(v).def);
    if (between) cluster.insert(n);
    return between;
  };
  for (NodeId m : members) {
    for (ValueId v : g.node(m).inputs) joins(joins, g.value(v).def);
  }
  std::vector<NodeId> order(cluster.begin(), cluster.end());
  std::sort(order.begin(), order.end(), [&](NodeId a, NodeId b) { return g.IsBefore(a, b); });
  const auto at = std::find(order.begin(), order.end(), anchor);
  NodeId first = anchor, last = anchor;
  for (auto n = at; n != order.begin();) {
    --n;
    if (g.node(*n).next != first) {
      const absl::Status moved = db.MoveBefore(*n, first);
      if (!moved.ok()) {
        *why = std::string(moved.message());
        return false;
      }
    }
    first = *n;
  }
  for (auto n = at + 1; n != order.end(); ++n) {
    if (g.node(*n).prev != last) {
      const absl::Status moved = db.MoveAfter(*n, last);
      if (!moved.ok()) {
        *why = std::string(moved.message());
        return false;
      }
    }
    last = *n;
  }
  // A node that came along with one member may be in the way of another.
  for (NodeId n = first; n != last; n = g.node(n).next) {
    if (cluster.contains(n) || goes_along(g.node(n))) continue;
    *why = absl::StrCat(g.node(n).op.full(), " depends on one of them and another on it");
    return false;
  }
  return true;
}

}  // namespace smelt
