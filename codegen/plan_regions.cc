// Indexed writes through a view of a memory (pages.view(-1, d)[slots] = rows): the graph copies the viewed part, writes
// into the copy, and puts that back. If nothing looks in between, all three are the memory itself.
#include <algorithm>
#include <vector>

#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

ValueId PlanBuilder::ViewThatIsCopied(ValueId v) const {
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltMaterialize || g_.node(def).parent != g_.top()) return ValueId();
  const ValueId view = g_.node(def).inputs[0];
  const NodeId shows = g_.value(view).def;
  return g_.IsParam(shows) || g_.node(shows).op != op::kSmeltView ? ValueId() : view;
}

bool PlanBuilder::IsIndexedWrite(ValueId v) const {
  const RegionWrites made = RegionWritesOf(g_, v);
  return g_.IsLive(made.base) &&
         std::all_of(made.nodes.begin(), made.nodes.end(), [](const Node* n) { return IsAction(*n); });
}

bool PlanBuilder::IsReadBetween(ValueId v, int first, int last) const {
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

void PlanBuilder::FindRegionsInPlace() {
  // (Regions of memory that arguments share count from one of these.)
  if (grouped_) return;
  for (NodeId n : g_.Nodes(g_.top())) {
    const Node& write = g_.node(n);
    if (write.op != op::kSmeltWriteRegion || destination_.contains(write.outputs[0])) continue;
    const ValueId base = write.inputs[0];
    const std::vector<ValueId> chain = RegionChain(write.inputs[1]);
    const ValueId view = ViewThatIsCopied(chain.back());
    if (chain.size() < 2 || !g_.IsLive(view) || g_.node(g_.value(view).def).inputs[0] != base) continue;
    const SymbolicGeometry region = RegionGeometry(write), shown = RegionGeometry(g_.node(g_.value(view).def));
    if (!SameLayout(region, shown) || region.offset != shown.offset) continue;
    if (Region::Strided(0, region.sizes, region.strides, ItemSize(region.dtype)).OverlapsItself(g_.symbols) != false) {
      continue;
    }
    // (A region written into the copy counts from the memory's first element.)
    if (!std::all_of(chain.begin(), chain.end() - 1, [&](ValueId v) { return IsIndexedWrite(v); })) continue;
    const bool only_here =
        std::all_of(chain.begin(), chain.end(), [&](ValueId v) { return g_.value(v).uses.size() == 1; });
    const int copied = lives_.Begin(g_.value(chain.back()).def), written = lives_.Begin(n);
    if (only_here && LastUse(Root(base)) <= written && !IsReadBetween(base, copied, written)) {
      region_of_copy_[chain.back()] = n;
    }
  }
}

bool PlanBuilder::IsWrittenThroughViews(ValueId contents, ValueId initial, const Location& home) {
  const NodeId def = g_.value(contents).def;
  if (grouped_ || !g_.IsLive(initial) || g_.IsParam(def) || g_.node(def).op != op::kSmeltView) return false;
  const SymbolicGeometry shown = RegionGeometry(g_.node(def));
  if (!SameLayout(shown, home.geometry) || shown.offset != Expr(0) || home.geometry.offset != Expr(0)) return false;
  std::vector<ValueId> copies, written;
  for (ValueId at = Root(contents); at != initial;) {
    const std::vector<ValueId> chain = RegionChain(at);
    const ValueId copy = chain.back(), view = ViewThatIsCopied(copy);
    if (chain.size() < 2 || !g_.IsLive(view)) return false;
    // Element by element where the memory has them.
    const SymbolicGeometry from = RegionGeometry(g_.node(g_.value(view).def));
    if (!SameLayout(from, DefaultLayout(g_, copy)) || from.offset != Expr(0)) return false;
    at = g_.node(g_.value(view).def).inputs[0];
    if (LastUse(Root(at)) > lives_.Begin(g_.value(copy).def)) return false;
    copies.push_back(copy);
    written.insert(written.end(), chain.begin(), chain.end());
  }
  in_place_copies_.insert(copies.begin(), copies.end());
  in_place_chain_.insert(written.begin(), written.end());
  return true;
}

absl::StatusOr<bool> PlanBuilder::IsInPlace(NodeId n) {
  const Node& node = g_.node(n);
  if (in_place_regions_.contains(n)) {
    SMELT_RETURN_IF_ERROR(PlaceRegion(n, node.outputs[0], node.inputs[0]));
    return true;
  }
  if (!node.outputs.empty() && in_place_copies_.contains(node.outputs[0])) {
    SMELT_ASSIGN_OR_RETURN(locations_[node.outputs[0]], Locate(node.inputs[0]));
    Extend(locations_[node.outputs[0]].slot, LastUse(node.outputs[0]));
    return true;
  }
  const auto found = node.outputs.empty() ? region_of_copy_.end() : region_of_copy_.find(node.outputs[0]);
  if (found == region_of_copy_.end()) return false;
  const Node& write = g_.node(found->second);
  SMELT_ASSIGN_OR_RETURN(const Location base, Locate(write.inputs[0]));
  if (!Writable(base.slot, write.outputs[0])) return false;
  SMELT_ASSIGN_OR_RETURN(const Location here, Locate(node.inputs[0]));
  locations_[node.outputs[0]] = here;
  Extend(here.slot, LastUse(node.outputs[0]));
  const std::vector<ValueId> chain = RegionChain(write.inputs[1]);
  in_place_chain_.insert(chain.begin(), chain.end());
  in_place_regions_.insert(found->second);
  return true;
}

}  // namespace smelt
