#include "smelt/fuser/fused_nodes.h"

#include <algorithm>
#include <optional>

#include "smelt/core/op/storage_of.h"
#include "smelt/core/op/traits.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

bool WritesEachElementOnce(const Node& n) { return n.FindAttribute("overlaps_itself") == nullptr; }
Extent ExtentOf(const Node& n) {
  const SymbolicGeometry s = RegionGeometry(n);
  const Attribute* home = n.FindAttribute("argument");
  return {Region::Strided(s.offset, s.sizes, s.strides, ItemSize(s.dtype)),
          home != nullptr ? std::get<int64_t>(*home) : -1};
}
Extent ExtentOf(const Graph& g, ValueId v) {
  if (const NodeId view = ViewNodeOf(g, v); view.valid()) return ExtentOf(g.node(view));
  const SymbolicGeometry s = DefaultLayout(g, v);
  return {Region::Strided(s.offset, s.sizes, s.strides, ItemSize(s.dtype)), -1};
}
Overlap CompareExtents(const Extent& a, const Extent& b, const SymbolRanges& symbols) {
  return a.home == b.home ? Compare(a.region, b.region, symbols) : Overlap::kUnknown;
}
bool IsLeaf(const Node& n) { return IsLeafFamily(GetOpTraits(n.op).family); }
bool IsAllocation(const Node& n) { return GetOpTraits(n.op).family == OpFamily::kAllocation; }

absl::flat_hash_map<std::string, int> NumbersOfData(const Graph& g, const std::vector<NodeId>& nodes) {
  absl::flat_hash_map<std::string, int> known_at;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (IsTransparent(g.node(nodes[i]))) continue;
    for (ValueId v : g.node(nodes[i]).outputs) {
      const std::optional<Expr>& e = g.value(v).expr;
      if (e && e->IsSymbol()) known_at[e->SymbolName()] = static_cast<int>(i);
    }
  }
  if (known_at.empty()) return known_at;
  // Numbers that follow from a call's arguments are known before any node, whichever node uses them.
  for (ValueId v : g.inputs()) {
    const Value& input = g.value(v);
    std::vector<Expr> told;
    if (input.expr) told.push_back(*input.expr);
    if (input.type.IsTensor() && input.type.tensor().sizes) told = *input.type.tensor().sizes;
    for (const Expr& e : told) {
      for (const std::string& symbol : e.Symbols()) known_at.erase(symbol);
    }
  }
  for (size_t i = 0; i < nodes.size() && !known_at.empty(); ++i) {
    if (IsTransparent(g.node(nodes[i]))) continue;
    for (ValueId v : g.node(nodes[i]).outputs) {
      const Type& type = g.value(v).type;
      if (!type.IsTensor() || !type.tensor().sizes) continue;
      for (const Expr& size : *type.tensor().sizes) {
        if (!size.IsSymbol()) continue;
        const auto it = known_at.find(size.SymbolName());
        if (it != known_at.end()) it->second = std::min(it->second, static_cast<int>(i));
      }
    }
  }
  return known_at;
}

}  // namespace smelt
