// What fusion asks of nodes and of the memory that they show.
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "smelt/fuser/block_fuser.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

bool IsTransparent(const Node& n) {
  return n.op == "smelt::view" || n.op == "smelt::size" || n.op == "prim::Constant" || n.op == "prim::ListConstruct" ||
         n.op == "prim::TupleConstruct";
}
bool IsAction(const Node& n) { return absl::StartsWith(n.op.name(), "smelt::inplace_"); }
bool IsRegionOp(const Node& n) { return n.op == "smelt::write_region" || IsAction(n); }
bool WritesEachElementOnce(const Node& n) { return n.FindAttribute("overlaps_itself") == nullptr; }
Extent ExtentOf(const Node& n) {
  const SymbolicGeometry s = RegionGeometry(n);
  const Attribute* home = n.FindAttribute("argument");
  return {Region::Strided(s.offset, s.sizes, s.strides, ItemSize(s.dtype)),
          home != nullptr ? std::get<int64_t>(*home) : -1};
}
Extent ExtentOf(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (!g.IsParam(def) && g.node(def).op == "smelt::view") return ExtentOf(g.node(def));
  const SymbolicGeometry s = DefaultLayout(g, v);
  return {Region::Strided(s.offset, s.sizes, s.strides, ItemSize(s.dtype)), -1};
}
Overlap CompareExtents(const Extent& a, const Extent& b, const SymbolRanges& symbols) {
  return a.home == b.home ? Compare(a.region, b.region, symbols) : Overlap::kUnknown;
}
bool IsLeaf(const Node& n) {
  static const auto* const names = new absl::flat_hash_set<std::string>{
      "smelt::full",      "aten::full",          "aten::zeros",     "aten::ones",     "aten::full_like",
      "aten::zeros_like", "aten::ones_like",     "aten::new_zeros", "aten::new_ones", "aten::new_full",
      "aten::arange",     "aten::scalar_tensor", "aten::eye"};
  return names->contains(n.op.name());
}
bool IsAllocation(const Node& n) {
  return absl::StartsWith(n.op.name(), "aten::empty") || absl::StartsWith(n.op.name(), "aten::new_empty");
}

ValueId RootOf(const Graph& g, ValueId v) {
  while (true) {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def) || g.node(def).op != "smelt::view") return v;
    v = g.node(def).inputs[0];
  }
}

}  // namespace smelt
