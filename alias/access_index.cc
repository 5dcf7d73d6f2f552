#include "smelt/alias/access_index.h"

#include <algorithm>
#include <utility>

namespace smelt::alias_internal {

AccessIndex::List& AccessIndex::Of(uint32_t list) {
  std::vector<uint32_t>& all = (list & kSetList) != 0 ? set_list_at_ : list_at_;
  const uint32_t i = list & ~kSetList;
  if (i >= all.size()) all.resize(std::max<size_t>(i + 1, all.size() + all.size() / 2));
  uint32_t& at = all[i];
  if (at == 0) {
    at = static_cast<uint32_t>(lists_.size());
    lists_.emplace_back();
  }
  return lists_[at];
}

void AccessIndex::Trim() {
  constexpr size_t kSpare = 8;
  const auto trim = [](auto& v) {
    if (v.capacity() > v.size() + v.size() / kSpare) v.shrink_to_fit();
  };
  trim(records_);
  trim(list_at_);
  trim(set_list_at_);
  trim(lists_);
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
  records_[i].list = list;
  Insert(i, &Of(list));
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
  List& l = Of(records_[i].list);
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
  uint32_t i = Known(list).root;
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
  for (uint32_t i = Known(list).root; i != 0;) {
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
  if (Known(list).root == 0) return 0;
  List& l = Of(list);
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
    Insert(i, &Of(records_[i].list));
  }
}

void AccessIndex::MoveList(uint32_t from, uint32_t to) {
  if (from == to || Known(from).root == 0) return;
  std::vector<uint32_t> moved;
  for (uint32_t i = Head(from); i != 0; i = Next(i)) moved.push_back(i);
  List& emptied = Of(from);
  const uint32_t version = emptied.version + 1;
  emptied = List();
  emptied.version = version;
  List& l = Of(to);
  for (uint32_t i : moved) {
    records_[i].list = to;
    Insert(i, &l);
  }
}

}  // namespace smelt::alias_internal
