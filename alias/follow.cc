// Following the graph's edits: each notes what the next query has to solve again.
#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt {

// A view may lie elsewhere in the same storage, and what says where (a list of sizes) may be, or no longer be, for
// certain: both without any other change.
void AliasDb::State::NoteGeometry(NodeId n) { dirty |= !GetOpEffects(g.node(n).op).pure; }

void AliasDb::OnNodeInserted(NodeId n) {
  State& s = *state_;
  State::NodeRecord& r = s.RecordOf(n);
  r.flags = State::NodeRecord::kEvaluated | State::NodeRecord::kQueued;
  s.queue.push_back(n);
  s.NoteGeometry(n);
}

void AliasDb::OnNodeErasing(NodeId n) {
  State& s = *state_;
  State::NodeRecord& r = s.RecordOf(n);
  if (r.flags & (State::NodeRecord::kEscapes | State::NodeRecord::kMovesStorage)) s.needs_rebuild = true;
  if (r.flags & State::NodeRecord::kGeometry) {
    if (--s.geometry_writers == 0) s.needs_rebuild = true;
    s.dirty = true;
  }
  s.NoteGeometry(n);
  s.Forget(n, r, true);
  r = State::NodeRecord();
  const Node& node = s.g.node(n);
  if (const Attribute* a = node.FindAttribute("Subgraph"); a != nullptr) {
    // Another graph may come to lie where this one does.
    if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(a)) s.summaries.erase(sub->get());
  }
  for (ValueId v : node.outputs) s.FreeOwn(v);
  if (n.index < s.loop_of_node.size()) s.loop_of_node[n.index] = 0;
}

void AliasDb::OnNodeMoved(NodeId n, BlockId old_parent) {
  State& s = *state_;
  const Node& node = s.g.node(n);
  // What only reads tensors and makes new ones does so anywhere in its block.
  const bool takes_tensors = std::all_of(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId v) { return !(s.TypeOf(v) & State::kMayBeContainer); });
  if (State::NodeRecord& r = s.RecordOf(n); node.parent == old_parent && node.blocks.empty() &&
                                            GetOpEffects(node.op).pure && takes_tensors && r.first_write == 0) {
    s.ForgetPosition(n);
    s.reads.MoveNode(r.first_read);
    s.dirty = true;
    return;
  }
  // What stores or reads contents depends on the order; what is allocated, on the loops around. The nodes inside move
  // along. Their accesses leave the lists, which are in program order, at once.
  std::vector<NodeId> todo = {n};
  while (!todo.empty()) {
    const NodeId m = todo.back();
    todo.pop_back();
    s.Push(m);
    s.ForgetPosition(m);
    s.Forget(m, s.RecordOf(m), true);
    for (BlockId b : s.g.node(m).blocks) {
      for (NodeId x = s.g.block(b).first; x.valid(); x = s.g.node(x).next) todo.push_back(x);
    }
  }
  if (node.parent != old_parent && !node.blocks.empty()) s.needs_rebuild = true;
  if (!GetOpEffects(node.op).pure) s.needs_rebuild |= !s.moved_storage.empty();
  if (node.parent != old_parent) {
    // Into or out of a loop: who holds what it allocates asks again.
    for (ValueId v : node.outputs) s.PushUsers(v);
    if (s.OutermostLoop(n).valid()) s.resolve_loops.insert(s.OutermostLoop(n).index);
    if (s.g.IsLive(old_parent) && s.g.block(old_parent).owner.valid()) {
      if (NodeId loop = s.OutermostLoop(s.g.block(old_parent).owner); loop.valid()) {
        s.resolve_loops.insert(loop.index);
        s.needs_rebuild = true;
      }
    }
  }
  s.dirty = true;
}

void AliasDb::OnInputChanged(NodeId n, uint32_t, ValueId old) {
  State& s = *state_;
  s.Push(n);
  s.NoteGeometry(n);
  if (!s.g.IsReturn(n)) {
    // What says where views lie may be computed, and so may sizes.
    const OpEffects& op = GetOpEffects(s.g.node(n).op);
    s.dirty |= op.kind == EffectKind::kScalar || op.sizes_arg >= 0;
  }
  if (!s.g.IsReturn(n)) s.RecordOf(n).flags |= State::NodeRecord::kInputsChanged;
  // What the old input brought may go around a loop by itself.
  if (old.valid() && (s.g.IsReturn(n) || !GetOpEffects(s.g.node(n).op).pure)) s.ResolveAround(n);
}

void AliasDb::OnInputRemoved(NodeId n, uint32_t, ValueId) {
  state_->Push(n);
  state_->NoteGeometry(n);
  state_->ResolveAround(n);
  if (state_->g.IsReturn(n)) state_->dirty = true;
}

void AliasDb::OnOutputAdded(NodeId n, uint32_t index) {
  State& s = *state_;
  if (s.g.IsParam(n)) {
    const BlockId b = s.g.node(n).parent;
    if (b == s.g.top()) {
      s.EvaluateInputs();
      s.dirty = true;
    } else {
      s.Push(s.g.block(b).owner);
    }
    return;
  }
  s.Push(n);
}

void AliasDb::OnOutputErasing(NodeId n, uint32_t index) {
  State& s = *state_;
  s.FreeOwn(s.g.node(n).outputs[index]);
  if (!s.g.IsParam(n)) s.Push(n);
  s.dirty = true;
}

void AliasDb::OnBlockAdded(NodeId n, BlockId b) { state_->Push(n); }

void AliasDb::OnTypeChanged(ValueId v) {
  State& s = *state_;
  s.dirty = true;
  s.needs_rebuild |= !s.moved_storage.empty();
  State::ValueRecord& r = s.RecordOf(v);
  r.type = 0;
  if (r.own != 0) s.objects[r.own].empty = State::Object::Empty::kNotAsked;
  const NodeId def = s.g.value(v).def;
  if (s.g.IsParam(def)) {
    if (s.g.node(def).parent == s.g.top()) {
      s.needs_rebuild = true;
    } else {
      s.Push(s.g.block(s.g.node(def).parent).owner);
    }
  } else {
    s.Push(def);
  }
  // Types of arguments decide what reshape, to and others do.
  s.PushUsers(v);
}

void AliasDb::OnAttributeChanged(NodeId n, absl::string_view) {
  State& s = *state_;
  if (s.g.IsParam(n) || s.g.IsReturn(n)) return;
  s.dirty = true;
  s.needs_rebuild |= !s.moved_storage.empty();
  s.Push(n);
  s.summaries.clear();
  // A constant's value decides what its users do.
  for (ValueId v : s.g.node(n).outputs) s.PushUsers(v);
}

}  // namespace smelt
