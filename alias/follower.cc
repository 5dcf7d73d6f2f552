#include "smelt/alias/follower.h"

#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

// Solves the loops around n, around the block that it has left, and in it again.
void ResolveMoved(AliasDb::State& s, NodeId n, BlockId old_parent) {
  const auto resolve = [&](NodeId loop) {
    if (!loop.valid()) return;
    s.work.resolve_loops.insert(loop.index);
    s.work.must_resolve.insert(loop.index);
  };
  if (s.g.IsLive(old_parent) && s.g.block(old_parent).owner.valid()) {
    resolve(s.work.OutermostLoop(s.g.block(old_parent).owner));
  }
  std::vector<NodeId> todo = {n};
  while (!todo.empty()) {
    const NodeId m = todo.back();
    todo.pop_back();
    ++s.steps;
    if (const NodeId loop = s.work.OutermostLoop(m); loop.valid()) {
      resolve(loop);
      continue;
    }
    for (BlockId b : s.g.node(m).blocks) {
      for (NodeId x = s.g.block(b).first; x.valid(); x = s.g.node(x).next) todo.push_back(x);
    }
  }
}

}  // namespace

void Follower::NodeInserted(NodeId n) {
  NodeRecord& r = s_.records.RecordOf(n);
  s_.PaidByEdit();
  r.flags = NodeRecord::kEvaluated | NodeRecord::kQueued;
  s_.work.queue.push_back(n);
  s_.reshapes.NoteGeometry(n);
}

void Follower::NodeErasing(NodeId n) {
  NodeRecord& r = s_.records.RecordOf(n);
  s_.PaidByEdit();
  s_.budget.stale |= (r.flags & (NodeRecord::kEscapes | NodeRecord::kMovesStorage)) != 0;
  if (r.flags & NodeRecord::kGeometry) {
    s_.budget.stale |= --s_.reshapes.geometry_writers == 0;
    s_.changes.dirty = s_.changes.geometry = true;
  }
  s_.reshapes.NoteGeometry(n);
  s_.solver.Forget(n, r, true);
  r = NodeRecord();
  const Node& node = s_.g.node(n);
  if (const Attribute* a = node.FindAttribute("Subgraph"); a != nullptr) {
    // Another graph may come to lie at the same address.
    if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(a)) s_.effects.summaries.erase(sub->get());
  }
  for (ValueId v : node.outputs) s_.memory.FreeOwn(v);
  s_.loops.Forget(n);
}

void Follower::NodeMoved(NodeId n, BlockId old_parent) {
  const Node& node = s_.g.node(n);
  s_.PaidByEdit();
  if (node.parent != old_parent && !node.blocks.empty()) s_.tree.Forget();
  // A node that only reads tensors and makes new ones does so anywhere in its block.
  const bool takes_tensors = std::all_of(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId v) { return !(s_.records.TypeOf(v) & kMayBeContainer); });
  if (NodeRecord& r = s_.records.RecordOf(n); node.parent == old_parent && node.blocks.empty() &&
                                              GetOpEffects(node.op).pure && takes_tensors && r.first_write == 0) {
    s_.records.ForgetPosition(n);
    s_.accesses.reads.MoveNode(r.first_read);
    s_.changes.dirty = true;
    s_.changes.geometry |= !s_.reshapes.geometry_changes.empty();
    return;
  }
  // Stores and reads of contents depend on the order, and allocations on the loops around. The nodes inside move along.
  // Their accesses leave the lists, which are in program order, at once.
  const bool leaves_block = node.parent != old_parent;
  std::vector<NodeId> todo = {n};
  while (!todo.empty()) {
    const NodeId m = todo.back();
    todo.pop_back();
    ++s_.steps;
    s_.work.Push(m);
    s_.records.ForgetPosition(m);
    s_.solver.Forget(m, s_.records.RecordOf(m), true);
    // A loop's number says which loops are around it.
    if (leaves_block) s_.loops.Forget(m);
    for (BlockId b : s_.g.node(m).blocks) {
      for (NodeId x = s_.g.block(b).first; x.valid(); x = s_.g.node(x).next) todo.push_back(x);
    }
  }
  if (!GetOpEffects(node.op).pure) s_.budget.stale |= !s_.memory.moved_storage.empty();
  if (leaves_block) {
    // The node moved into or out of a loop: holders of its allocations are evaluated again. Other loops than those
    // around its old and its new place, and those in it, see the same allocations inside and outside as before.
    for (ValueId v : node.outputs) s_.work.PushUsers(v);
    ResolveMoved(s_, n, old_parent);
    // Loops that got an earlier iteration's allocation from the loop that it left may go on handing it to themselves.
    s_.budget.stale |= !s_.loops.IsEmpty();
    // How far a handle has moved depends on the loops around its allocation.
    if (!s_.memory.moved_storage.empty()) s_.solver.needs_rebuild = true;
  }
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
}

