// Objects, the memory and the loops that they live in, and sets of them.
#include <algorithm>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::Contents;
using alias_internal::IsOld;
using alias_internal::MakeRef;
using alias_internal::Mix;
using alias_internal::ObjectOf;
using alias_internal::SetId;
using alias_internal::SetPool;

AliasDb::State::ValueRecord& AliasDb::State::RecordOf(ValueId v) {
  if (v.index >= values.size()) values.resize(std::max<size_t>(v.index + 1, g.value_index_bound()));
  ValueRecord& r = values[v.index];
  if (r.generation != v.generation) {
    r = ValueRecord();
    r.generation = v.generation;
  }
  return r;
}

alias_internal::NodeRecord& AliasDb::State::RecordOf(NodeId n) {
  if (n.index >= nodes.size()) nodes.resize(std::max<size_t>(n.index + 1, g.node_index_bound()));
  NodeRecord& r = nodes[n.index];
  if (r.generation != n.generation) {
    r = NodeRecord();
    r.generation = n.generation;
  }
  return r;
}

uint32_t AliasDb::State::NewObject(Kind kind, ValueId def) {
  uint32_t o;
  if (!free_objects.empty()) {
    o = free_objects.back();
    free_objects.pop_back();
    objects[o] = Object();
    if (o < geom_of.size()) geom_of[o] = GeomSlot();
  } else {
    o = static_cast<uint32_t>(objects.size());
    SMELT_CHECK(o < (1u << 29)) << "too many objects";
    objects.emplace_back();
    is_summary.push_back(false);
  }
  objects[o].kind = kind;
  is_summary[o] = kind == Kind::kSummary;
  objects[o].def = def;
  return o;
}

uint32_t AliasDb::State::Own(ValueId v, Kind kind, bool tensor, bool container) {
  ValueRecord& r = RecordOf(v);
  uint32_t o = r.own;
  if (o == 0) {
    o = NewObject(kind, v);
    values[v.index].own = o;
  }
  Object& object = objects[o];
  object.kind = kind;
  object.empty = Object::Empty::kNotAsked;
  object.tensor = tensor;
  object.container = container;
  object.loop = kind == Kind::kConstant || kind == Kind::kInput ? 0 : LoopOf(g.value(v).def);
  return o;
}

void AliasDb::State::SetStorage(uint32_t object, SetId storage) {
  if (!moved_storage.empty()) {
    if (auto it = moved_storage.find(HandleKey(object)); it != moved_storage.end()) {
      // The handle may have moved to the memory that it was made in. Members that no longer come from there would keep
      // themselves alive.
      auto [made_in, inserted] = unmoved_storage.try_emplace(object, storage);
      if (!inserted && made_in->second != storage && !building) stale = true;
      made_in->second = storage;
      storage = Join(storage, it->second);
    }
  }
  if (overdrawn && objects[object].storage != 0) storage = Grown(objects[object].storage, storage);
  Object& o = objects[object];
  if (o.storage == storage) return;
  if (!making_first) {
    touched[object] = ++touched_epoch;
    dirty = true;
    geometry_changed |= HasGeom(object);
  }
  if (!monotone && o.def.valid() && g.IsLive(o.def) && !sets.Includes(storage, o.storage))
    ResolveAround(g.value(o.def).def);
  o.storage = storage;
  if (!making_first) ++storage_epoch;
  if (o.escaped) Escape(storage);
}

void AliasDb::State::FreeOwn(ValueId v) {
  reach_changed = true;
  if (v.index >= values.size()) return;
  ValueRecord& r = values[v.index];
  if (r.generation != v.generation || r.own == 0) return;
  absl::InlinedVector<uint32_t, 8> todo = {r.own};
  while (!todo.empty()) {
    uint32_t o = todo.back();
    todo.pop_back();
    pending_free.push_back(o);
    moved_storage.erase(o);
    unmoved_storage.erase(o);
    if (Contents* c = FindContents(o); c != nullptr) {
      while (!c->stores.empty()) {
        // Its node no longer stores it.
        const uint32_t at = static_cast<uint32_t>(c->stores.size()) - 1;
        auto& of_node = stores_of_node[c->stores[at].node.index];
        of_node.erase(std::remove_if(of_node.begin(), of_node.end(),
                                     [&](const StoreAt& s) { return s.holder == o && s.at == at; }),
                      of_node.end());
        c->stores.pop_back();
      }
      contents.Erase(o);
    }
    geometry_changes.erase(o);
    for (uint32_t e : elements.Of(o)) todo.push_back(e);
    elements.Erase(o);
  }
  r.own = 0;
  r.points_to = 0;
}

