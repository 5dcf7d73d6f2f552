// Records the effects of a node: reads and writes of locations, stores into containers, escapes.
#include <algorithm>
#include <optional>
#include <utility>

#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt {

using alias_internal::Contents;
using alias_internal::few_pairs;
using alias_internal::kAnySlot;
using alias_internal::kAppended;
using alias_internal::kAsync;
using alias_internal::kGeometryRead;
using alias_internal::kGeometryWrite;
using alias_internal::kOfContainer;
using alias_internal::kRead;
using alias_internal::kSetList;
using alias_internal::kWrite;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::Store;
using alias_internal::UnwrapOptional;

uint32_t AliasDb::State::RecordAccess(uint32_t list, Access a) {
  NodeRecord& r = nodes[a.node.index];
  a.position = r.position;
  any_async |= (a.bits & kAsync) != 0;
  if (a.bits & (kWrite | kGeometryWrite)) return writes.Add(list, a, &r.first_write);
  return reads.Add(ReadList(list, !(a.bits & kRead)), a, &r.first_read);
}

void AliasDb::State::AddAccess(NodeId n, Ref object, Ref storage, uint8_t bits, size_t arg) {
  Access a;
  a.node = n;
  a.handles = SetPool::Single(object);
  a.storages = SetPool::Single(storage);
  a.bits = bits;
  a.arg = static_cast<uint16_t>(std::min<size_t>(arg, UINT16_MAX));
  const uint32_t list = ListOf(ObjectOf(storage));
  const uint32_t record = RecordAccess(list, a);
  if (!(bits & (kWrite | kGeometryWrite))) return;
  objects[ObjectOf(object)].recent_write = record;
  if (const auto it = write_spans.find(list); it != write_spans.end()) {
    (bits & kWrite) != 0 ? it->second.Add(record) : it->second.Skip();
  }
}

AliasDb::State::SetId AliasDb::State::TensorsOf(SetId s) {
  return sets.Filter(s, [&](Ref r) { return objects[ObjectOf(r)].tensor; });
}

AliasDb::State::SetId AliasDb::State::ContainersOf(SetId s) {
  return sets.Filter(s, [&](Ref r) { return objects[ObjectOf(r)].container; });
}

void AliasDb::State::AddAccessesTo(NodeId n, SetId handles, uint8_t bits, size_t arg) {
  if (handles == 0) return;
  const bool of_container = (bits & kOfContainer) != 0;
  const auto storages_of = [&](Ref r) { return of_container ? SetPool::Single(r) : Storages(r); };
  if (SetPool::IsSingle(handles)) {
    const Ref r = SetPool::SingleRef(handles);
    const SetId storages = storages_of(r);
    if (sets.Size(storages) <= few_pairs) {
      for (Ref s : sets.Refs(storages)) AddAccess(n, r, s, bits, arg);
      return;
    }
  } else if (sets.Size(handles) <= few_pairs) {
    absl::InlinedVector<std::pair<Ref, Ref>, 8> pairs;
    size_t count = 0;
    sets.ForEach(handles, [&](Ref r) {
      if (count > few_pairs) return;
      const SetId storages = storages_of(r);
      count += sets.Size(storages);
      if (count > few_pairs) return;
      sets.ForEach(storages, [&](Ref s) { pairs.push_back({r, s}); });
    });
    if (count <= few_pairs) {
      for (const auto& [r, s] : pairs) AddAccess(n, r, s, bits, arg);
      return;
    }
  }
  Access a;
  a.node = n;
  a.handles = handles;
  a.storages = of_container ? handles : AllStorages(handles);
  a.bits = bits;
  a.arg = static_cast<uint16_t>(std::min<size_t>(arg, UINT16_MAX));
  const uint32_t record = RecordAccess(SetListFor(a.storages), a);
  if (!(bits & (kWrite | kGeometryWrite))) return;
  sets.ForEach(handles, [&](Ref r) { objects[ObjectOf(r)].recent_write = record; });
}

