#include "smelt/alias/memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

// Returns whether `summary` is a summary alone, or beside the memory that has escaped, and the members of `other` and
// their storages are parts of it.
bool HoldsAll(const AliasDb::State& s, SetId summary, SetId other) {
  const size_t size = s.sets.Size(summary);
  if (size > 2) return false;
  const bool unknown = s.sets.Contains(summary, MakeRef(kUnknown));
  if (size != (unknown ? 2 : 1)) return false;
  uint32_t group = 0;
  s.sets.ForEach(summary, [&](Ref r) {
    if (r != MakeRef(kUnknown)) group = ObjectOf(r);
  });
  if (group == 0 || !s.objects.IsSummary(group) || s.objects.Find(group) != group) return false;
  bool all = true;
  s.sets.ForEach(other, [&](Ref r) {
    if (!all) return;
    if (r == MakeRef(kUnknown)) {
      all = unknown;
      return;
    }
    all = s.objects.Find(ObjectOf(r)) == group;
    // The memory that has escaped is part of a summary of the caller's.
    s.sets.ForEach(s.objects[ObjectOf(r)].storage, [&](Ref storage) {
      const uint32_t o = ObjectOf(storage);
      all = all && (s.objects.Find(o) == group || (o == kUnknown && s.objects[group].external));
    });
  });
  return all;
}

}  // namespace

void Memory::Clear() {
  moved_storage.clear();
  unmoved_storage.clear();
  external_moved = false;
  weight_storages.clear();
  pending_free.clear();
  SettleChanges();
}

void Memory::SettleChanges() {
  touched.clear();
  forced.clear();
}

int64_t Memory::bytes() const {
  const auto of_map = [](const auto& m) { return static_cast<int64_t>(m.capacity() * (sizeof(*m.begin()) + 1)); };
  return of_map(moved_storage) + of_map(unmoved_storage);
}

void Memory::EscapeObject(uint32_t object) {
  Object& o = s_.objects[object];
  if (o.escaped || object == kUnknown) return;
  const uint32_t list = s_.accesses.ListOf(object);
  o.escaped = true;
  const uint32_t f = s_.objects.Find(object);
  if (f != object && !s_.objects[f].escaped) {
    const uint32_t group_list = s_.accesses.ListOf(f);
    s_.objects[f].escaped = true;
    s_.accesses.MoveAccesses(group_list, 2 * kUnknown);
  }
  if (list == 2 * kUnknown) return;
  s_.accesses.MoveAccesses(list, 2 * kUnknown);
  if (o.kind == ObjectKind::kPiece) {
    // They share a list, so all of their accesses are moved. That costs only precision.
    for (uint32_t sibling : s_.containers.elements.Of(o.parent)) {
      ++s_.steps;
      s_.objects[sibling].escaped = true;
    }
  }
}

void Memory::Escape(SetId set) {
  std::vector<Ref> todo;
  s_.sets.ForEach(set, [&](Ref r) {
    if (!s_.objects[ObjectOf(r)].escaped && ObjectOf(r) != kUnknown) todo.push_back(r);
  });
  while (!todo.empty()) {
    uint32_t o = ObjectOf(todo.back());
    todo.pop_back();
    if (s_.objects[o].escaped || o == kUnknown) continue;
    const bool was_external = s_.objects[o].external;
    EscapeObject(o);
    s_.changes.dirty = s_.changes.reach = true;
    s_.changes.geometry |= !s_.reshapes.geometry_changes.empty();
    s_.sets.ForEach(s_.objects[o].storage, [&](Ref s) { todo.push_back(s); });
    if (s_.objects[o].container && !was_external) {
      SetId inside = s_.containers.ContentOf(MakeRef(o), kAnySlot, NodeId());
      s_.sets.ForEach(inside, [&](Ref r) { todo.push_back(r); });
      s_.containers.readers.Push(o);
    }
  }
}

