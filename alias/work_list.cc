#include "smelt/alias/work_list.h"

#include <algorithm>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void WorkList::Clear() {
  queue.clear();
  waiting.clear();
  resolve_loops.clear();
  must_resolve.clear();
  changed_parts.clear();
}

NodeId WorkList::OutermostLoop(NodeId n) const { return s_.loops.OutermostOf(n); }

void WorkList::TakeChangedParts(NodeId n, std::vector<uint32_t>* changed) {
  if (const auto it = changed_parts.find(n.index); it != changed_parts.end()) {
    changed->swap(it->second);
    changed_parts.erase(it);
  }
  std::sort(changed->begin(), changed->end());
  changed->erase(std::unique(changed->begin(), changed->end()), changed->end());
}

int64_t WorkList::CostOf(NodeId n, const std::vector<uint32_t>* changed) const {
  if (changed != nullptr) return 1 + static_cast<int64_t>(changed->size());
  const Node& node = s_.g.node(n);
  return 1 + static_cast<int64_t>(node.inputs.size() + node.outputs.size());
}

// A use by a loop's body or arguments is one of the values that it carries.
void WorkList::NotePart(NodeId n, bool as_result, uint32_t use) {
  uint32_t part = use;
  if (use != kAllParts) {
    const EffectKind kind = GetOpEffects(s_.g.node(n).op).kind;
    uint32_t skipped = 0;
    if (kind == EffectKind::kLoop) {
      skipped = as_result ? 1 : 2;
    } else if (kind == EffectKind::kCond && !as_result) {
      skipped = kAllParts;  // it is an argument of the blocks
    } else if (kind == EffectKind::kIf && !as_result) {
      skipped = kAllParts;
    } else if (!as_result && kind != EffectKind::kWhile && kind != EffectKind::kListConstruct &&
               kind != EffectKind::kTupleConstruct && kind != EffectKind::kDictConstruct) {
      skipped = kAllParts;
    }
    part = use >= skipped ? use - skipped : kAllParts;
  }
  std::vector<uint32_t>& noted = changed_parts[n.index];
  if (!noted.empty() && noted[0] == kAllParts) return;
  if (part == kAllParts || noted.size() > s_.g.node(n).inputs.size() + s_.g.node(n).outputs.size()) {
    noted.clear();
    part = kAllParts;
  }
  noted.push_back(part);
}

void WorkList::Push(NodeId n, uint32_t use) {
  // A value of the caller's may have very many users. Nothing is read of those that are in the queue, of those that
  // building has not come to yet, and, of the others that have been evaluated, of the graph.
  uint16_t flags = 0;
  if (n.index < s_.records.nodes.size() && s_.records.nodes[n.index].generation == n.generation) {
    flags = s_.records.nodes[n.index].flags;
  }
  if ((flags & (NodeRecord::kQueued | NodeRecord::kWide)) == NodeRecord::kQueued) return;
  if (s_.solver.walking && (flags & (NodeRecord::kEvaluated | NodeRecord::kReturn)) == 0) return;
  bool as_result = false;
  if ((flags & NodeRecord::kEvaluated) == 0 && s_.g.IsReturn(n)) {
    as_result = true;
    NodeId owner = s_.g.block(s_.g.node(n).parent).owner;
    if (!owner.valid()) {
      s_.changes.dirty = s_.changes.reach = true;
      return;
    }
    n = owner;
  }
  NodeRecord& r = s_.records.RecordOf(n);
  if (!(r.flags & NodeRecord::kEvaluated)) return;
  if (r.flags & NodeRecord::kWide) NotePart(n, as_result, use);
  if (r.flags & NodeRecord::kQueued) return;
  r.flags |= NodeRecord::kQueued;
  // While a loop is solved again, sets grow from nothing. Nodes outside wait for the result.
  const bool waits = resolving.valid() && OutermostLoop(n) != resolving;
  (waits ? waiting : queue).push_back(n);
}

void WorkList::PushUsers(ValueId v) {
  for (const Use& u : s_.g.value(v).uses) {
    Push(u.user, u.index);
    if (!s_.solver.monotone && !s_.budget.overdrawn && !s_.g.IsReturn(u.user))
      s_.records.RecordOf(u.user).flags |= NodeRecord::kInputsChanged;
  }
}

