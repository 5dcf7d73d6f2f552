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

bool AliasDb::State::Affords(int64_t steps_to_come) const {
  return steps_to_come <= credit || g.num_nodes() <= alias_internal::solved_at_once;
}

bool AliasDb::State::AffordsCache(int64_t steps_to_come) const {
  return steps_to_come <= cache_credit || g.num_nodes() <= alias_internal::solved_at_once;
}

void AliasDb::State::Spend(int64_t steps_to_come) {
  if (monotone || overdrawn) return;
  if (!Affords(steps_to_come)) overdrawn = keeps_freed = stale = true;
  credit = std::max<int64_t>(0, credit - steps_to_come);
}

int64_t AliasDb::State::CostOf(NodeId n, const std::vector<uint32_t>* changed) const {
  if (changed != nullptr) return 1 + static_cast<int64_t>(changed->size());
  const Node& node = g.node(n);
  return 1 + static_cast<int64_t>(node.inputs.size() + node.outputs.size());
}

// A use by a loop's body or arguments is one of the values that it carries.
void AliasDb::State::NotePart(NodeId n, bool as_result, uint32_t use) {
  uint32_t part = use;
  if (use != kAllParts) {
    const EffectKind kind = GetOpEffects(g.node(n).op).kind;
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
  if (part == kAllParts || noted.size() > g.node(n).inputs.size() + g.node(n).outputs.size()) {
    noted.clear();
    part = kAllParts;
  }
  noted.push_back(part);
}

void AliasDb::State::Push(NodeId n, uint32_t use) {
  if (n.index < nodes.size()) {
    // A value of the caller's may have very many users, which are in the queue already. Those are not read.
    const NodeRecord& r = nodes[n.index];
    if (r.generation == n.generation && (r.flags & (NodeRecord::kQueued | NodeRecord::kWide)) == NodeRecord::kQueued) {
      return;
    }
  }
  bool as_result = false;
  if (g.IsReturn(n)) {
    as_result = true;
    NodeId owner = g.block(g.node(n).parent).owner;
    if (!owner.valid()) {
      dirty = reach_changed = true;
      return;
    }
    n = owner;
  }
  NodeRecord& r = RecordOf(n);
  if (!(r.flags & NodeRecord::kEvaluated)) return;
  if (r.flags & NodeRecord::kWide) NotePart(n, as_result, use);
  if (r.flags & NodeRecord::kQueued) return;
  r.flags |= NodeRecord::kQueued;
  // While a loop is solved again, sets grow from nothing. Nodes outside wait for the result.
  const bool waits = resolving.valid() && OutermostLoop(n) != resolving;
  (waits ? waiting : queue).push_back(n);
}

void AliasDb::State::PushUsers(ValueId v) {
  for (const Use& u : g.value(v).uses) {
    Push(u.user, u.index);
    if (!monotone && !overdrawn && !g.IsReturn(u.user)) RecordOf(u.user).flags |= NodeRecord::kInputsChanged;
  }
}

// Appends a reader. When there are twice as many as were different, each is kept once, in the order of their last
// looks.
void AliasDb::State::AddReader(NodeId reader, std::vector<NodeId>* readers, uint32_t* distinct) {
  if (readers->empty() || readers->back() != reader) readers->push_back(reader);
  if (readers->size() <= 2 * *distinct + 8) return;
  steps += static_cast<int64_t>(readers->size());
  if (reader_marks.size() < nodes.size()) reader_marks.resize(nodes.size());
  ++reader_mark;
  size_t kept = readers->size();
  for (size_t i = readers->size(); i-- > 0;) {
    const NodeId n = (*readers)[i];
    // While all is built, no node has been erased.
    if (!building && !g.IsLive(n)) continue;
    if (std::exchange(reader_marks[n.index], reader_mark) != reader_mark) (*readers)[--kept] = n;
  }
  readers->erase(readers->begin(), readers->begin() + static_cast<int64_t>(kept));
  *distinct = static_cast<uint32_t>(readers->size());
}

void AliasDb::State::PushReaders(uint32_t object, bool changed) {
  Contents* c = FindContents(object);
  if (c == nullptr) return;
  if (objects[object].group != 0 && objects[object].container) {
    joined_containers.push_back(MakeRef(object));
    if (objects[object].loop != 0) joined_containers.push_back(MakeRef(object, true));
  }
  if (!monotone) Spend(static_cast<int64_t>(c->readers.size()));
  if (overdrawn || c->blurred) {
    if (!KeepMore(object)) return;
    c = FindContents(object);
  }
  const std::vector<NodeId> readers = c->readers;
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
  if (!monotone && before != s) Spend(static_cast<int64_t>(g.value(v).uses.size()));
  if (overdrawn && before != 0 && s != before) s = Grown(before, s);
  // Two values that are read from what the other is stored in could otherwise change in turns for ever.
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
  if (!monotone && !loops.IsEmpty() && s == before) {
    ResolveAround(by);
    for (const Use& u : g.value(v).uses) ResolveAround(u.user);
  }
  if (!monotone && !loops.IsEmpty() && !sets.Includes(s, before)) ResolveUsers(v);
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
  // So often that the sets which nothing holds take little more than the others and the values, and so seldom that it
  // costs less than making them.
  constexpr size_t kFewRefs = 4096;
  if (sets.added() > 2 * std::max(sets.kept(), values.size() + kFewRefs) && !resolving.valid()) CollectSets();
  const Node& node = g.node(n);
  NodeRecord& record = RecordOf(n);
  ++evaluations;
  steps += CostOf(n, parts);
  if (node.inputs.size() + node.outputs.size() > (alias_internal::solved_at_once < 0 ? 0 : NodeRecord::kMany)) {
    record.flags |= NodeRecord::kWide;
  }
  making_first = building && first;
  // While sets also shrink, a reader may have been evaluated when its inputs were something else for a moment.
  const bool inputs_changed = !monotone && (record.flags & NodeRecord::kInputsChanged) != 0;
  record.flags &= ~NodeRecord::kInputsChanged;
  const OpEffects& op = GetOpEffects(node.op);
  // Calls are evaluated again when any later one reaches what they reach.
  defers_accesses = deferring && !(first && walk_loop == 0 && op.kind == EffectKind::kGeneric);
  const uint16_t had = record.flags;
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
void AliasDb::State::CountGeometryWriter(NodeId n, uint16_t had) {
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