namespace {

// Returns whether `summary` is a summary alone, or beside the memory that has escaped, and the members of `other` and
// their storages are parts of it.
bool HoldsAll(const AliasDb::State& s, SetId summary, SetId other) {
  const bool unknown = s.sets.Contains(summary, MakeRef(AliasDb::State::kUnknown));
  if (s.sets.Size(summary) != (unknown ? 2 : 1)) return false;
  uint32_t group = 0;
  s.sets.ForEach(summary, [&](alias_internal::Ref r) {
    if (r != MakeRef(AliasDb::State::kUnknown)) group = ObjectOf(r);
  });
  if (group == 0 || !s.is_summary[group] || s.Find(group) != group) return false;
  bool all = true;
  s.sets.ForEach(other, [&](alias_internal::Ref r) {
    if (!all) return;
    if (r == MakeRef(AliasDb::State::kUnknown)) {
      all = unknown;
      return;
    }
    all = s.Find(ObjectOf(r)) == group;
    s.sets.ForEach(s.objects[ObjectOf(r)].storage,
                   [&](alias_internal::Ref storage) { all = all && s.Find(ObjectOf(storage)) == group; });
  });
  return all;
}

}  // namespace

AliasDb::State::SetId AliasDb::State::Join(SetId a, SetId b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (summarised != 0) {
    if (HoldsAll(*this, a, b)) return a;
    if (HoldsAll(*this, b, a)) return b;
  }
  const SetId u = sets.Union(a, b);
  if (summarised != 0 && !SetPool::IsSingle(u)) {
    // A set that holds a summary holds nothing else, so that it has come to rest: it would otherwise grow, become a
    // summary and grow again without end. Only the memory that has escaped stays apart, as its summary would be the
    // caller's too.
    bool any = false;
    sets.ForEach(u, [&](Ref r) { any |= is_summary[ObjectOf(r)]; });
    if (any) return Summarise(u);
  }
  if (sets.Size(u) > static_cast<size_t>(options.max_set)) return Summarise(u);
  return u;
}

AliasDb::State::SetId AliasDb::State::Grown(SetId before, SetId s) {
  constexpr size_t kCrowd = 4;
  s = Join(before, s);
  return s != before && sets.Size(s) > kCrowd ? Summarise(s) : s;
}