AliasDb::State::SetId AliasDb::State::AllStorages(SetId handles) {
  AllStoragesOf& known = all_storages[handles];
  if (known.epoch == storage_epoch) return known.storages;
  SetId out = 0;
  for (Ref r : sets.Refs(handles)) out = sets.Union(out, Storages(r));
  known.epoch = storage_epoch;
  return known.storages = out;
}

uint32_t AliasDb::State::ListOf(uint32_t storage) const {
  uint32_t f = Find(storage);
  const Object* o = &objects[f];
  if (o->external || o->escaped) return 2 * kUnknown;
  // The pieces of one container share a list, apart from the container's own.
  if (o->kind == Kind::kPiece) return 2 * o->parent + 1;
  return 2 * f;
}

uint32_t AliasDb::State::SetListOf(uint32_t list) const {
  if (set_list_of.empty()) return 0;
  const auto it = set_list_of.find(list);
  return it != set_list_of.end() ? kSetList | FindSetList(it->second) : 0;
}

uint32_t AliasDb::State::FindSetList(uint32_t k) const {
  while (set_lists[k] != k) k = set_lists[k] = set_lists[set_lists[k]];
  return k;
}

uint32_t AliasDb::State::SetListFor(SetId storages) {
  if (const auto it = list_of_storages.find(storages); it != list_of_storages.end()) {
    return kSetList | FindSetList(it->second);
  }
  std::optional<uint32_t> all;
  absl::InlinedVector<uint32_t, 32> alone;
  sets.ForEach(storages, [&](Ref s) {
    ++steps;
    const uint32_t list = ListOf(ObjectOf(s));
    const auto it = set_list_of.find(list);
    if (it == set_list_of.end()) {
      alone.push_back(list);
    } else {
      all = all ? JoinSetLists(*all, it->second) : FindSetList(it->second);
    }
  });
  if (!all) {
    all = static_cast<uint32_t>(set_lists.size());
    set_lists.push_back(*all);
  }
  for (uint32_t list : alone) set_list_of[list] = *all;
  list_of_storages[storages] = *all;
  return kSetList | *all;
}

// The shorter list joins the longer one, so that no access changes lists more than a logarithmic number of times.
uint32_t AliasDb::State::JoinSetLists(uint32_t a, uint32_t b) {
  a = FindSetList(a);
  b = FindSetList(b);
  if (a == b) return a;
  const auto size = [&](uint32_t k) {
    return writes.Size(kSetList | k) + reads.Size(ReadList(kSetList | k, false)) +
           reads.Size(ReadList(kSetList | k, true));
  };
  if (size(a) < size(b)) std::swap(a, b);
  MoveList(kSetList | b, kSetList | a);
  return set_lists[b] = a;
}

void AliasDb::State::MoveList(uint32_t from, uint32_t to) {
  writes.MoveList(from, to);
  if (!reads_active) return;
  for (bool geometry_only : {false, true}) {
    reads.MoveList(ReadList(from, geometry_only), ReadList(to, geometry_only));
  }
}

void AliasDb::State::MoveAccesses(uint32_t from, uint32_t to) {
  if (from == to) return;
  MoveList(from, to);
  const auto it = set_list_of.find(from);
  if (it == set_list_of.end()) return;
  const uint32_t of_from = it->second;
  set_list_of.erase(it);
  const auto [of_to, inserted] = set_list_of.try_emplace(to, of_from);
  if (!inserted) of_to->second = JoinSetLists(of_to->second, of_from);
}