void Memory::MoveStorage(NodeId n, SetId reached, SetId target) {
  if (target == 0) return;
  s_.records.nodes[n.index].flags |= NodeRecord::kMovesStorage;
  s_.evaluator.making_first = false;  // but of others
  for (Ref r : s_.sets.Refs(reached)) {
    const uint32_t moved_object = ObjectOf(r);
    if (moved_object == kUnknown || !s_.objects[moved_object].tensor ||
        s_.objects[moved_object].kind == ObjectKind::kSummary) {
      continue;
    }
    const uint32_t key = s_.objects.HandleKey(moved_object);
    const auto [known, inserted] = moved_storage.try_emplace(key, 0);
    const SetId had = known->second;
    SetId moved = Join(had, target);
    // A handle from outside the loop may have moved in an earlier iteration.
    // Whatever one loop makes older, all loops further out make older too.
    const LoopTable::Range range = s_.loops.Between(LoopOf(n), s_.objects[moved_object].loop);
    moved = Join(Join(moved, Shift(target, range.inner)), Shift(target, range.outer));
    known->second = moved;
    if (s_.objects[moved_object].external) {
      external_moved = true;
      Escape(target);
    }
    // While all is built, every handle holds what it has moved to.
    if (moved == had && !inserted && s_.solver.building) continue;
    Containers::Elements handles = {moved_object};
    if (key != moved_object) handles = s_.containers.elements.Of(key);
    for (uint32_t o : handles) {
      const SetId before = s_.objects[o].storage;
      auto unmoved = unmoved_storage.find(o);
      SetStorage(o, unmoved != unmoved_storage.end() ? unmoved->second : before);
      // Whoever holds it: its definition's users, and theirs.
      if (s_.objects[o].storage != before && s_.objects[o].def.valid() && s_.g.IsLive(s_.objects[o].def)) {
        s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
        s_.work.PushUsers(s_.objects[o].def);
        s_.containers.readers.Push(s_.objects[o].parent != 0 ? s_.objects[o].parent : key);
        uint64_t& epoch = forced[s_.objects[o].def.index];
        epoch = touched_epoch_;
      }
    }
  }
}

uint32_t Memory::Own(ValueId v, ObjectKind kind, bool tensor, bool container) {
  ValueRecord& r = s_.records.RecordOf(v);
  uint32_t o = r.own;
  if (o == 0) {
    o = s_.objects.New(kind, v);
    s_.records.values[v.index].own = o;
  }
  Object& object = s_.objects[o];
  object.kind = kind;
  object.empty = Object::Empty::kNotAsked;
  object.tensor = tensor;
  object.container = container;
  object.loop = kind == ObjectKind::kConstant || kind == ObjectKind::kInput ? 0 : LoopOf(s_.g.value(v).def);
  return o;
}

void Memory::SetStorage(uint32_t object, SetId storage) {
  if (!moved_storage.empty()) {
    if (auto it = moved_storage.find(s_.objects.HandleKey(object)); it != moved_storage.end()) {
      // The handle may have moved to the memory that it was made in. Members that no longer come from there would keep
      // themselves alive.
      auto [made_in, inserted] = unmoved_storage.try_emplace(object, storage);
      if (!inserted && made_in->second != storage && !s_.solver.building) s_.budget.stale = true;
      made_in->second = storage;
      storage = Join(storage, it->second);
    }
  }
  if (s_.budget.overdrawn && s_.objects[object].storage != 0) storage = Grown(s_.objects[object].storage, storage);
  Object& o = s_.objects[object];
  if (o.storage == storage) return;
  if (!s_.evaluator.making_first) {
    touched[object] = ++touched_epoch_;
    s_.changes.dirty = true;
    s_.changes.geometry |= s_.geometries.HasGeom(object);
  }
  if (!s_.solver.monotone && o.def.valid() && s_.g.IsLive(o.def) && !s_.sets.Includes(storage, o.storage))
    s_.work.ResolveAround(s_.g.value(o.def).def);
  o.storage = storage;
  if (!s_.evaluator.making_first) s_.accesses.StoragesChanged();
  if (o.escaped) Escape(storage);
}

void Memory::FreeOwn(ValueId v) {
  s_.changes.reach = true;
  if (v.index >= s_.records.values.size()) return;
  ValueRecord& r = s_.records.values[v.index];
  if (r.generation != v.generation || r.own == 0) return;
  absl::InlinedVector<uint32_t, 8> todo = {r.own};
  while (!todo.empty()) {
    uint32_t o = todo.back();
    todo.pop_back();
    pending_free.push_back(o);
    moved_storage.erase(o);
    unmoved_storage.erase(o);
    if (Contents* c = s_.containers.FindContents(o); c != nullptr) {
      while (!c->stores.empty()) {
        // Its node no longer stores it.
        const uint32_t at = static_cast<uint32_t>(c->stores.size()) - 1;
        auto& of_node = s_.stores.stores_of_node[c->stores[at].node.index];
        of_node.erase(std::remove_if(of_node.begin(), of_node.end(),
                                     [&](const Stores::StoreAt& s) { return s.holder == o && s.at == at; }),
                      of_node.end());
        c->stores.pop_back();
      }
      s_.containers.contents.Erase(o);
    }
    s_.reshapes.geometry_changes.erase(o);
    for (uint32_t e : s_.containers.elements.Of(o)) todo.push_back(e);
    s_.containers.elements.Erase(o);
  }
  r.own = 0;
  r.points_to = 0;
}

