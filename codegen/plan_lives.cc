#include "smelt/codegen/plan_lives.h"

#include <algorithm>

#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"

namespace smelt {

Lives::Lives(const Graph& g) : g_(g) {
  Number(g.top());
  ComputeLastUses(g.top());
  for (ValueId v : g.outputs()) Use(v, kForever);  // what ends a call reads them
}

void Lives::Number(BlockId b) {
  for (NodeId n : g_.Nodes(b)) {
    begin_[n] = ++next_position_;
    for (BlockId inner : g_.node(n).blocks) {
      ++next_position_;  // parameters
      block_begin_[inner] = next_position_;
      Number(inner);
      block_end_[inner] = ++next_position_;  // results
    }
    end_[n] = ++next_position_;
  }
}

// A value that is defined outside a loop and used inside it lives to the loop's end.
void Lives::Use(ValueId v, int position) {
  const ValueId r = StorageOf(g_, v);
  if (!g_.value(r).type.IsTensor()) {
    if (g_.value(r).type.kind() != TypeKind::kList) return;
    if (auto elements = GetListElements(g_, r)) {
      for (ValueId e : *elements) Use(e, position);
    }
    return;
  }
  for (auto it = loops_.rbegin(); it != loops_.rend(); ++it) {
    const NodeId loop = *it;
    const NodeId def = g_.value(r).def;
    const int made =
        g_.IsParam(def) ? (g_.node(def).parent == g_.top() ? 0 : block_begin_.at(g_.node(def).parent)) : begin_.at(def);
    if (made < begin_.at(loop)) position = std::max(position, end_.at(loop));
  }
  int& last = last_use_.try_emplace(r, 0).first->second;
  last = std::max(last, position);
}

void Lives::ComputeLastUses(BlockId b) {
  for (NodeId n : g_.Nodes(b)) {
    const Node& node = g_.node(n);
    if (node.op == op::kSmeltView || node.op == op::kPrimListConstruct) continue;
    const bool loop = node.op == op::kSmeltWhileLoop || node.op == op::kPrimLoop;
    for (ValueId v : node.inputs) Use(v, begin_.at(n));
    if (loop) loops_.push_back(n);
    for (BlockId inner : node.blocks) {
      ComputeLastUses(inner);
      for (ValueId v : g_.results(inner)) Use(v, block_end_.at(inner));
    }
    if (loop) loops_.pop_back();
  }
}

int Lives::LastUse(ValueId root) const {
  auto it = last_use_.find(root);
  return it == last_use_.end() ? 0 : it->second;
}

}  // namespace smelt
