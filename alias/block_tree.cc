#include "smelt/alias/block_tree.h"

#include <algorithm>

#include "smelt/core/op/effects.h"

namespace smelt::alias_internal {

const BlockTree::Info& BlockTree::Of(BlockId b) const {
  const auto known = [&](BlockId x) {
    return x.index < info_.size() && info_[x.index].epoch == epoch_ && info_[x.index].generation == x.generation;
  };
  if (known(b)) return info_[b.index];
  if (info_.size() < g_.block_index_bound()) info_.resize(g_.block_index_bound());
  for (BlockId x = b;;) {
    ++steps_;
    todo_.push_back(x);
    const NodeId owner = g_.block(x).owner;
    if (!owner.valid()) break;
    x = g_.node(owner).parent;
    if (known(x)) break;
  }
  for (; !todo_.empty(); todo_.pop_back()) {
    const BlockId x = todo_.back();
    Info& i = info_[x.index];
    i = Info();
    i.epoch = epoch_;
    i.generation = x.generation;
    i.owner = g_.block(x).owner;
    if (!i.owner.valid()) {
      i.parent = i.jump = x;
      continue;
    }
    i.parent = g_.node(i.owner).parent;
    const Info& p = info_[i.parent.index];
    const Info& j = info_[p.jump.index];
    i.depth = p.depth + 1;
    i.jump = p.depth - j.depth == j.depth - info_[j.jump.index].depth ? j.jump : i.parent;
    const EffectKind kind = GetOpEffects(g_.node(i.owner).op).kind;
    i.in_loop_node = kind == EffectKind::kLoop || kind == EffectKind::kWhile;
    i.innermost = i.in_loop_node ? i.owner : p.innermost;
    i.outermost = p.outermost.valid() ? p.outermost : i.in_loop_node ? i.owner : NodeId();
  }
  return info_[b.index];
}

BlockId BlockTree::AncestorAt(BlockId b, uint32_t depth) const {
  for (const Info* i = &Of(b); i->depth > depth; i = &info_[b.index]) {
    ++steps_;
    b = info_[i->jump.index].depth >= depth ? i->jump : i->parent;
  }
  return b;
}

NodeId BlockTree::AncestorIn(BlockId b, NodeId n) const {
  const BlockId from = g_.node(n).parent;
  if (from == b) return n;
  const uint32_t depth_from = Of(from).depth, depth = Of(b).depth;
  if (depth_from <= depth) return NodeId();
  const Info& below = info_[AncestorAt(from, depth + 1).index];
  return below.parent == b ? below.owner : NodeId();
}

BlockTree::Common BlockTree::CommonOf(NodeId a, NodeId b) const {
  const BlockId x = g_.node(a).parent, y = g_.node(b).parent;
  if (x == y) return {a, b, BlockId(), BlockId()};
  const uint32_t depth_x = Of(x).depth, depth_y = Of(y).depth;
  BlockId p = AncestorAt(x, std::min(depth_x, depth_y)), q = AncestorAt(y, std::min(depth_x, depth_y));
  while (p != q) {
    ++steps_;
    const Info &i = info_[p.index], &j = info_[q.index];
    if (i.jump != j.jump) {
      p = i.jump;
      q = j.jump;
    } else {
      p = i.parent;
      q = j.parent;
    }
  }
  const uint32_t depth = info_[p.index].depth;
  Common out = {a, b, BlockId(), BlockId()};
  if (depth_x > depth) {
    out.below_a = AncestorAt(x, depth + 1);
    out.a = info_[out.below_a.index].owner;
  }
  if (depth_y > depth) {
    out.below_b = AncestorAt(y, depth + 1);
    out.b = info_[out.below_b.index].owner;
  }
  return out;
}

bool BlockTree::IsBefore(NodeId a, NodeId b) const {
  const Node &x = g_.node(a), &y = g_.node(b);
  if (x.parent == y.parent) return x.order < y.order;
  const Common c = CommonOf(a, b);
  if (c.a != c.b) return g_.node(c.a).order < g_.node(c.b).order;
  if (!c.below_a.valid()) return c.below_b.valid();
  if (!c.below_b.valid()) return false;
  for (BlockId block : g_.node(c.a).blocks) {
    if (block == c.below_a) return true;
    if (block == c.below_b) return false;
  }
  return false;
}

NodeId BlockTree::InnermostLoop(NodeId n) const { return Of(g_.node(n).parent).innermost; }

NodeId BlockTree::OutermostLoopAround(NodeId n) const { return Of(g_.node(n).parent).outermost; }

void BlockTree::OperatorChanged(NodeId n) {
  const Node& node = g_.node(n);
  if (node.blocks.empty()) return;
  const EffectKind kind = GetOpEffects(node.op).kind;
  if (Of(node.blocks[0]).in_loop_node != (kind == EffectKind::kLoop || kind == EffectKind::kWhile)) Forget();
}

}  // namespace smelt::alias_internal