void Follower::InputChanged(NodeId n, uint32_t index, ValueId old) {
  s_.PaidByEdit();
  s_.tree.OperatorChanged(n);
  s_.work.Push(n, old.valid() && old != s_.g.node(n).inputs[index] ? index : kAllParts);
  s_.reshapes.NoteGeometry(n);
  if (!s_.g.IsReturn(n)) {
    // The numbers that place views may be computed, and so may sizes.
    const OpEffects& op = GetOpEffects(s_.g.node(n).op);
    const bool decides = op.kind == EffectKind::kScalar || s_.reshapes.DecidesGeometry(n);
    s_.changes.dirty |= decides;
    s_.changes.geometry |= decides;
  }
  if (!s_.g.IsReturn(n)) s_.records.RecordOf(n).flags |= NodeRecord::kInputsChanged;
  // The values that the old input brought may go around a loop by themselves.
  if (old.valid()) s_.work.ResolveFrom(n);
}

void Follower::InputRemoved(NodeId n) {
  ++s_.changes.edits;
  s_.work.Push(n);
  s_.reshapes.NoteGeometry(n);
  s_.work.ResolveAround(n);
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
}

void Follower::OutputAdded(NodeId n, uint32_t index) {
  ++s_.changes.edits;
  if (s_.g.IsParam(n)) {
    const BlockId b = s_.g.node(n).parent;
    if (b == s_.g.top()) {
      s_.evaluator.EvaluateInputs(index);
      s_.changes.dirty = s_.changes.reach = true;
    } else {
      s_.work.Push(s_.g.block(b).owner);
    }
    return;
  }
  s_.work.Push(n);
}

void Follower::OutputErasing(NodeId n, uint32_t index) {
  ++s_.changes.edits;
  s_.memory.FreeOwn(s_.g.node(n).outputs[index]);
  if (!s_.g.IsParam(n)) s_.work.Push(n);
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
}

void Follower::BlockAdded(NodeId n) {
  ++s_.changes.edits;
  s_.work.Push(n);
}

void Follower::TypeChanged(ValueId v) {
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
  s_.PaidByEdit();
  s_.budget.stale |= !s_.memory.moved_storage.empty();
  ValueRecord& r = s_.records.RecordOf(v);
  r.type = 0;
  if (r.own != 0) s_.objects[r.own].empty = Object::Empty::kNotAsked;
  const NodeId def = s_.g.value(v).def;
  if (s_.g.IsParam(def)) {
    if (s_.g.node(def).parent == s_.g.top()) {
      s_.solver.needs_rebuild = true;
    } else {
      s_.work.Push(s_.g.block(s_.g.node(def).parent).owner);
    }
  } else {
    s_.work.Push(def);
  }
  // Types of arguments decide what reshape, to and others do.
  s_.work.PushUsers(v);
}

void Follower::AttributeChanged(NodeId n) {
  if (s_.g.IsParam(n) || s_.g.IsReturn(n)) return;
  s_.changes.dirty = s_.changes.geometry = s_.changes.reach = true;
  s_.PaidByEdit();
  s_.budget.stale |= !s_.memory.moved_storage.empty();
  s_.work.Push(n);
  s_.effects.summaries.clear();
  // A constant's value decides what its users do.
  for (ValueId v : s_.g.node(n).outputs) s_.work.PushUsers(v);
}

}  // namespace smelt::alias_internal
