// Evaluation: which nodes are evaluated again when something changes, and what each evaluation keeps up to date.
// evaluate_nodes.cc has the kinds of nodes.
#include <algorithm>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::Contents;
using alias_internal::kGeometryWrite;
using alias_internal::MakeRef;
using alias_internal::MayBeContainer;
using alias_internal::MayBeTensor;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::Store;

void AliasDb::State::Push(NodeId n) {
  if (g.IsReturn(n)) {
    NodeId owner = g.block(g.node(n).parent).owner;
    if (!owner.valid()) {
      dirty = reach_changed = true;
      return;
    }
    n = owner;
  }
  NodeRecord& r = RecordOf(n);
  if (!(r.flags & NodeRecord::kEvaluated) || (r.flags & NodeRecord::kQueued)) return;
  r.flags |= NodeRecord::kQueued;
  // While a loop is solved again, sets grow from nothing. Nodes outside wait for the result.
  const bool waits = resolving.valid() && OutermostLoop(n) != resolving;
  (waits ? waiting : queue).push_back(n);
}

void AliasDb::State::PushUsers(ValueId v) {
  for (const Use& u : g.value(v).uses) {
    Push(u.user);
    if (!monotone && !g.IsReturn(u.user)) RecordOf(u.user).flags |= NodeRecord::kInputsChanged;
  }
}

void AliasDb::State::PushReaders(uint32_t object, bool changed) {
  Contents* c = FindContents(object);
  if (c == nullptr) return;
  if (objects[object].group != 0 && objects[object].container) {
    joined_containers.push_back(MakeRef(object));
    if (objects[object].loop != 0) joined_containers.push_back(MakeRef(object, true));
  }
  std::vector<NodeId>& known = c->readers;
  if (known.size() > 2 * c->distinct + 8) {
    // Each node once, in the order of their last evaluations.
    absl::flat_hash_set<uint32_t> seen;
    std::vector<NodeId> kept;
    for (size_t i = known.size(); i-- > 0;) {
      if (g.IsLive(known[i]) && seen.insert(known[i].index).second) kept.push_back(known[i]);
    }
    std::reverse(kept.begin(), kept.end());
    steps += static_cast<int64_t>(known.size());
    known = std::move(kept);
    c->distinct = static_cast<uint32_t>(known.size());
  }
  const std::vector<NodeId> readers = known;
  steps += static_cast<int64_t>(readers.size());
  for (NodeId n : readers) {
    if (!g.IsLive(n)) continue;
    if (changed && !monotone) ResolveAround(n);
    Push(n);
  }
}

void AliasDb::State::SetPointsTo(ValueId v, SetId s, NodeId by, bool first) {
  ValueRecord& r = RecordOf(v);
  if (first) {
    r.points_to = s;
    return;
  }
  const SetId before = r.points_to;
  // Two values that are each read from the storage of the other could otherwise change in turns forever.
  if (growing && before != 0 && s != before) s = Join(before, s);
  values[v.index].points_to = s;
  bool changed = before != s;
  if (!changed && !touched.empty()) {
    uint64_t last = 0;
    sets.ForEach(s, [&](Ref x) {
      if (auto it = touched.find(ObjectOf(x)); it != touched.end()) last = std::max(last, it->second);
    });
    if (last != 0) {
      uint64_t& epoch = forced[v.index];
      changed = epoch < last;
      epoch = std::max(epoch, last);
    }
  }
  if (!changed) return;
  dirty = true;
  reach_changed |= before != 0;
  // Members that are gone may be kept alive by a back edge, which the loop notices, or by a container, whose readers
  // are notified. If only a storage has changed, neither can notice.
  if (!monotone && loops.size() > 1 && s == before) {
    ResolveAround(by);
    for (const Use& u : g.value(v).uses) ResolveAround(u.user);
  }
  if (before != 0 && !geometry_changed && !building) {
    for (const Use& u : g.value(v).uses) geometry_changed |= !g.IsReturn(u.user) && DecidesGeometry(u.user);
  }
  PushUsers(v);
}

