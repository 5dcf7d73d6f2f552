#include "smelt/alias/loop_table.h"

#include <algorithm>

#include "smelt/core/base/check.h"

namespace smelt::alias_internal {

void LoopTable::Clear() {
  loops_.assign(1, Loop());
  of_node_.clear();
  carried_.clear();
}

absl::Span<SetId> LoopTable::CarriedBy(uint32_t loop, size_t size) {
  Loop& l = loops_[loop];
  if (l.num_carried < size) {
    // It gets another place behind all others. Loops rarely come to carry more.
    const size_t begin = carried_.size();
    SMELT_CHECK(begin + size < UINT32_MAX) << "the loops carry too many values";
    carried_.resize(begin + size);
    std::copy_n(carried_.begin() + l.first_carried, l.num_carried, carried_.begin() + begin);
    std::fill_n(carried_.begin() + l.first_carried, l.num_carried, 0);
    l.first_carried = static_cast<uint32_t>(begin);
    l.num_carried = static_cast<uint32_t>(size);
  }
  return absl::MakeSpan(carried_).subspan(l.first_carried, size);
}

uint32_t LoopTable::KnownIndexOf(NodeId loop_node) const {
  if (loop_node.index >= of_node_.size()) return 0;
  const uint32_t l = of_node_[loop_node.index];
  return loops_[l].node == loop_node ? l : 0;
}

const Loop& LoopTable::AtNode(uint32_t node_index) const {
  return loops_[node_index < of_node_.size() ? of_node_[node_index] : 0];
}

void LoopTable::Forget(NodeId n) {
  if (n.index < of_node_.size()) of_node_[n.index] = 0;
}

uint32_t LoopTable::IndexOf(NodeId loop_node) {
  if (const uint32_t known = KnownIndexOf(loop_node); known != 0) return known;
  // From the outside in, without recursion.
  std::vector<NodeId> todo = {loop_node};
  for (NodeId n = tree_.InnermostLoop(loop_node); n.valid() && KnownIndexOf(n) == 0; n = tree_.InnermostLoop(n)) {
    todo.push_back(n);
  }
  uint32_t l = 0;
  for (; !todo.empty(); todo.pop_back()) {
    const NodeId n = todo.back();
    const NodeId around = tree_.InnermostLoop(n);
    const uint32_t parent = around.valid() ? KnownIndexOf(around) : 0;
    if (n.index >= of_node_.size()) of_node_.resize(std::max<size_t>(n.index + 1, g_.node_index_bound()));
    l = static_cast<uint32_t>(loops_.size());
    of_node_[n.index] = l;
    const uint32_t jump = loops_[parent].jump, further = loops_[jump].jump;
    const bool even = loops_[parent].depth - loops_[jump].depth == loops_[jump].depth - loops_[further].depth;
    const uint32_t top = parent == 0 ? l : loops_[parent].top;
    loops_.push_back({n, parent, even ? further : parent, top, loops_[parent].depth + 1, 0, 0, 0});
  }
  return l;
}

uint32_t LoopTable::Around(NodeId n) {
  const NodeId loop = tree_.InnermostLoop(n);
  return loop.valid() ? IndexOf(loop) : 0;
}

uint32_t LoopTable::CommonOf(NodeId a, NodeId b) {
  const BlockTree::Common c = tree_.CommonOf(a, b);
  if (c.a == c.b) {
    // A loop's own node counts as inside it.
    if (const uint32_t loop = KnownIndexOf(c.a); loop != 0) return loop;
  }
  return Around(c.a);
}

NodeId LoopTable::OutermostOf(NodeId n) const {
  const NodeId around = tree_.OutermostLoopAround(n);
  return around.valid() ? around : IsLoopKind(GetOpEffects(g_.node(n).op).kind) ? n : NodeId();
}

bool LoopTable::IsWithin(uint32_t inner, uint32_t outer) const {
  const uint32_t depth = loops_[outer].depth;
  while (loops_[inner].depth > depth) {
    inner = loops_[loops_[inner].jump].depth >= depth ? loops_[inner].jump : loops_[inner].parent;
  }
  return inner == outer;
}

LoopTable::Range LoopTable::Between(uint32_t loop, uint32_t holder_loop) const {
  const auto between = [&](uint32_t l) { return l != 0 && !IsWithin(holder_loop, l); };
  if (!between(loop)) return {};
  uint32_t outer = loop;
  for (;;) {
    if (between(loops_[outer].jump)) {
      outer = loops_[outer].jump;
    } else if (between(loops_[outer].parent)) {
      outer = loops_[outer].parent;
    } else {
      return {loop, outer};
    }
  }
}

int64_t LoopTable::bytes() const {
  return static_cast<int64_t>(loops_.capacity() * sizeof(Loop) + of_node_.capacity() * sizeof(uint32_t) +
                              carried_.capacity() * sizeof(SetId));
}

}  // namespace smelt::alias_internal