SetId Memory::Join(SetId a, SetId b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (s_.objects.summarised != 0) {
    if (HoldsAll(s_, a, b)) return a;
    if (HoldsAll(s_, b, a)) return b;
  }
  const SetId u = s_.sets.Union(a, b);
  if (s_.objects.summarised != 0 && !SetPool::IsSingle(u)) {
    // A set that holds a summary holds nothing else, so that it has come to rest: it would otherwise grow, become a
    // summary and grow again without end. Only the memory that has escaped stays apart, as its summary would be the
    // caller's too.
    bool any = false;
    s_.sets.ForEach(u, [&](Ref r) { any |= s_.objects.IsSummary(ObjectOf(r)); });
    if (any) return Summarise(u);
  }
  if (s_.sets.Size(u) > static_cast<size_t>(s_.options.max_set)) return Summarise(u);
  return u;
}

SetId Memory::Grown(SetId before, SetId s) {
  constexpr size_t kCrowd = 4;
  s = Join(before, s);
  return s != before && s_.sets.Size(s) > kCrowd ? Summarise(s) : s;
}

// The heaviest summary among the members and their storages takes in the others, so that no access and no member
// changes its group more than a logarithmic number of times.
SetId Memory::Summarise(SetId s) {
  absl::InlinedVector<Ref, 8> refs = s_.sets.Refs(s);
  const bool unknown = refs.front() == MakeRef(kUnknown);
  if (unknown) refs.erase(refs.begin());
  const auto result = [&](uint32_t group) {
    Ref both[] = {MakeRef(kUnknown), MakeRef(group)};
    return unknown ? s_.sets.Make(absl::MakeSpan(both)) : SetPool::Single(both[1]);
  };
  if (refs.size() == 1 && s_.objects.Find(ObjectOf(refs[0])) == ObjectOf(refs[0])) return s;
  uint32_t group = 0;
  const auto weight = [&](uint32_t f) {
    return uint64_t{s_.objects.groups[f].members} + s_.accesses.writes.Size(2 * f) +
           s_.accesses.reads.Size(AccessLists::ReadList(2 * f, false));
  };
  // The members and their storages, each once: views of the same memory have nearly the same storages.
  absl::InlinedVector<uint32_t, 64> all;
  s_.objects.StartMarking();
  const auto consider = [&](uint32_t o) {
    if (!s_.objects.Mark(o)) return;
    all.push_back(o);
    const uint32_t f = s_.objects.Find(o);
    if (s_.objects[f].kind == ObjectKind::kSummary && f != group && (group == 0 || weight(f) > weight(group)))
      group = f;
  };
  for (Ref r : refs) {
    consider(ObjectOf(r));
    s_.sets.ForEach(s_.objects[ObjectOf(r)].storage, [&](Ref storage) { consider(ObjectOf(storage)); });
  }
  if (group == 0) {
    group = s_.objects.New(ObjectKind::kSummary, ValueId());
    s_.objects[group].storage = SetPool::Single(MakeRef(group));
    s_.objects.groups[group].first = ObjectOf(refs.front());
  }
  ++s_.objects.summarised;
  bool external = s_.objects[group].external, escaped = s_.objects[group].escaped;
  const auto add = [&](uint32_t o) {
    const uint32_t f = s_.objects.Find(o);
    if (f == group || o == kUnknown) {
      if (o == kUnknown) external = true;
      return;
    }
    ++s_.steps;
    external |= s_.objects[f].external;
    escaped |= s_.objects[f].escaped;
    s_.objects[group].tensor |= s_.objects[f].tensor;
    s_.objects[group].container |= s_.objects[f].container;
    if (!s_.objects[f].external && !s_.objects[f].escaped) {
      s_.accesses.MoveAccesses(s_.accesses.ListOf(f), s_.accesses.ListOf(group));
    }
    s_.objects[f].group = group;
    ObjectTable::Group& mine = s_.objects.groups[group];
    if (s_.objects[f].kind == ObjectKind::kPiece) {
      // The pieces of one container share a list of accesses, and so their fate.
      for (uint32_t sibling : s_.containers.elements.Of(s_.objects[f].parent)) {
        ++s_.steps;
        if (s_.objects[sibling].group != 0) continue;
        s_.objects[sibling].group = group;
        if (s_.objects[sibling].container) s_.containers.joined_containers.push_back(MakeRef(sibling));
      }
    }
    if (s_.objects[f].kind != ObjectKind::kSummary) {
      ++mine.members;
      if (!s_.objects[f].container) return;
      s_.containers.joined_containers.push_back(MakeRef(f));
      if (s_.objects[f].loop != 0) s_.containers.joined_containers.push_back(MakeRef(f, true));
      return;
    }
    mine.members += s_.objects.groups[f].members;
    s_.objects.groups.erase(f);
    if (Contents* theirs = s_.containers.FindContents(f); theirs != nullptr) {
      // Nodes that looked into it are evaluated again.
      const SetId base = theirs->base;
      Contents::Readers readers = std::move(theirs->readers);
      s_.containers.contents.Erase(f);
      Contents& c = s_.containers.ContentsOf(group);
      c.base = s_.sets.Union(c.base, base);
      if (c.readers.size() < readers.size()) c.readers.swap(readers);
      c.readers.insert(c.readers.end(), readers.begin(), readers.end());
      s_.containers.readers.Push(group);
    }
  };
  for (uint32_t o : all) add(o);
  // This is so for new members too if the summary was external before.
  if ((external || escaped) && !(s_.objects[group].external || s_.objects[group].escaped)) {
    s_.accesses.MoveAccesses(2 * group, 2 * kUnknown);
  }
  s_.objects[group].external = external;
  s_.objects[group].escaped = escaped;
  return result(group);
}

