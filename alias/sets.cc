#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

uint64_t HashOf(const Ref* begin, size_t size) {
  uint64_t h = size * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < size; ++i) {
    h ^= begin[i] + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
  }
  return h ^ (h >> 32);
}

}  // namespace

SetId SetPool::Make(std::vector<Ref> refs) {
  std::sort(refs.begin(), refs.end());
  refs.erase(std::unique(refs.begin(), refs.end()), refs.end());
  if (refs.empty()) return 0;
  if (refs.size() == 1) return Single(refs[0]);
  uint64_t h = HashOf(refs.data(), refs.size());
  auto& candidates = index_[h];
  for (uint32_t c : candidates) {
    const Entry& e = entries_[c];
    if (e.size == refs.size() && std::equal(refs.begin(), refs.end(), pool_.begin() + e.begin)) return c << 1;
  }
  SMELT_CHECK(pool_.size() + refs.size() < UINT32_MAX) << "the alias sets are too large";
  uint32_t id = static_cast<uint32_t>(entries_.size());
  entries_.push_back({static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(refs.size())});
  pool_.insert(pool_.end(), refs.begin(), refs.end());
  candidates.push_back(id);
  return id << 1;
}

absl::InlinedVector<Ref, 8> SetPool::Refs(SetId s) const {
  absl::InlinedVector<Ref, 8> refs;
  ForEach(s, [&](Ref r) { refs.push_back(r); });
  return refs;
}

bool SetPool::Contains(SetId s, Ref r) const {
  bool found = false;
  ForEach(s, [&](Ref x) { found |= x == r; });
  return found;
}

bool SetPool::Includes(SetId outer, SetId inner) const {
  if (inner == 0 || outer == inner) return true;
  if (Size(inner) > Size(outer)) return false;
  bool all = true;
  ForEach(inner, [&](Ref r) { all = all && Contains(outer, r); });
  return all;
}

SetId SetPool::Union(SetId a, SetId b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  if (Includes(a, b)) return a;
  if (Includes(b, a)) return b;
  std::vector<Ref> refs;
  refs.reserve(Size(a) + Size(b));
  ForEach(a, [&](Ref r) { refs.push_back(r); });
  ForEach(b, [&](Ref r) { refs.push_back(r); });
  return Make(std::move(refs));
}

void AccessIndex::Add(uint32_t list, const Access& a, uint32_t* node_head) {
  uint32_t i;
  if (!free_.empty()) {
    i = free_.back();
    free_.pop_back();
    records_[i] = a;
  } else {
    i = static_cast<uint32_t>(records_.size());
    records_.push_back(a);
  }
  if (list >= heads_.size()) heads_.resize(std::max<size_t>(list + 1, heads_.size() + heads_.size() / 2));
  Access& r = records_[i];
  Ends& ends = heads_[list];
  r.list = list;
  r.prev = ends.tail;
  r.next = 0;
  (ends.tail != 0 ? records_[ends.tail].next : ends.head) = i;
  ends.tail = i;
  r.node_next = *node_head;
  *node_head = i;
  ++live_;
}

void AccessIndex::RemoveNode(uint32_t* node_head) {
  for (uint32_t i = *node_head; i != 0;) {
    Access& r = records_[i];
    uint32_t following = r.node_next;
    Ends& ends = heads_[r.list];
    (r.prev != 0 ? records_[r.prev].next : ends.head) = r.next;
    (r.next != 0 ? records_[r.next].prev : ends.tail) = r.prev;
    r = Access();
    free_.push_back(i);
    --live_;
    i = following;
  }
  *node_head = 0;
}

void AccessIndex::MoveList(uint32_t from, uint32_t to) {
  if (from == to || from >= heads_.size() || heads_[from].head == 0) return;
  if (to >= heads_.size()) heads_.resize(to + 1);
  for (uint32_t i = heads_[from].head; i != 0; i = records_[i].next) records_[i].list = to;
  Ends &a = heads_[to], &b = heads_[from];
  if (a.tail == 0) {
    a = b;
  } else {
    records_[a.tail].next = b.head;
    records_[b.head].prev = a.tail;
    a.tail = b.tail;
  }
  b = Ends();
}

}  // namespace smelt::alias_internal