// The heaviest summary among the members and their storages takes in the others, so that no access and no member
// changes its group more than a logarithmic number of times.
AliasDb::State::SetId AliasDb::State::Summarise(SetId s) {
  absl::InlinedVector<Ref, 8> refs = sets.Refs(s);
  const bool unknown = refs.front() == MakeRef(kUnknown);
  if (unknown) refs.erase(refs.begin());
  const auto result = [&](uint32_t group) {
    Ref both[] = {MakeRef(kUnknown), MakeRef(group)};
    return unknown ? sets.Make(absl::MakeSpan(both)) : SetPool::Single(both[1]);
  };
  if (refs.size() == 1 && Find(ObjectOf(refs[0])) == ObjectOf(refs[0])) return s;
  uint32_t group = 0;
  const auto weight = [&](uint32_t f) {
    return uint64_t{groups[f].members} + writes.Size(2 * f) + reads.Size(ReadList(2 * f, false));
  };
  // The members and their storages, each once: views of the same memory have nearly the same storages.
  absl::InlinedVector<uint32_t, 64> all;
  if (object_marks.size() < objects.size()) object_marks.resize(objects.capacity());
  ++object_mark;
  const auto consider = [&](uint32_t o) {
    if (std::exchange(object_marks[o], object_mark) == object_mark) return;
    all.push_back(o);
    const uint32_t f = Find(o);
    if (objects[f].kind == Kind::kSummary && f != group && (group == 0 || weight(f) > weight(group))) group = f;
  };
  for (Ref r : refs) {
    consider(ObjectOf(r));
    sets.ForEach(objects[ObjectOf(r)].storage, [&](Ref storage) { consider(ObjectOf(storage)); });
  }
  if (group == 0) {
    group = NewObject(Kind::kSummary, ValueId());
    objects[group].storage = SetPool::Single(MakeRef(group));
    groups[group].first = ObjectOf(refs.front());
  }
  ++summarised;
  bool external = objects[group].external, escaped = objects[group].escaped;
  const auto add = [&](uint32_t o) {
    const uint32_t f = Find(o);
    if (f == group || o == kUnknown) {
      if (o == kUnknown) external = true;
      return;
    }
    ++steps;
    external |= objects[f].external;
    escaped |= objects[f].escaped;
    objects[group].tensor |= objects[f].tensor;
    objects[group].container |= objects[f].container;
    if (!objects[f].external && !objects[f].escaped) {
      MoveAccesses(ListOf(f), ListOf(group));
    }
    objects[f].group = group;
    Group& mine = groups[group];
    if (objects[f].kind == Kind::kPiece) {
      // The pieces of one container share a list of accesses, and so their fate.
      for (uint32_t sibling : elements.Of(objects[f].parent)) {
        ++steps;
        if (objects[sibling].group != 0) continue;
        objects[sibling].group = group;
        if (objects[sibling].container) joined_containers.push_back(MakeRef(sibling));
      }
    }
    if (objects[f].kind != Kind::kSummary) {
      ++mine.members;
      if (!objects[f].container) return;
      joined_containers.push_back(MakeRef(f));
      if (objects[f].loop != 0) joined_containers.push_back(MakeRef(f, true));
      return;
    }
    mine.members += groups[f].members;
    groups.erase(f);
    if (Contents* theirs = FindContents(f); theirs != nullptr) {
      // Nodes that looked into it are evaluated again.
      const SetId base = theirs->base;
      std::vector<NodeId> readers = std::move(theirs->readers);
      contents.Erase(f);
      Contents& c = ContentsOf(group);
      c.base = sets.Union(c.base, base);
      if (c.readers.size() < readers.size()) c.readers.swap(readers);
      c.readers.insert(c.readers.end(), readers.begin(), readers.end());
      PushReaders(group);
    }
  };
  for (uint32_t o : all) add(o);
  // This is so for new members too if the summary was external before.
  if ((external || escaped) && !(objects[group].external || objects[group].escaped)) {
    MoveAccesses(2 * group, 2 * kUnknown);
  }
  objects[group].external = external;
  objects[group].escaped = escaped;
  return result(group);
}

// The innermost loop around n.
uint32_t AliasDb::State::LoopOf(NodeId n) {
  if (walk_loop != UINT32_MAX) return walk_loop;
  return loops.IsEmpty() && monotone ? 0 : loops.Around(n);
}

void AliasDb::State::ResolveAround(NodeId n) {
  stale |= !moved_storage.empty();
  if (loops.IsEmpty()) return;
  if (overdrawn) return;
  if (NodeId loop = OutermostLoop(n); loop.valid()) resolve_loops.insert(loop.index);
}

// Returns the members of `s` as the next iteration of the loop sees them: its allocations are older ones then.
AliasDb::State::SetId AliasDb::State::Shift(SetId s, uint32_t loop) {
  if (loop == 0) return s;
  bool any = false;
  absl::InlinedVector<Ref, 40> out;
  sets.ForEach(s, [&](Ref r) {
    const bool older = !IsOld(r) && loops.IsWithin(objects[ObjectOf(r)].loop, loop);
    any |= older;
    out.push_back(older ? r | 1 : r);
  });
  return any ? sets.Make(absl::MakeSpan(out)) : s;
}

