#include "smelt/fuser/fuse.h"

#include <algorithm>
#include <climits>
#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/alias/alias_pass.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/pass/written_inputs.h"
#include "smelt/fuser/block_fuser.h"

namespace smelt {

absl::Status BlockFuser::Run() {
  nodes_ = g_.Nodes(block_);
  number_ = places_.Add(g_, nodes_);
  group_of_.assign(nodes_.size(), -1);
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (IsRegionOp(N(i))) writers_[Root(N(i).inputs[0])].push_back(i);
  }
  read_at_ = NumbersOfData(g_, nodes_);
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) SMELT_RETURN_IF_ERROR(Visit(i));
  for (int k = 0; k < static_cast<int>(groups_.size()); ++k) Pull(k);
  JoinSiblings();
  return Emit();
}

int BlockFuser::PlaceOf(NodeId n) const {
  while (true) {
    if (const int at = places_.Of(n, number_); at != INT_MIN) return at;
    const BlockId parent = g_.node(n).parent;
    if (!parent.valid() || parent == block_) return INT_MIN;
    n = g_.block(parent).owner;
    if (!n.valid()) return INT_MIN;
  }
}

ValueId BlockFuser::Root(ValueId v) const {
  while (true) {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || g_.node(def).op != op::kSmeltView) return v;
    v = g_.node(def).inputs[0];
  }
}

int BlockFuser::DefPlace(ValueId v) const {
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).parent != block_) return kBefore;
  return places_.Of(def, number_);
}

int BlockFuser::Ready(ValueId v) const {
  const int i = DefPlace(v);
  if (i == kBefore) return kBefore;
  const Node& def = N(i);
  if (IsTransparent(def) || (IsAllocation(def) && group_of_[i] < 0)) {
    int ready = SizesReady(def);
    for (ValueId x : def.inputs) ready = std::max(ready, Ready(x));
    return ready;
  }
  return At(i);
}

int BlockFuser::SizesReady(const Node& n) const {
  int ready = kBefore;
  if (read_at_.empty()) return ready;
  auto see = [&](const Expr& e) {
    for (const std::string& s : e.Symbols()) {
      if (const auto it = read_at_.find(s); it != read_at_.end()) ready = std::max(ready, At(it->second));
    }
  };
  ForAttributeExprs(n, see);
  for (ValueId v : n.outputs) {
    if (g_.value(v).expr) see(*g_.value(v).expr);
    if (IsTensor(v) && T(v).sizes) absl::c_for_each(*T(v).sizes, see);
  }
  return ready;
}

int BlockFuser::PlaceReady(ValueId view) const {
  int ready = kBefore;
  for (int i = DefPlace(view); i >= 0 && N(i).op == op::kSmeltView; i = DefPlace(N(i).inputs[0])) {
    ready = std::max(ready, SizesReady(N(i)));
  }
  return ready;
}

int BlockFuser::Needed(ValueId v, int a, int b, int enough) const {
  int first = kNever;
  for (const Use& u : g_.value(v).uses) {
    if (first <= enough) return first;
    if (g_.IsReturn(u.user)) {
      if (g_.node(u.user).parent != block_) {
        const int i = PlaceOf(g_.block(g_.node(u.user).parent).owner);
        if (i != INT_MIN) first = std::min(first, At(i));
      }
      continue;
    }
    const int i = PlaceOf(u.user);
    if (i == INT_MIN) continue;
    if (group_of_[i] >= 0 && (group_of_[i] == a || group_of_[i] == b)) continue;
    if (nodes_[i] == u.user && IsTransparent(N(i))) {
      for (ValueId o : N(i).outputs) first = std::min(first, Needed(o, a, b, enough));
      continue;
    }
    first = std::min(first, At(i));
  }
  return first;
}

absl::StatusOr<FusionReport> FormGroups(Graph& g, const FuseOptions& options) {
  FusionReport report;
  NodePlaces places;
  SMELT_RETURN_IF_ERROR(BlockFuser(g, g.top(), options, report, places).Run());
  return report;
}

int EraseSpentNodes(Graph& g) {
  int erased = 0;
  std::vector<NodeId> nodes = g.AllNodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& n = g.node(*it);
    if (!IsTransparent(n) && !IsLeaf(n) && !IsAllocation(n)) continue;
    if (absl::c_any_of(n.outputs, [&](ValueId v) { return !g.value(v).uses.empty(); })) continue;
    g.Erase(*it);
    ++erased;
  }
  return erased;
}

Pass FusePass() {
  return {.name = "fuse",
          .description = "forms groups that are one kernel each (--explain says of each edge why it fused or did not)",
          .prerequisites = {"build-alias-db", "expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            FuseOptions options = context.Get<FuseOptions>();
            if (options.alias_db == nullptr) options.alias_db = LiveAliasDb(context);
            options.lowered = &context.Get<LoweredGroups>();
            options.written_inputs = context.Get<WrittenInputs>().values;
            const int late_reads = options.verify ? CountLateReads(g) : 0;
            const EditCounter edits(g);
            SMELT_ASSIGN_OR_RETURN(context.Get<FusionReport>(), FormGroups(g, options));
            EraseSpentNodes(g);
            if (options.verify) SMELT_RETURN_IF_ERROR(VerifyFusionPlan(g, late_reads));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