void AliasDb::State::AddAccesses(NodeId n, absl::Span<const ValueId> inputs, const OpEffects& e, uint8_t extra) {
  if (defers_accesses) {
    uint16_t& flags = nodes[n.index].flags;
    if ((flags & NodeRecord::kUnrecorded) == 0) unrecorded.push_back(n);
    flags |= NodeRecord::kUnrecorded;
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint16_t b = e.arg(i);
    if (b == 0) continue;
    const SetId p = PointsTo(inputs[i]);
    if (p == 0) continue;
    const bool writes_elements = b & (kWritesElements | kReshapesElements);
    const bool writes_something = writes_elements || (b & (kWritesData | kWritesGeometry | kWritesContainer));
    if (!writes_something && !reads_active) continue;
    const bool reads_something = reads_active && (b & (kReadsData | kReadsGeometry)) != 0;
    if ((b & (kWritesData | kWritesGeometry)) != 0 || reads_something) {
      const SetId tensors = TensorsOf(p);
      const uint8_t w = (b & kWritesData ? kWrite : 0) | (b & kWritesGeometry ? kGeometryWrite : 0);
      const uint8_t rd = (b & kReadsData ? kRead : 0) | (b & kReadsGeometry ? kGeometryRead : 0);
      if (w != 0) AddAccessesTo(n, tensors, w | extra, i);
      if ((b & kWritesGeometry) && !e.keeps_geometry) AddGeometryChanges(tensors, n);
      if (reads_something) AddAccessesTo(n, tensors, rd | extra, i);
    }
    if ((b & kWritesContainer) || (reads_active && (b & kReadsContainer))) {
      const SetId containers = ContainersOf(p);
      if (b & kWritesContainer) AddAccessesTo(n, containers, kWrite | kOfContainer | extra, i);
      if (reads_active && (b & kReadsContainer)) AddAccessesTo(n, containers, kRead | kOfContainer | extra, i);
    }
    const bool deep = (b & kWritesContainer) && (b & kEscapes);  // code that we do not see
    if (!writes_elements && !deep && !(reads_active && (b & kReadsElements))) continue;
    SetId inside = 0;
    for (Ref r : sets.Refs(p)) {
      if (objects[ObjectOf(r)].container) inside = Join(inside, ContentOf(r, kAnySlot, n));
    }
    inside = Reach(inside, n);
    const SetId tensors = TensorsOf(inside), containers = ContainersOf(inside);
    if (deep) AddAccessesTo(n, containers, kWrite | kOfContainer | extra, i);
    if (reads_active) AddAccessesTo(n, containers, kRead | kOfContainer | extra, i);
    if (b & kReshapesElements) AddGeometryChanges(tensors, n);
    const uint8_t w = (b & kWritesElements ? kWrite : 0) | (b & kReshapesElements ? kGeometryWrite : 0);
    if (w != 0) AddAccessesTo(n, tensors, w | extra, i);
    if (reads_active && (b & kReadsElements)) AddAccessesTo(n, tensors, kRead | kGeometryRead | extra, i);
  }
  const Ref unknown = MakeRef(kUnknown);
  if (e.kind == EffectKind::kUnknown) {
    AddGeometryChange(kUnknown, n);
    AddAccess(n, unknown, unknown, kWrite | kGeometryWrite | extra, UINT16_MAX);
    AddAccess(n, unknown, unknown, kWrite | kOfContainer | extra, UINT16_MAX);
    if (reads_active) {
      AddAccess(n, unknown, unknown, kRead | kGeometryRead | extra, UINT16_MAX);
      AddAccess(n, unknown, unknown, kRead | kOfContainer | extra, UINT16_MAX);
    }
  }
  if (e.random) AddAccess(n, MakeRef(kRandom), MakeRef(kRandom), kWrite, UINT16_MAX);
  if (e.side_effect) AddAccess(n, MakeRef(kWorld), MakeRef(kWorld), kWrite, UINT16_MAX);
  if (reads_active && e.side_effect && g.node(n).op.name() == op::kPrimRaiseException) {
    AddAccess(n, unknown, unknown, kRead, UINT16_MAX);
  }
}

// Records what n accesses, which has been evaluated and is not pure.
void AliasDb::State::RecordAccessesOf(NodeId n) {
  const Node& node = g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  if (op.kind == EffectKind::kWait) return AddAccessesOfWait(n, node, op);
  OpEffects made;
  const OpEffects& e = EffectsOf(node, &made);
  AddAccesses(n, node.inputs, e, 0);
  if (op.kind == EffectKind::kFork && e.writes) AddAccesses(n, node.inputs, e, kAsync);
}

