// Properties of nodes, and of the memory that they show, that fusion needs. Internal to the fuser.
#ifndef SMELT_FUSER_FUSED_NODES_H_
#define SMELT_FUSER_FUSED_NODES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

// An attribute of a node whose result must be in memory: the node is not part of any group.
inline constexpr char kStored[] = "stored";

// The visible part of a value's memory. If arguments share memory it counts from the argument `home`, whose distance to
// other arguments is known only in the call; -1: it counts from the memory's first byte.
struct Extent {
  Region region;
  int64_t home = -1;
};
Extent ExtentOf(const Node& n);
// Returns whether the region that a `smelt::write_region` writes cannot overlap itself: no two of its indices reach one
// element. (A region that may overlap itself gets one value everywhere; a kernel that also read it would read what it
// has written.)
bool WritesEachElementOnce(const Node& n);
Extent ExtentOf(const Graph& g, ValueId v);
Overlap CompareExtents(const Extent& a, const Extent& b, const SymbolRanges& symbols);
// Returns whether a node computes its result from numbers alone: any kernel that reads it can compute it instead.
bool IsLeaf(const Node& n);
bool IsAllocation(const Node& n);
// Returns for each number that only the data determines the position in `nodes` of the first node that knows it. Such a
// node reads the number, or has a size equal to it, like an index by a mask.
absl::flat_hash_map<std::string, int> NumbersOfData(const Graph& g, const std::vector<NodeId>& nodes);
// Calls f(e) for each expression in a node's attributes.
template <typename F>
void ForAttributeExprs(const Node& n, const F& f) {
  for (const auto& [name, attribute] : n.attributes) {
    if (const auto* e = std::get_if<Expr>(&attribute)) f(*e);
    if (const auto* all = std::get_if<std::vector<Expr>>(&attribute)) {
      for (const Expr& e : *all) f(e);
    }
  }
}

}  // namespace smelt

#endif  // SMELT_FUSER_FUSED_NODES_H_
