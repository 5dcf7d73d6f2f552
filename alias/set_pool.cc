#include "smelt/alias/set_pool.h"

#include <algorithm>

#include "smelt/core/base/check.h"

namespace smelt::alias_internal {

namespace {

// The members are hashed independently of each other, which a processor does at the same time.
uint64_t HashOf(const Ref* begin, size_t size) {
  uint64_t sum = 0;
  for (size_t i = 0; i < size; ++i) {
    const uint64_t h = (begin[i] + 1) * 0x9e3779b97f4a7c15u;
    sum += (h ^ h >> 32) * 0xff51afd7ed558ccdu;
  }
  return Mix(sum, size);
}

}  // namespace

SetId SetPool::Make(absl::Span<Ref> refs) {
  steps_ += refs.size();
  std::sort(refs.begin(), refs.end());
  return MakeSorted(refs);
}

SetId SetPool::MakeSorted(absl::Span<Ref> refs) {
  return Intern(refs.data(), std::unique(refs.begin(), refs.end()) - refs.begin());
}

// Returns the slot of the set for which `is_it` holds, or the free slot where it belongs.
template <typename F>
SetPool::Slot* SetPool::Probe(uint32_t hash, Ref largest, const F& is_it) {
  const size_t mask = table_.size() - 1;
  size_t at = ((uint64_t{largest} * scale_ >> kScaleBits) + hash % kNear) & mask;
  for (size_t i = 0; i < kNear; ++i, at = (at + 1) & mask) {
    if (table_[at].entry == 0 || is_it(table_[at])) return &table_[at];
  }
  // With a stride of its own each set leaves a crowded range at once, however large that is.
  const size_t stride = (hash * 0x85ebca6bu >> 4) | 1;
  for (at = (hash * 0x9e3779b1u) & mask;; at = (at + stride) & mask) {
    ++steps_;
    if (table_[at].entry == 0 || is_it(table_[at])) return &table_[at];
  }
}

SetId SetPool::Intern(const Ref* sorted, size_t size) {
  if (size == 0) return 0;
  if (size == 1) return Single(sorted[0]);
  const uint64_t full_hash = HashOf(sorted, size);
  const uint32_t hash = static_cast<uint32_t>(full_hash);
  Slot* slot = Probe(hash, sorted[size - 1], [&](const Slot& s) {
    if (s.hash != hash) return false;
    const Entry& e = entries_[s.entry];
    return e.size == size && std::equal(sorted, sorted + size, pool_.begin() + e.begin);
  });
  if (slot->entry != 0) return slot->entry << 1;
  SMELT_CHECK(pool_.size() + size < UINT32_MAX) << "the alias sets are too large";
  const Entry made = {static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(size), full_hash};
  uint32_t id;
  if (free_.empty()) {
    id = static_cast<uint32_t>(entries_.size());
    entries_.push_back(made);
  } else {
    id = free_.back();
    free_.pop_back();
    entries_[id] = made;
  }
  pool_.insert(pool_.end(), sorted, sorted + size);
  *slot = {hash, id};
  if ((entries_.size() - free_.size()) * 2 > table_.size()) MakeTable(2 * table_.size());
  return id << 1;
}

void SetPool::MakeTable(size_t size) {
  const auto largest = [&](const Entry& e) { return pool_[e.begin + e.size - 1]; };
  // The present refs get half of the table, and those to come the other half.
  Ref bound = 1;
  for (const Entry& e : entries_) {
    if (e.size != 0) bound = std::max(bound, largest(e));
  }
  if (table_.size() == size) {
    std::fill(table_.begin(), table_.end(), Slot());
  } else {
    table_ = std::vector<Slot>(size);
  }
  scale_ = (uint64_t{size / 2} << kScaleBits) / bound;
  for (uint32_t id = 1; id < entries_.size(); ++id) {
    const Entry& e = entries_[id];
    const uint32_t hash = static_cast<uint32_t>(e.hash);
    if (e.size != 0) *Probe(hash, largest(e), [](const Slot&) { return false; }) = {hash, id};
  }
}

size_t SetPool::TableFor(size_t sets) {
  size_t size = kFirstTable;
  while (size < 2 * sets) size *= 2;
  return size;
}

void SetPool::Trim() {
  const size_t sets = entries_.size() - free_.size();
  if (table_.size() > 2 * TableFor(sets)) MakeTable(TableFor(sets));
  if (pool_.capacity() > 2 * pool_.size()) pool_.shrink_to_fit();
}

void SetPool::Collect(absl::FunctionRef<void(absl::FunctionRef<void(SetId)>)> visit, bool more_come) {
  std::vector<bool> live(entries_.size());
  size_t refs = 0, sets = 0;
  visit([&](SetId s) {
    ++steps_;
    if (s == 0 || IsSingle(s) || live[s >> 1]) return;
    live[s >> 1] = true;
    ++sets;
    refs += entries_[s >> 1].size;
  });
  steps_ += static_cast<int64_t>(entries_.size());
  while (entries_.size() > 1 && !live[entries_.size() - 1]) entries_.pop_back();
  std::vector<Ref> pool;
  pool.reserve(more_come ? pool_.capacity() : refs);
  free_.clear();
  for (uint32_t id = static_cast<uint32_t>(entries_.size()); id-- > 1;) {
    if (!live[id]) {
      entries_[id] = {0, 0, 0};
      free_.push_back(id);
    }
  }
  for (Entry& e : entries_) {
    const auto from = pool_.begin() + e.begin;
    e.begin = static_cast<uint32_t>(pool.size());
    pool.insert(pool.end(), from, from + e.size);
  }
  pool_.swap(pool);
  kept_ = refs;
  if (entries_.capacity() > 2 * entries_.size()) entries_.shrink_to_fit();
  MakeTable(more_come ? std::max(TableFor(sets), table_.size()) : TableFor(sets));
  std::fill(recent_.begin(), recent_.end(), United());
}

absl::InlinedVector<Ref, 8> SetPool::Refs(SetId s) const {
  if (s == 0) return {};
  const Ref single = s >> 1;
  const absl::Span<const Ref> refs = Sorted(s, &single);
  if (!IsSingle(s)) steps_ += refs.size();
  return {refs.begin(), refs.end()};
}

bool SetPool::Contains(SetId s, Ref r) const {
  if (s == 0) return false;
  if (IsSingle(s)) return SingleRef(s) == r;
  const Entry e = entries_[s >> 1];
  return std::binary_search(pool_.begin() + e.begin, pool_.begin() + e.begin + e.size, r);
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
  United& recent = recent_[(a * 0x9e3779b1u ^ b * 0x85ebca6bu) >> (32 - kRecentBits)];
  if (recent.a == a && recent.b == b) return recent.both;
  const Ref single_a = a >> 1, single_b = b >> 1;
  const absl::Span<const Ref> x = Sorted(a, &single_a), y = Sorted(b, &single_b);
  steps_ += x.size() + y.size();
  absl::InlinedVector<Ref, 40> merged;
  merged.resize(x.size() + y.size());
  const size_t size = std::set_union(x.begin(), x.end(), y.begin(), y.end(), merged.begin()) - merged.begin();
  const SetId both = size == x.size() ? a : size == y.size() ? b : Intern(merged.data(), size);
  recent = {a, b, both};
  return both;
}

}  // namespace smelt::alias_internal