void AliasDb::State::EvaluateInputs(size_t from) {
  const NodeId param = g.block(g.top()).param_node;
  RecordOf(param).flags |= NodeRecord::kEvaluated;
  absl::Span<const ValueId> inputs = g.inputs();
  for (size_t i = from; i < inputs.size(); ++i) {
    const Type& type = g.value(inputs[i]).type;
    if (!IsAliasingType(type)) {
      SetPointsTo(inputs[i], 0, param, building);
      continue;
    }
    const uint32_t own = Own(inputs[i], Kind::kInput, MayBeTensor(type), MayBeContainer(type));
    objects[own].external = true;
    SetId storage = SetPool::Single(MakeRef(own));
    if (i < g.input_infos.size() && g.input_infos[i].kind == InputInfo::Kind::kWeight && g.input_infos[i].weight >= 0 &&
        g.input_infos[i].weight < static_cast<int>(g.weights.size())) {
      const int s = g.weights[g.input_infos[i].weight].storage;
      auto [it, inserted] = weight_storages.try_emplace(s, 0);
      if (inserted) {
        uint32_t o = NewObject(Kind::kWeight, ValueId());
        weight_storages[s] = o;
        objects[o].tensor = true;
        objects[o].external = true;
        objects[o].slot = s;
        objects[o].storage = SetPool::Single(MakeRef(o));
      }
      storage = SetPool::Single(MakeRef(weight_storages[s]));
    }
    SetStorage(own, storage);
    SetPointsTo(inputs[i], SetPool::Single(MakeRef(own)), param, building);
  }
}

void AliasDb::State::Evaluate(NodeId n, bool first) {
  if (!joined_containers.empty()) FollowJoined();
  const Node& node = g.node(n);
  NodeRecord& record = RecordOf(n);
  ++evaluations;
  steps += 1 + static_cast<int64_t>(node.inputs.size() + node.outputs.size());
  making_first = building && first;
  // While sets also shrink, a reader may have been evaluated when its inputs were something else for a moment.
  const bool inputs_changed = !monotone && (record.flags & NodeRecord::kInputsChanged) != 0;
  record.flags &= ~NodeRecord::kInputsChanged;
  const OpEffects& op = GetOpEffects(node.op);
  const uint8_t had = record.flags;
  std::vector<std::pair<uint32_t, Store>> had_stores;
  if (had & NodeRecord::kStores) had_stores = StoresOf(n);
  if (!first || had != 0) ForgetAccesses(record);
  new_stores.clear();
  record.flags = (record.flags | NodeRecord::kEvaluated) &
                 ~(NodeRecord::kEscapes | NodeRecord::kMovesStorage | NodeRecord::kGeometry);
  EvaluateKind(n, node, op, first, inputs_changed);
  if (!had_stores.empty() || !new_stores.empty()) {
    const bool changed = CommitStores(n, had_stores);
    // Straight-line code that is walked for the first time has no reader that a store could reach.
    if ((changed || inputs_changed) && !(first && walk_loop == 0)) {
      dirty |= changed;
      reach_changed |= changed;
      uint32_t last = 0;
      for (const auto& [o, store] : had_stores) {
        if (std::exchange(last, o) != o) StoresChanged(o, changed);
      }
      for (const auto& [o, store] : new_stores) {
        if (std::exchange(last, o) != o) StoresChanged(o, changed);
      }
    }
  }
  CountGeometryWriter(n, had);
  // Escapes and moves cannot be undone one by one.
  const uint8_t sticky = NodeRecord::kEscapes | NodeRecord::kMovesStorage;
  if (!monotone && (had & sticky) != 0) stale = true;
}

// Handles are distinguished in another way if any node of the graph changes a geometry.
void AliasDb::State::CountGeometryWriter(NodeId n, uint8_t had) {
  NodeRecord& record = nodes[n.index];
  for (uint32_t i = record.first_write; i != 0; i = writes.at(i).node_next) {
    if (writes.at(i).bits & kGeometryWrite) record.flags |= NodeRecord::kGeometry;
  }
  const int64_t change = ((record.flags & NodeRecord::kGeometry) ? 1 : 0) - ((had & NodeRecord::kGeometry) ? 1 : 0);
  if (change == 0) return;
  const bool before = geometry_writers == 0;
  geometry_writers += change;
  if (before == (geometry_writers == 0)) return;
  // Trusting the types later than necessary only makes the answers less precise.
  if (geometry_writers == 0 && !building) {
    stale = true;
  } else if (building || !options_distrusted) {
    needs_rebuild = true;
  }
}

}  // namespace smelt
