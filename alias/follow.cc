// Follows the graph's edits: each edit notes what the next query has to solve again.
#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::MakeRef;
using alias_internal::SetPool;

void AliasDb::OnNodeInserted(NodeId n) {
  State& s = *state_;
  alias_internal::NodeRecord& r = s.records.RecordOf(n);
  s.PaidByEdit();
  r.flags = alias_internal::NodeRecord::kEvaluated | alias_internal::NodeRecord::kQueued;
  s.work.queue.push_back(n);
  s.reshapes.NoteGeometry(n);
}

void AliasDb::OnNodeErasing(NodeId n) {
  State& s = *state_;
  alias_internal::NodeRecord& r = s.records.RecordOf(n);
  s.PaidByEdit();
  s.budget.stale |= (r.flags & (alias_internal::NodeRecord::kEscapes | alias_internal::NodeRecord::kMovesStorage)) != 0;
  if (r.flags & alias_internal::NodeRecord::kGeometry) {
    s.budget.stale |= --s.reshapes.geometry_writers == 0;
    s.changes.dirty = s.changes.geometry = true;
  }
  s.reshapes.NoteGeometry(n);
  s.solver.Forget(n, r, true);
  r = alias_internal::NodeRecord();
  const Node& node = s.g.node(n);
  if (const Attribute* a = node.FindAttribute("Subgraph"); a != nullptr) {
    // Another graph may come to lie at the same address.
    if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(a)) s.effects.summaries.erase(sub->get());
  }
  for (ValueId v : node.outputs) s.memory.FreeOwn(v);
  s.loops.Forget(n);
}

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

void AliasDb::OnNodeMoved(NodeId n, BlockId old_parent) {
  State& s = *state_;
  const Node& node = s.g.node(n);
  s.PaidByEdit();
  if (node.parent != old_parent && !node.blocks.empty()) s.tree.Forget();
  // A node that only reads tensors and makes new ones does so anywhere in its block.
  const bool takes_tensors = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    return !(s.records.TypeOf(v) & alias_internal::kMayBeContainer);
  });
  if (alias_internal::NodeRecord& r = s.records.RecordOf(n); node.parent == old_parent && node.blocks.empty() &&
                                                             GetOpEffects(node.op).pure && takes_tensors &&
                                                             r.first_write == 0) {
    s.records.ForgetPosition(n);
    s.accesses.reads.MoveNode(r.first_read);
    s.changes.dirty = true;
    s.changes.geometry |= !s.reshapes.geometry_changes.empty();
    return;
  }
  // Stores and reads of contents depend on the order, and allocations on the loops around. The nodes inside move along.
  // Their accesses leave the lists, which are in program order, at once.
  const bool leaves_block = node.parent != old_parent;
  std::vector<NodeId> todo = {n};
  while (!todo.empty()) {
    const NodeId m = todo.back();
    todo.pop_back();
    ++s.steps;
    s.work.Push(m);
    s.records.ForgetPosition(m);
    s.solver.Forget(m, s.records.RecordOf(m), true);
    // A loop's number says which loops are around it.
    if (leaves_block) s.loops.Forget(m);
    for (BlockId b : s.g.node(m).blocks) {
      for (NodeId x = s.g.block(b).first; x.valid(); x = s.g.node(x).next) todo.push_back(x);
    }
  }
  if (!GetOpEffects(node.op).pure) s.budget.stale |= !s.memory.moved_storage.empty();
  if (leaves_block) {
    // The node moved into or out of a loop: holders of its allocations are evaluated again. Other loops than those
    // around its old and its new place, and those in it, see the same allocations inside and outside as before.
    for (ValueId v : node.outputs) s.work.PushUsers(v);
    ResolveMoved(s, n, old_parent);
    // Loops that got an earlier iteration's allocation from the loop that it left may go on handing it to themselves.
    s.budget.stale |= !s.loops.IsEmpty();
    // How far a handle has moved depends on the loops around its allocation.
    if (!s.memory.moved_storage.empty()) s.solver.needs_rebuild = true;
  }
  s.changes.dirty = s.changes.geometry = s.changes.reach = true;
}