void AliasDb::State::RecordUnrecorded() {
  deferring = defers_accesses = making_first = false;
  walk_loop = UINT32_MAX;
  const auto before = [&](NodeId a, NodeId b) { return nodes[a.index].position < nodes[b.index].position; };
  if (!std::is_sorted(unrecorded.begin(), unrecorded.end(), before)) {
    std::sort(unrecorded.begin(), unrecorded.end(), before);
  }
  steps += static_cast<int64_t>(unrecorded.size());
  for (NodeId n : unrecorded) {
    nodes[n.index].flags &= ~NodeRecord::kUnrecorded;
    const uint16_t had = nodes[n.index].flags;
    RecordAccessesOf(n);
    CountGeometryWriter(n, had);
  }
  std::vector<NodeId>().swap(unrecorded);
}

void AliasDb::State::EscapeObject(uint32_t object) {
  Object& o = objects[object];
  if (o.escaped || object == kUnknown) return;
  const uint32_t list = ListOf(object);
  o.escaped = true;
  const uint32_t f = Find(object);
  if (f != object && !objects[f].escaped) {
    const uint32_t group_list = ListOf(f);
    objects[f].escaped = true;
    MoveAccesses(group_list, 2 * kUnknown);
  }
  if (list == 2 * kUnknown) return;
  MoveAccesses(list, 2 * kUnknown);
  if (o.kind == Kind::kPiece) {
    // They share a list, so all of their accesses are moved. That costs only precision.
    for (uint32_t sibling : elements.Of(o.parent)) {
      ++steps;
      objects[sibling].escaped = true;
    }
  }
}

void AliasDb::State::Escape(SetId set) {
  std::vector<Ref> todo;
  sets.ForEach(set, [&](Ref r) { todo.push_back(r); });
  while (!todo.empty()) {
    uint32_t o = ObjectOf(todo.back());
    todo.pop_back();
    if (objects[o].escaped || o == kUnknown) continue;
    const bool was_external = objects[o].external;
    EscapeObject(o);
    dirty = reach_changed = true;
    geometry_changed |= !geometry_changes.empty();
    sets.ForEach(objects[o].storage, [&](Ref s) { todo.push_back(s); });
    if (objects[o].container && !was_external) {
      SetId inside = ContentOf(MakeRef(o), kAnySlot, NodeId());
      sets.ForEach(inside, [&](Ref r) { todo.push_back(r); });
      PushReaders(o);
    }
  }
}

std::vector<std::pair<uint32_t, Store>> AliasDb::State::StoresOf(NodeId n) {
  std::vector<std::pair<uint32_t, Store>> out;
  const auto it = stores_of_node.find(n.index);
  if (it == stores_of_node.end()) return out;
  for (const StoreAt& s : it->second) out.push_back({s.holder, ContentsOf(s.holder).stores[s.at]});
  return out;
}

void AliasDb::State::ContainerMade(uint32_t own, uint64_t made_of, bool inputs_changed) {
  Contents& c = ContentsOf(own);
  const bool changed = c.made_of != made_of;
  if (!changed && !inputs_changed) return;
  c.made_of = made_of;
  dirty |= changed;
  reach_changed |= changed;
  PushReaders(own, changed);
  if (objects[own].escaped) Escape(ContentOf(MakeRef(own), kAnySlot, NodeId()));
}

// Recorded once per node, whichever arguments and paths reach the handle: its accesses are all forgotten together.
void AliasDb::State::AddGeometryChange(uint32_t object, NodeId n) {
  dirty = geometry_changed = true;
  geometry_changes[HandleKey(object)].Insert(n);
  if (objects[object].external) geometry_changes[kUnknown].Insert(n);
}

void AliasDb::State::AddGeometryChanges(SetId handles, NodeId n) {
  for (Ref r : sets.Refs(handles)) AddGeometryChange(ObjectOf(r), n);
}