uint32_t Memory::LoopOf(NodeId n) {
  if (s_.solver.walk_loop != UINT32_MAX) return s_.solver.walk_loop;
  return s_.loops.IsEmpty() && s_.solver.monotone ? 0 : s_.loops.Around(n);
}

SetId Memory::Shift(SetId s, uint32_t loop) {
  if (loop == 0) return s;
  bool any = false;
  absl::InlinedVector<Ref, 40> out;
  s_.sets.ForEach(s, [&](Ref r) {
    const bool older = !IsOld(r) && s_.loops.IsWithin(s_.objects[ObjectOf(r)].loop, loop);
    any |= older;
    out.push_back(older ? r | 1 : r);
  });
  return any ? s_.sets.MakeSorted(absl::MakeSpan(out)) : s;
}

SetId Memory::OldContents(SetId s, uint32_t loop) {
  if (loop == 0 || s == 0) return s;
  absl::InlinedVector<Ref, 40> out;
  s_.sets.ForEach(s, [&](Ref r) {
    uint32_t l = s_.objects[ObjectOf(r)].loop;
    if (l == 0 || IsOld(r)) {
      out.push_back(r);
    } else if (s_.loops.IsWithin(l, loop)) {
      out.push_back(r | 1);
    } else {
      out.push_back(r);
      out.push_back(r | 1);
    }
  });
  return s_.sets.MakeSorted(absl::MakeSpan(out));
}

SetId Memory::Storages(Ref r) {
  const Object& o = s_.objects[ObjectOf(r)];
  if (!IsOld(r)) return o.storage;
  return OldContents(o.storage, o.loop);
}

SetId Memory::StoragesOfSet(SetId s) {
  if (SetPool::IsSingle(s)) return Storages(SetPool::SingleRef(s));
  SetJoiner out(s_);
  for (Ref r : s_.sets.Refs(s)) out.Add(Storages(r));
  return out.Joined();
}

void SetJoiner::Add(SetId s) {
  if (s == 0 || (!sets_.empty() && sets_.back() == s)) return;
  constexpr size_t kMany = 64;
  if (refs_.size() + s_.sets.Size(s) > kMany) Flush();
  sets_.push_back(s);
  s_.sets.ForEach(s, [&](Ref r) { refs_.push_back(r); });
}

// Joining one after the other makes a set for each step, which nothing holds afterwards.
void SetJoiner::Flush() {
  if (joined_ == 0 && sets_.size() > 1) {
    std::sort(refs_.begin(), refs_.end());
    refs_.erase(std::unique(refs_.begin(), refs_.end()), refs_.end());
    const bool few = refs_.size() <= static_cast<size_t>(s_.options.max_set);
    const auto is_summary = [&](Ref r) { return s_.objects.IsSummary(ObjectOf(r)); };
    if (few && (s_.objects.summarised == 0 || std::none_of(refs_.begin(), refs_.end(), is_summary))) {
      joined_ = s_.sets.MakeSorted(absl::MakeSpan(refs_));
      sets_.clear();
    }
  }
  for (SetId s : sets_) joined_ = s_.memory.Join(joined_, s);
  sets_.clear();
  refs_.clear();
}

SetId SetJoiner::Joined() {
  Flush();
  return joined_;
}

uint64_t Memory::Fingerprint(SetId s) {
  uint64_t h = Mix(1, s_.sets.Hash(s));
  s_.sets.ForEach(s, [&](Ref r) { h = Mix(h, s_.sets.Hash(s_.objects[ObjectOf(r)].storage)); });
  return h;
}

}  // namespace smelt::alias_internal