void AliasDb::OnInputChanged(NodeId n, uint32_t index, ValueId old) {
  State& s = *state_;
  s.PaidByEdit();
  s.tree.OperatorChanged(n);
  s.work.Push(n, old.valid() && old != s.g.node(n).inputs[index] ? index : alias_internal::kAllParts);
  s.reshapes.NoteGeometry(n);
  if (!s.g.IsReturn(n)) {
    // The numbers that place views may be computed, and so may sizes.
    const OpEffects& op = GetOpEffects(s.g.node(n).op);
    const bool decides = op.kind == EffectKind::kScalar || s.reshapes.DecidesGeometry(n);
    s.changes.dirty |= decides;
    s.changes.geometry |= decides;
  }
  if (!s.g.IsReturn(n)) s.records.RecordOf(n).flags |= alias_internal::NodeRecord::kInputsChanged;
  // The values that the old input brought may go around a loop by themselves.
  if (old.valid()) s.work.ResolveFrom(n);
}

void AliasDb::OnInputRemoved(NodeId n, uint32_t, ValueId) {
  ++state_->changes.edits;
  state_->work.Push(n);
  state_->reshapes.NoteGeometry(n);
  state_->work.ResolveAround(n);
  state_->changes.dirty = state_->changes.geometry = state_->changes.reach = true;
}

void AliasDb::OnOutputAdded(NodeId n, uint32_t index) {
  State& s = *state_;
  ++s.changes.edits;
  if (s.g.IsParam(n)) {
    const BlockId b = s.g.node(n).parent;
    if (b == s.g.top()) {
      s.evaluator.EvaluateInputs(index);
      s.changes.dirty = s.changes.reach = true;
    } else {
      s.work.Push(s.g.block(b).owner);
    }
    return;
  }
  s.work.Push(n);
}

void AliasDb::OnOutputErasing(NodeId n, uint32_t index) {
  State& s = *state_;
  ++s.changes.edits;
  s.memory.FreeOwn(s.g.node(n).outputs[index]);
  if (!s.g.IsParam(n)) s.work.Push(n);
  s.changes.dirty = s.changes.geometry = s.changes.reach = true;
}

void AliasDb::OnBlockAdded(NodeId n, BlockId b) {
  ++state_->changes.edits;
  state_->work.Push(n);
}

void AliasDb::OnTypeChanged(ValueId v) {
  State& s = *state_;
  s.changes.dirty = s.changes.geometry = s.changes.reach = true;
  s.PaidByEdit();
  s.budget.stale |= !s.memory.moved_storage.empty();
  alias_internal::ValueRecord& r = s.records.RecordOf(v);
  r.type = 0;
  if (r.own != 0) s.objects[r.own].empty = alias_internal::Object::Empty::kNotAsked;
  const NodeId def = s.g.value(v).def;
  if (s.g.IsParam(def)) {
    if (s.g.node(def).parent == s.g.top()) {
      s.solver.needs_rebuild = true;
    } else {
      s.work.Push(s.g.block(s.g.node(def).parent).owner);
    }
  } else {
    s.work.Push(def);
  }
  // Types of arguments decide what reshape, to and others do.
  s.work.PushUsers(v);
}

void AliasDb::OnAttributeChanged(NodeId n, absl::string_view) {
  State& s = *state_;
  if (s.g.IsParam(n) || s.g.IsReturn(n)) return;
  s.changes.dirty = s.changes.geometry = s.changes.reach = true;
  s.PaidByEdit();
  s.budget.stale |= !s.memory.moved_storage.empty();
  s.work.Push(n);
  s.effects.summaries.clear();
  // A constant's value decides what its users do.
  for (ValueId v : s.g.node(n).outputs) s.work.PushUsers(v);
}

}  // namespace smelt