void AliasDb::State::DropGeometryChange(uint32_t key, NodeId n) {
  const auto it = geometry_changes.find(key);
  if (it == geometry_changes.end()) return;
  dirty = geometry_changed = true;
  it->second.Erase(n);
  if (it->second.empty()) geometry_changes.erase(it);
}

void AliasDb::State::ForgetAccesses(NodeRecord& r) {
  if (r.first_write != 0) {
    if (r.flags & NodeRecord::kGeometry) {
      // Several paths may have reached a handle, and recorded it once per storage.
      absl::InlinedVector<uint32_t, 8> keys;
      NodeId by;
      const auto note = [&](uint32_t key) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      };
      for (uint32_t i = r.first_write; i != 0; i = writes.at(i).node_next) {
        const Access& w = writes.at(i);
        if (!(w.bits & kGeometryWrite)) continue;
        by = w.node;
        sets.ForEach(w.handles, [&](Ref r) {
          note(HandleKey(ObjectOf(r)));
          if (objects[ObjectOf(r)].external) note(kUnknown);
        });
      }
      for (uint32_t key : keys) DropGeometryChange(key, by);
    }
    for (uint32_t i = r.first_write; i != 0; i = writes.at(i).node_next) {
      const uint32_t list = writes.at(i).list;
      if (const auto it = write_spans.find(list); it != write_spans.end()) it->second.Remove(i);
    }
    writes.RemoveNode(&r.first_write);
  }
  if (r.first_read != 0) reads.RemoveNode(&r.first_read);
}

void AliasDb::State::Forget(NodeId n, NodeRecord& r, bool push) {
  ForgetAccesses(r);
  ForgetStores(n, r, push);
}

void AliasDb::State::ForgetStores(NodeId n, NodeRecord& r, bool push) {
  if (!(r.flags & NodeRecord::kStores)) return;
  r.flags &= ~NodeRecord::kStores;
  const auto it = stores_of_node.find(n.index);
  if (it == stores_of_node.end()) return;
  absl::InlinedVector<uint32_t, 2> holders;
  while (!it->second.empty()) {
    const StoreAt s = it->second.back();
    it->second.pop_back();
    DropStore(s.holder, s.at);
    if (holders.empty() || holders.back() != s.holder) holders.push_back(s.holder);
  }
  stores_of_node.erase(it);
  if (!push) return;
  for (uint32_t o : holders) StoresChanged(o, true);
}

// Commits the stores of node n, which stored `had` before: most nodes that are evaluated again store the same.
bool AliasDb::State::CommitStores(NodeId n, absl::Span<const std::pair<uint32_t, Store>> had) {
  const auto before = [](const auto& a, const auto& b) {
    const auto key = [](const auto& x) {
      return std::tuple(x.first, x.second.value.index, x.second.slot, x.second.elements, x.second.by_call,
                        x.second.shuffle);
    };
    return key(a) < key(b);
  };
  const auto same_store = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.SameStore(b.second);
  };
  if (new_stores.size() > 1) {
    std::sort(new_stores.begin(), new_stores.end(), before);
    new_stores.erase(std::unique(new_stores.begin(), new_stores.end(), same_store), new_stores.end());
  }
  std::vector<std::pair<uint32_t, Store>> sorted(had.begin(), had.end());
  std::sort(sorted.begin(), sorted.end(), before);
  if (sorted == new_stores) return false;
  if (std::equal(new_stores.begin(), new_stores.end(), sorted.begin(), sorted.end(), same_store)) {
    // Only the stored values have changed.
    for (const StoreAt& at : stores_of_node[n.index]) {
      Store& known = ContentsOf(at.holder).stores[at.at];
      for (const auto& [o, s] : new_stores) {
        if (o != at.holder || !known.SameStore(s)) continue;
        const bool other_set = known.set != s.set;
        known = s;
        if (other_set) SumStore(at.holder, at.at);
        break;
      }
    }
    return true;
  }
  if (!had.empty()) ForgetStores(n, nodes[n.index], false);
  for (const auto& [o, s] : new_stores) AddStore(o, s);
  if (!new_stores.empty()) nodes[n.index].flags |= NodeRecord::kStores;
  return true;
}

