#include "smelt/alias/access_lists.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void AccessLists::Clear() {
  writes.Clear();
  reads.Clear();
  set_lists_.clear();
  set_list_of_.clear();
  DropSets();
  any_async = false;
}

void AccessLists::Release(uint32_t object) {
  for (uint32_t list : {2 * object, 2 * object + 1}) set_list_of_.erase(list);
}

void AccessLists::ObjectsReleased() {
  ++storage_epoch_;
  list_of_storages_.clear();
}

void AccessLists::DropSets() {
  all_storages_.clear();
  list_of_storages_.clear();
}

int64_t AccessLists::bytes() const {
  const auto of_map = [](const auto& m) { return static_cast<int64_t>(m.capacity() * (sizeof(*m.begin()) + 1)); };
  return writes.bytes() + reads.bytes() + static_cast<int64_t>(set_lists_.capacity() * sizeof(uint32_t)) +
         of_map(set_list_of_) + of_map(list_of_storages_) + of_map(all_storages_);
}

uint32_t AccessLists::RecordAccess(uint32_t list, Access a) {
  NodeRecord& r = s_.records.nodes[a.node.index];
  a.position = r.position;
  any_async |= (a.bits & kAsync) != 0;
  if (a.bits & (kWrite | kGeometryWrite)) return writes.Add(list, a, &r.first_write);
  return reads.Add(ReadList(list, !(a.bits & kRead)), a, &r.first_read);
}

SetId AccessLists::AllStorages(SetId handles) {
  AllStoragesOf& known = all_storages_[handles];
  if (known.epoch == storage_epoch_) return known.storages;
  SetId out = 0;
  for (Ref r : s_.sets.Refs(handles)) out = s_.sets.Union(out, s_.memory.Storages(r));
  known.epoch = storage_epoch_;
  return known.storages = out;
}

uint32_t AccessLists::ListOf(uint32_t storage) const {
  uint32_t f = s_.objects.Find(storage);
  const Object* o = &s_.objects[f];
  if (o->external || o->escaped) return 2 * kUnknown;
  // The pieces of one container share a list, apart from the container's own.
  if (o->kind == ObjectKind::kPiece) return 2 * o->parent + 1;
  return 2 * f;
}

uint32_t AccessLists::FindSetListOf(uint32_t list) const {
  const auto it = set_list_of_.find(list);
  return it != set_list_of_.end() ? kSetList | FindSetList(it->second) : 0;
}

uint32_t AccessLists::FindSetList(uint32_t k) const {
  while (set_lists_[k] != k) k = set_lists_[k] = set_lists_[set_lists_[k]];
  return k;
}

uint32_t AccessLists::SetListFor(SetId storages) {
  if (const auto it = list_of_storages_.find(storages); it != list_of_storages_.end()) {
    return kSetList | FindSetList(it->second);
  }
  std::optional<uint32_t> all;
  absl::InlinedVector<uint32_t, 32> alone;
  s_.sets.ForEach(storages, [&](Ref s) {
    ++s_.steps;
    const uint32_t list = ListOf(ObjectOf(s));
    const auto it = set_list_of_.find(list);
    if (it == set_list_of_.end()) {
      alone.push_back(list);
    } else {
      all = all ? JoinSetLists(*all, it->second) : FindSetList(it->second);
    }
  });
  if (!all) {
    all = static_cast<uint32_t>(set_lists_.size());
    set_lists_.push_back(*all);
  }
  for (uint32_t list : alone) set_list_of_[list] = *all;
  list_of_storages_[storages] = *all;
  return kSetList | *all;
}

uint32_t AccessLists::JoinSetLists(uint32_t a, uint32_t b) {
  a = FindSetList(a);
  b = FindSetList(b);
  if (a == b) return a;
  const auto size = [&](uint32_t k) {
    return writes.Size(kSetList | k) + reads.Size(ReadList(kSetList | k, false)) +
           reads.Size(ReadList(kSetList | k, true));
  };
  if (size(a) < size(b)) std::swap(a, b);
  MoveList(kSetList | b, kSetList | a);
  return set_lists_[b] = a;
}

void AccessLists::MoveList(uint32_t from, uint32_t to) {
  writes.MoveList(from, to);
  if (!reads_active) return;
  for (bool geometry_only : {false, true}) {
    reads.MoveList(ReadList(from, geometry_only), ReadList(to, geometry_only));
  }
}

void AccessLists::MoveAccesses(uint32_t from, uint32_t to) {
  if (from == to) return;
  MoveList(from, to);
  const auto it = set_list_of_.find(from);
  if (it == set_list_of_.end()) return;
  const uint32_t of_from = it->second;
  set_list_of_.erase(it);
  const auto [of_to, inserted] = set_list_of_.try_emplace(to, of_from);
  if (!inserted) of_to->second = JoinSetLists(of_to->second, of_from);
}

std::vector<std::pair<Ref, Ref>> AccessLists::PairsOf(const Access& a) {
  std::vector<std::pair<Ref, Ref>> out;
  for (Ref r : s_.sets.Refs(a.handles)) {
    const bool of_container = (a.bits & kOfContainer) != 0;
    const SetId storages = SetPool::IsSingle(a.handles) ? a.storages
                           : of_container               ? SetPool::Single(r)
                                                        : s_.memory.Storages(r);
    for (Ref s : s_.sets.Refs(storages)) out.push_back({r, s});
  }
  return out;
}

}  // namespace smelt::alias_internal