// Returns the contents (or the storage) of an older instance of a holder that is allocated in `loop`, if those of the
// current one are `s`.
AliasDb::State::SetId AliasDb::State::OldContents(SetId s, uint32_t loop) {
  if (loop == 0 || s == 0) return s;
  absl::InlinedVector<Ref, 40> out;
  sets.ForEach(s, [&](Ref r) {
    uint32_t l = objects[ObjectOf(r)].loop;
    if (l == 0 || IsOld(r)) {
      out.push_back(r);
    } else if (loops.IsWithin(l, loop)) {
      out.push_back(r | 1);
    } else {
      out.push_back(r);
      out.push_back(r | 1);
    }
  });
  return sets.Make(absl::MakeSpan(out));
}

AliasDb::State::SetId AliasDb::State::Storages(Ref r) {
  const Object& o = objects[ObjectOf(r)];
  if (!IsOld(r)) return o.storage;
  return OldContents(o.storage, o.loop);
}

AliasDb::State::SetId AliasDb::State::StoragesOfSet(SetId s) {
  if (SetPool::IsSingle(s)) return Storages(SetPool::SingleRef(s));
  SetId out = 0;
  for (Ref r : sets.Refs(s)) out = Join(out, Storages(r));
  return out;
}

// A hash of the set and of where each member lives. A reader that takes members out of a container evaluates again when
// either changes.
uint64_t AliasDb::State::Fingerprint(SetId s) {
  uint64_t h = Mix(1, sets.Hash(s));
  sets.ForEach(s, [&](Ref r) { h = Mix(h, sets.Hash(objects[ObjectOf(r)].storage)); });
  return h;
}

void AliasDb::State::CollectSets() {
  sets.Collect([&](absl::FunctionRef<void(SetId)> keep) {
    for (const ValueRecord& v : values) keep(v.points_to);
    for (const Object& o : objects) keep(o.storage);
    for (SetId s : loops.all_carried()) keep(s);
    contents.ForEach([&](const Contents& c) {
      for (const alias_internal::Store& s : c.stores) keep(s.set);
      for (SetId s : c.slots) keep(s);
      if (c.sums != nullptr) {
        for (const std::vector<SetId>& sums : *c.sums) {
          for (SetId s : sums) keep(s);
        }
      }
      for (SetId s : {c.base, c.of_call, c.kept}) keep(s);
    });
    for (const auto& [o, s] : moved_storage) keep(s);
    for (const auto& [o, s] : unmoved_storage) keep(s);
    for (const auto& [o, s] : new_stores) keep(s.set);
    if (set_lists.empty()) return;
    for (const alias_internal::AccessIndex* index : {&writes, &reads}) {
      index->ForEach([&](const Access& a) {
        if (a.IsOfOne()) return;
        keep(a.handles);
        keep(a.storages);
      });
    }
  });
  all_storages.clear();
  list_of_storages.clear();
  reach_at_any_time.clear();
  ++summary_epoch;
}

int64_t AliasDb::State::Bytes() const {
  const auto of = [](const auto& v) { return static_cast<int64_t>(v.capacity() * sizeof(v[0])); };
  const auto of_map = [](const auto& m) { return static_cast<int64_t>(m.capacity() * (sizeof(*m.begin()) + 1)); };
  int64_t out = of(values) + of(objects) + of(nodes) + loops.bytes() + of(copy_marks) + of(geom_of) +
                of(set_summaries) + of(nothing) + of(original_steps) + of(whole_bases) + of(compared) +
                of(reader_marks) + of(object_marks) + of(free_objects) + writes.bytes() + reads.bytes() + sets.bytes() +
                tree.bytes() + contents.bytes() + elements.bytes() + of_map(groups) + of_map(moved_storage) +
                of_map(unmoved_storage) + of_map(stores_of_node) + of_map(geometry_changes) +
                of_map(reach_at_any_time) + of_map(output_refs) + of(set_lists) + of_map(set_list_of) +
                of_map(list_of_storages) + of_map(all_storages) +
                static_cast<int64_t>(geoms.size() * sizeof(alias_internal::Geom));
  for (const auto& [key, by] : geometry_changes) out += by.bytes();
  return out;
}

}  // namespace smelt