// A reader of the caller's containers may find something else there.
void AliasDb::State::ExternalContentsChange() {
  for (NodeId reader : external_readers) {
    if (g.IsLive(reader)) Push(reader);
  }
}

void AliasDb::State::AddStores(NodeId n, const Node& node, const OpEffects& e) {
  bool container_write = false, escapes = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    container_write |= (e.arg(i) & kWritesContainer) != 0;
    escapes |= (e.arg(i) & kEscapes) != 0;
  }
  if (escapes) {
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!(e.arg(i) & kEscapes)) continue;
      SetId p = PointsTo(node.inputs[i]);
      any |= p != 0;
      Escape(p);
    }
    if (any) {
      nodes[n.index].flags |= NodeRecord::kEscapes;
      if (!std::exchange(external_stores, true)) ExternalContentsChange();
    }
  }
  if (!container_write) return;
  const int32_t attribute = e.kind == EffectKind::kSetAttr ? AttributeSlot(node) : kAnySlot;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const uint16_t b = e.arg(i);
    if (!(b & kWritesContainer)) continue;
    // The sets that other arguments hold, looked at once for all holders.
    absl::InlinedVector<std::optional<SetId>, 4> held(node.inputs.size());
    const auto elements_of_input = [&](size_t k) {
      if (!held[k]) held[k] = ContentOfSet(PointsTo(node.inputs[k]), kAnySlot, n);
      return *held[k];
    };
    for (Ref holder : sets.Refs(PointsTo(node.inputs[i]))) {
      const uint32_t o = ObjectOf(holder);
      const Object h = objects[o];
      if (!h.container) continue;
      const bool leaves = h.external || h.escaped || h.kind == Kind::kSummary || o == kUnknown;
      bool stores = (b & kEscapes) != 0;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        stores |= k != i && (e.arg(k) & (kStored | kStoresElements)) != 0 && PointsTo(node.inputs[k]) != 0;
      }
      if (leaves && stores) {
        nodes[n.index].flags |= NodeRecord::kEscapes;
        const bool is_new = attribute != kAnySlot ? external_attributes.insert(attribute).second
                                                  : !std::exchange(external_stores, true);
        if (is_new) ExternalContentsChange();
      }
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const uint16_t c = e.arg(k);
        if (!(c & (kStored | kStoresElements)) || k == i) continue;
        SetId p = PointsTo(node.inputs[k]);
        if (p == 0) continue;
        if (leaves) Escape(c & kStored ? p : elements_of_input(k));
        if (o == kUnknown || h.kind == Kind::kSummary) continue;
        Store s;
        s.node = n;
        s.value = node.inputs[k];
        s.elements = (c & kStoresElements) != 0;
        if (attribute != kAnySlot) {
          s.slot = attribute;
        } else if (node.op.name() == op::kAppend || node.op.name() == op::kExtend ||
                   node.op.name() == op::kAddInPlace) {
          s.slot = kAppended;
        } else if (node.op.name() == op::kPrivateSetItem &&
                   UnwrapOptional(g.value(node.inputs[i]).type).kind() == TypeKind::kList) {
          std::optional<int64_t> at = ConstantInt(node.inputs[1]);
          s.slot = at && *at >= 0 && *at < INT32_MAX ? static_cast<int32_t>(*at) : kAnySlot;
        }
        s.set = s.elements ? elements_of_input(k) : p;
        s.last = Fingerprint(s.set);
        new_stores.push_back({o, s});
      }
      if (o != kUnknown && h.kind != Kind::kSummary && (b & kShufflesContainer)) {
        Store s;
        s.node = n;
        s.shuffle = true;
        new_stores.push_back({o, s});
      }
    }
  }
}

}  // namespace smelt
