#include "smelt/codegen/plan_regions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

Expr BytesOf(const SymbolicGeometry& g) {
  Expr last = 0, n = 1;
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    last = last + (g.sizes[d] - 1) * g.strides[d];
    n = n * g.sizes[d];
  }
  // The span of a dense tensor is its number of elements. Written like this, an empty tensor has no bytes.
  std::vector<Expr> contiguous = ContiguousStrides(g.sizes);
  const Expr elements = (contiguous == g.strides || last + 1 == n) ? n : Max(last + 1 + g.offset, Expr(0));
  return elements * ItemSize(g.dtype);
}

bool SameLayout(const SymbolicGeometry& a, const SymbolicGeometry& b) {
  if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.strides[d] != b.strides[d] && a.sizes[d] != Expr(1)) return false;
  }
  return true;
}

bool SameElements(const SymbolicGeometry& a, const SymbolicGeometry& b) {
  return ItemSize(a.dtype) == ItemSize(b.dtype) && BytesOf(a) == BytesOf(b);
}

ValueId PlanRegions::BaseOf(ValueId v) const { return RegionWritesOf(g_, v).base; }

std::vector<ValueId> PlanRegions::ChainOf(ValueId v) const {
  std::vector<ValueId> chain = {v};
  for (ValueId base = BaseOf(v); g_.IsLive(base); base = BaseOf(base)) chain.push_back(base);
  return chain;
}

bool PlanRegions::OutlivesRewrite(const std::vector<ValueId>& chain) const {
  for (size_t i = 1; i < chain.size(); ++i) {
    if (lives_.LastUse(StorageOf(g_, chain[i])) > lives_.Begin(g_.value(chain[i - 1]).def)) return true;
  }
  return false;
}

std::optional<int> PlanRegions::HomeOf(ValueId v) const {
  const Graph* g = &g_;
  NodeId def = g_.value(v).def;
  if (g_.IsParam(def)) return std::nullopt;
  if (g_.node(def).op == op::kSmeltFusionGroup) {
    const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(g_.node(def).FindAttribute("Subgraph"));
    if (subgraph == nullptr) return std::nullopt;
    const ValueId inner = (*subgraph)->outputs()[g_.value(v).def_index];
    g = subgraph->get();
    def = g->value(inner).def;
    if (g->IsParam(def)) return std::nullopt;
  }
  const Attribute* home = g->node(def).FindAttribute("argument");
  if (home == nullptr) return std::nullopt;
  return static_cast<int>(std::get<int64_t>(*home));
}

bool PlanRegions::ShowsAPart(ValueId v, ValueId owner) const {
  if (v == owner) return false;
  const SymbolicGeometry shown = RegionGeometry(g_.node(g_.value(v).def));
  return shown.offset != Expr(0) || BytesOf(shown) != BytesOf(DefaultLayout(g_, owner));
}

bool PlanRegions::CanPlace(ValueId v) const {
  const Node& node = g_.node(g_.value(v).def);
  return !absl::StartsWith(node.op.name(), op::kPrimNamespace) && node.op != op::kSmeltView;
}

ValueId PlanRegions::ViewThatIsCopied(ValueId v) const {
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltMaterialize || g_.node(def).parent != g_.top()) return ValueId();
  const ValueId view = g_.node(def).inputs[0];
  return ViewNodeOf(g_, view).valid() ? view : ValueId();
}

bool PlanRegions::IsIndexedWrite(ValueId v) const {
  const RegionWrites made = RegionWritesOf(g_, v);
  return g_.IsLive(made.base) &&
         std::all_of(made.nodes.begin(), made.nodes.end(), [](const Node* n) { return IsAction(*n); });
}

bool PlanRegions::IsReadBetween(ValueId v, int first, int last) const {
  return std::any_of(g_.value(v).uses.begin(), g_.value(v).uses.end(), [&](const Use& u) {
    if (g_.IsReturn(u.user)) return false;  // LastUse knows
    if (IsTransparent(g_.node(u.user))) {
      return std::any_of(g_.node(u.user).outputs.begin(), g_.node(u.user).outputs.end(),
                         [&](ValueId o) { return IsReadBetween(o, first, last); });
    }
    const int at = lives_.Begin(u.user);
    return first < at && at < last;
  });
}

}  // namespace smelt
