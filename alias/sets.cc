#include <algorithm>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

uint64_t HashOf(const Ref* begin, size_t size) {
  uint64_t h = size * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < size; ++i) h = (h ^ begin[i]) * 0xff51afd7ed558ccdu ^ (h >> 29);
  return Mix(h, size);
}

}  // namespace

SetId SetPool::Make(absl::Span<Ref> refs) {
  steps_ += refs.size();
  std::sort(refs.begin(), refs.end());
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
  table_ = std::vector<Slot>(size);
  scale_ = (uint64_t{size / 2} << kScaleBits) / bound;
  for (uint32_t id = 1; id < entries_.size(); ++id) {
    const Entry& e = entries_[id];
    const uint32_t hash = static_cast<uint32_t>(e.hash);
    if (e.size != 0) *Probe(hash, largest(e), [](const Slot&) { return false; }) = {hash, id};
  }
}

void SetPool::Collect(absl::FunctionRef<void(absl::FunctionRef<void(SetId)>)> visit) {
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
  pool.reserve(refs);
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
  size_t size = kFirstTable;
  while (size < 3 * sets) size *= 2;
  MakeTable(size);
  std::fill(recent_.begin(), recent_.end(), United());
}

absl::InlinedVector<Ref, 8> SetPool::Refs(SetId s) const {
  absl::InlinedVector<Ref, 8> refs;
  ForEach(s, [&](Ref r) { refs.push_back(r); });
  return refs;
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
  United& recent = recent_[(a * 0x9e3779b1u ^ b * 0x85ebca6bu) >> 24];
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

uint32_t AccessIndex::Add(uint32_t list, const Access& a, uint32_t* node_head) {
  uint32_t i;
  if (!free_.empty()) {
    i = free_.back();
    free_.pop_back();
    records_[i] = a;
  } else {
    i = static_cast<uint32_t>(records_.size());
    records_.push_back(a);
  }
  if (list >= lists_.size()) lists_.resize(std::max<size_t>(list + 1, lists_.size() + lists_.size() / 2));
  records_[i].list = list;
  Insert(i, &lists_[list]);
  records_[i].node_next = *node_head;
  *node_head = i;
  ++live_;
  return i;
}

// Moves i up past its parent `up`, which keeps the order.
void AccessIndex::RotateUp(uint32_t i, List* l) {
  Access& x = records_[i];
  const uint32_t p = x.up;
  Access& parent = records_[p];
  const uint32_t above = parent.up;
  if (parent.left == i) {
    parent.left = x.right;
    if (x.right != 0) records_[x.right].up = p;
    x.right = p;
  } else {
    parent.right = x.left;
    if (x.left != 0) records_[x.left].up = p;
    x.left = p;
  }
  parent.up = i;
  x.up = above;
  if (above == 0) {
    l->root = i;
  } else if (records_[above].left == p) {
    records_[above].left = i;
  } else {
    records_[above].right = i;
  }
}

void AccessIndex::Insert(uint32_t i, List* l) {
  ++steps_;
  Access& x = records_[i];
  x.left = x.right = x.up = 0;
  ++l->size;
  ++l->version;
  ++changes_;
  const uint32_t near = std::exchange(l->inserted, i);
  if (l->root == 0) {
    l->root = l->tail = i;
    return;
  }
  const auto hang = [&](uint32_t at, uint32_t& child) {
    child = i;
    x.up = at;
  };
  if (records_[l->tail].node == x.node || Before(records_[l->tail], x)) {
    hang(l->tail, records_[l->tail].right);
    l->tail = i;
  } else if (!InsertBeside(i, near)) {
    for (uint32_t at = l->root; x.up == 0;) {
      ++steps_;
      Access& y = records_[at];
      uint32_t& child = Before(x, y) ? y.left : y.right;
      if (child == 0) {
        hang(at, child);
      } else {
        at = child;
      }
    }
  }
  while (records_[i].up != 0 && Priority(records_[i].up) < Priority(i)) RotateUp(i, l);
}

// Passes go through the text from one end: most insert right before or right after the last insertion.
bool AccessIndex::InsertBeside(uint32_t i, uint32_t near) {
  Access& x = records_[i];
  if (near == 0) return false;
  uint32_t before = near, after = near;
  if (Before(x, records_[near])) {
    before = Prev(near);
    if (before != 0 && Before(x, records_[before])) return false;
  } else {
    after = Next(near);
    if (after != 0 && !Before(x, records_[after])) return false;
  }
  // One of two neighbours is below the other and has a free place on this side.
  if (before != 0 && records_[before].right == 0) {
    records_[before].right = i;
    x.up = before;
  } else {
    records_[after].left = i;
    x.up = after;
  }
  return true;
}

void AccessIndex::Unlink(uint32_t i) {
  List& l = lists_[records_[i].list];
  ++changes_;
  if (l.inserted == i) l.inserted = l.tail == i ? Prev(i) : Next(i);
  if (l.tail == i) l.tail = Prev(i);
  while (records_[i].left != 0 && records_[i].right != 0) {
    const uint32_t left = records_[i].left, right = records_[i].right;
    RotateUp(Priority(left) > Priority(right) ? left : right, &l);
  }
  const Access& x = records_[i];
  const uint32_t child = x.left != 0 ? x.left : x.right;
  if (child != 0) records_[child].up = x.up;
  if (x.up == 0) {
    l.root = child;
  } else if (records_[x.up].left == i) {
    records_[x.up].left = child;
  } else {
    records_[x.up].right = child;
  }
  --l.size;
  ++l.version;
}

uint32_t AccessIndex::Head(uint32_t list) const {
  uint32_t i = list < lists_.size() ? lists_[list].root : 0;
  while (i != 0 && records_[i].left != 0) i = records_[i].left;
  return i;
}

uint32_t AccessIndex::Next(uint32_t i) const {
  ++steps_;
  if (records_[i].right != 0) {
    for (i = records_[i].right; records_[i].left != 0;) i = records_[i].left;
    return i;
  }
  while (records_[i].up != 0 && records_[records_[i].up].right == i) i = records_[i].up;
  return records_[i].up;
}

uint32_t AccessIndex::Prev(uint32_t i) const {
  ++steps_;
  if (records_[i].left != 0) {
    for (i = records_[i].left; records_[i].right != 0;) i = records_[i].right;
    return i;
  }
  while (records_[i].up != 0 && records_[records_[i].up].left == i) i = records_[i].up;
  return records_[i].up;
}

uint32_t AccessIndex::FirstAfter(uint32_t list, NodeId n) const {
  uint32_t found = 0;
  for (uint32_t i = list < lists_.size() ? lists_[list].root : 0; i != 0;) {
    ++steps_;
    if (tree_.IsBefore(n, records_[i].node)) {
      found = i;
      i = records_[i].left;
    } else {
      i = records_[i].right;
    }
  }
  return found;
}

uint32_t AccessIndex::LastBefore(uint32_t list, NodeId n, uint32_t position) {
  if (list >= lists_.size()) return 0;
  List& l = lists_[list];
  Access end;
  end.node = n;
  end.position = position;
  if (l.found != 0 && l.found_version == l.version) {
    constexpr int kSteps = 4;
    uint32_t i = l.found;
    ++steps_;
    const bool before = Before(records_[i], end);
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t other = before ? Next(i) : Prev(i);
      const bool other_before = other != 0 && Before(records_[other], end);
      if (before && !other_before) return l.found = i;
      if (!before && other == 0) return 0;
      if (!before && other_before) return l.found = other;
      i = other;
    }
  }
  uint32_t found = 0;
  for (uint32_t i = l.root; i != 0;) {
    ++steps_;
    if (Before(records_[i], end)) {
      found = i;
      i = records_[i].right;
    } else {
      i = records_[i].left;
    }
  }
  l.found = found;
  l.found_version = l.version;
  return found;
}

void AccessIndex::RemoveNode(uint32_t* node_head) {
  for (uint32_t i = *node_head; i != 0;) {
    const uint32_t following = records_[i].node_next;
    Unlink(i);
    records_[i] = Access();
    free_.push_back(i);
    --live_;
    i = following;
  }
  *node_head = 0;
}

void AccessIndex::MoveNode(uint32_t node_head) {
  for (uint32_t i = node_head; i != 0; i = records_[i].node_next) Unlink(i);
  for (uint32_t i = node_head; i != 0; i = records_[i].node_next) {
    records_[i].position = 0;
    Insert(i, &lists_[records_[i].list]);
  }
}

void AccessIndex::MoveList(uint32_t from, uint32_t to) {
  if (from == to || from >= lists_.size() || lists_[from].root == 0) return;
  if (to >= lists_.size()) lists_.resize(to + 1);
  std::vector<uint32_t> moved;
  for (uint32_t i = Head(from); i != 0; i = Next(i)) moved.push_back(i);
  const uint32_t version = lists_[from].version + 1;
  lists_[from] = List();
  lists_[from].version = version;
  for (uint32_t i : moved) {
    records_[i].list = to;
    Insert(i, &lists_[to]);
  }
}

}  // namespace smelt::alias_internal