void WorkList::SetPointsTo(ValueId v, SetId s, NodeId by, bool first) {
  ValueRecord& r = s_.records.RecordOf(v);
  if (first) {
    r.points_to = s;
    return;
  }
  const SetId before = r.points_to;
  if (!s_.solver.monotone && before != s) s_.solver.Spend(static_cast<int64_t>(s_.g.value(v).uses.size()));
  if (s_.budget.overdrawn && before != 0 && s != before) s = s_.memory.Grown(before, s);
  // Two values that are read from what the other is stored in could otherwise change in turns for ever.
  if (growing && before != 0 && s != before) s = s_.memory.Join(before, s);
  s_.records.values[v.index].points_to = s;
  bool changed = before != s;
  if (!changed && !s_.memory.touched.empty()) {
    uint64_t last = 0;
    s_.sets.ForEach(s, [&](Ref x) {
      if (auto it = s_.memory.touched.find(ObjectOf(x)); it != s_.memory.touched.end())
        last = std::max(last, it->second);
    });
    if (last != 0) {
      uint64_t& epoch = s_.memory.forced[v.index];
      changed = epoch < last;
      epoch = std::max(epoch, last);
    }
  }
  if (!changed) return;
  s_.changes.dirty = true;
  s_.changes.reach |= before != 0;
  // Members that are gone may be kept alive by a back edge, which the loop notices, or by a container, whose readers
  // are notified. If only a storage has changed, neither can notice.
  if (!s_.solver.monotone && !s_.loops.IsEmpty() && s == before) {
    ResolveAround(by);
    for (const Use& u : s_.g.value(v).uses) ResolveAround(u.user);
  }
  if (!s_.solver.monotone && !s_.loops.IsEmpty() && !s_.sets.Includes(s, before)) ResolveUsers(v);
  if (before != 0 && !s_.changes.geometry && !s_.solver.building) {
    for (const Use& u : s_.g.value(v).uses)
      s_.changes.geometry |= !s_.g.IsReturn(u.user) && s_.reshapes.DecidesGeometry(u.user);
  }
  PushUsers(v);
}

bool WorkList::FlowsOn(ValueId v) {
  constexpr size_t kSteps = 32;
  absl::InlinedVector<ValueId, 8> todo = {v};
  size_t seen = 0;
  while (!todo.empty()) {
    const ValueId x = todo.back();
    todo.pop_back();
    for (const Use& u : s_.g.value(x).uses) {
      if (++seen > kSteps || s_.g.IsReturn(u.user)) return true;
      const Node& node = s_.g.node(u.user);
      const OpEffects& op = GetOpEffects(node.op);
      if (op.pure || op.kind == EffectKind::kScalar || s_.effects.OnlyComputes(u.user)) continue;
      if (op.kind != EffectKind::kGeneric || (op.arg(u.index) & (kStored | kStoresElements | kEscapes)) != 0)
        return true;
      for (ValueId out : node.outputs) {
        if (!IsAliasingType(s_.g.value(out).type)) continue;
        if (IsContainerType(s_.g.value(out).type)) return true;
        todo.push_back(out);
      }
    }
  }
  return false;
}

void WorkList::ResolveFrom(NodeId n) {
  if (s_.loops.IsEmpty() && s_.memory.moved_storage.empty()) return;
  if (s_.g.IsReturn(n)) return ResolveAround(n);
  const Node& node = s_.g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  if (s_.effects.OnlyComputes(n)) return;
  const bool stores = op.kind != EffectKind::kGeneric || (s_.records.RecordOf(n).flags & NodeRecord::kStores) != 0 ||
                      AnyArgument(op, kWritesContainer);
  const auto flows = [&](ValueId v) {
    const SetId p = s_.records.PointsTo(v);
    const bool own = p != 0 && op.pure && p == SetPool::Single(MakeRef(s_.records.RecordOf(v).own));
    return IsAliasingType(s_.g.value(v).type) && !own && FlowsOn(v);
  };
  if ((!op.pure && op.kind != EffectKind::kScalar && stores) ||
      std::any_of(node.outputs.begin(), node.outputs.end(), flows)) {
    ResolveAround(n);
  }
}

void WorkList::ResolveUsers(ValueId v) {
  const NodeId outermost = OutermostLoop(s_.g.value(v).def);
  for (const Use& u : s_.g.value(v).uses) {
    ++s_.steps;
    const NodeId loop = OutermostLoop(u.user);
    if (loop.valid() && loop != outermost) ResolveFrom(u.user);
  }
}

void WorkList::ResolveAround(NodeId n) {
  s_.budget.stale |= !s_.memory.moved_storage.empty();
  if (s_.loops.IsEmpty()) return;
  if (s_.budget.overdrawn) return;
  if (NodeId loop = OutermostLoop(n); loop.valid()) resolve_loops.insert(loop.index);
}

}  // namespace smelt::alias_internal
