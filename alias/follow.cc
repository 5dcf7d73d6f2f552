// Follows the graph's edits: each edit notes what the next query has to solve again.
#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::MakeRef;
using alias_internal::SetPool;

namespace {

constexpr int64_t kPaidByEdit = 1;    // nodes of a rebuild
constexpr int64_t kStepsOfEdit = 64;  // for what it makes necessary

}  // namespace

void AliasDb::State::PaidByEdit() {
  ++edits;
  paid += kPaidByEdit;
  credit += kStepsOfEdit;
  cache_credit += kStepsOfEdit;
}

// A view may lie elsewhere in the same storage, and what says where (a list of sizes) may be, or no longer be, for
// certain: both without any other change.
void AliasDb::State::NoteGeometry(NodeId n) {
  if (GetOpEffects(g.node(n).op).pure) return;
  dirty = true;
  geometry_changed |= ChangesGeometry(n);
}

namespace {

bool AnyArgument(const OpEffects& op, uint16_t bits) {
  return (op.more_args & bits) != 0 ||
         std::any_of(op.args.begin(), op.args.end(), [&](uint16_t b) { return b & bits; });
}

}  // namespace

// Returns whether the geometry of other handles may depend on n, because n changes a geometry or a list that gives
// sizes.
bool AliasDb::State::ChangesGeometry(NodeId n) const {
  const OpEffects& op = GetOpEffects(g.node(n).op);
  switch (op.kind) {
    case EffectKind::kGeneric:
      return op.by != OpEffects::By::kNothing || AnyArgument(op, kWritesGeometry | kReshapesElements) ||
             ChangesNumbers(n);
    case EffectKind::kSetAttr:
    case EffectKind::kFork:
    case EffectKind::kWait:
    case EffectKind::kSubgraph:
    case EffectKind::kCall:
    case EffectKind::kUnknown:
      return true;
    default:
      return false;
  }
}

// Returns whether it changes a list that may hold sizes, not tensors.
bool AliasDb::State::ChangesNumbers(NodeId n) const {
  const Node& node = g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!(op.arg(i) & kWritesContainer)) continue;
    const Type& t = alias_internal::UnwrapOptional(g.value(node.inputs[i]).type);
    if (t.kind() != TypeKind::kDict && (t.kind() != TypeKind::kList || !IsAliasingType(t.element()))) return true;
  }
  return false;
}

// Returns whether n's arguments decide where its results lie. This is not so for a node that only writes its argument
// and returns it.
bool AliasDb::State::DecidesGeometry(NodeId n) const {
  const OpEffects& op = GetOpEffects(g.node(n).op);
  if (op.pure) return op.sizes_arg >= 0;
  if (op.kind != EffectKind::kGeneric || op.by != OpEffects::By::kNothing) return true;
  for (size_t k = 0; k < g.node(n).outputs.size(); ++k) {
    const ResultEffects& r = op.result(k);
    if (r.view != 0 || r.element_view != 0 || r.fresh || r.elements_view != 0 || r.elements_element_view != 0)
      return true;
  }
  return AnyArgument(op, kWritesGeometry | kReshapesElements) || ChangesNumbers(n);
}

// A group of operators whose results are new.
bool AliasDb::State::OnlyComputes(NodeId n) {
  const Node& node = g.node(n);
  if (GetOpEffects(node.op).kind != EffectKind::kSubgraph) return false;
  const Attribute* a = node.FindAttribute("Subgraph");
  const std::shared_ptr<Graph>* sub = a != nullptr ? std::get_if<std::shared_ptr<Graph>>(a) : nullptr;
  return sub != nullptr && *sub != nullptr && SummaryOf(**sub).pure;
}

// Returns whether the value may reach a back edge or a container. Only a few steps are followed.
bool AliasDb::State::FlowsOn(ValueId v) {
  constexpr size_t kSteps = 32;
  absl::InlinedVector<ValueId, 8> todo = {v};
  size_t seen = 0;
  while (!todo.empty()) {
    const ValueId x = todo.back();
    todo.pop_back();
    for (const Use& u : g.value(x).uses) {
      if (++seen > kSteps || g.IsReturn(u.user)) return true;
      const Node& node = g.node(u.user);
      const OpEffects& op = GetOpEffects(node.op);
      if (op.pure || op.kind == EffectKind::kScalar || OnlyComputes(u.user)) continue;
      if (op.kind != EffectKind::kGeneric || (op.arg(u.index) & (kStored | kStoresElements | kEscapes)) != 0)
        return true;
      for (ValueId out : node.outputs) {
        if (!IsAliasingType(g.value(out).type)) continue;
        if (IsContainerType(g.value(out).type)) return true;
        todo.push_back(out);
      }
    }
  }
  return false;
}

// n gets another value, or is another value: a back edge alone may now keep alive the values that came through it.
void AliasDb::State::ResolveFrom(NodeId n) {
  if (loops.IsEmpty() && moved_storage.empty()) return;
  if (g.IsReturn(n)) return ResolveAround(n);
  const Node& node = g.node(n);
  const OpEffects& op = GetOpEffects(node.op);
  if (OnlyComputes(n)) return;
  const bool stores = op.kind != EffectKind::kGeneric || (RecordOf(n).flags & NodeRecord::kStores) != 0 ||
                      AnyArgument(op, kWritesContainer);
  const auto flows = [&](ValueId v) {
    const SetId p = PointsTo(v);
    const bool own = p != 0 && op.pure && p == SetPool::Single(MakeRef(RecordOf(v).own));
    return IsAliasingType(g.value(v).type) && !own && FlowsOn(v);
  };
  if ((!op.pure && op.kind != EffectKind::kScalar && stores) ||
      std::any_of(node.outputs.begin(), node.outputs.end(), flows)) {
    ResolveAround(n);
  }
}

void AliasDb::State::ResolveUsers(ValueId v) {
  const NodeId outermost = OutermostLoop(g.value(v).def);
  for (const Use& u : g.value(v).uses) {
    ++steps;
    const NodeId loop = OutermostLoop(u.user);
    if (loop.valid() && loop != outermost) ResolveFrom(u.user);
  }
}

void AliasDb::OnNodeInserted(NodeId n) {
  State& s = *state_;
  State::NodeRecord& r = s.RecordOf(n);
  s.PaidByEdit();
  r.flags = State::NodeRecord::kEvaluated | State::NodeRecord::kQueued;
  s.queue.push_back(n);
  s.NoteGeometry(n);
}

void AliasDb::OnNodeErasing(NodeId n) {
  State& s = *state_;
  State::NodeRecord& r = s.RecordOf(n);
  s.PaidByEdit();
  s.stale |= (r.flags & (State::NodeRecord::kEscapes | State::NodeRecord::kMovesStorage)) != 0;
  if (r.flags & State::NodeRecord::kGeometry) {
    s.stale |= --s.geometry_writers == 0;
    s.dirty = s.geometry_changed = true;
  }
  s.NoteGeometry(n);
  s.Forget(n, r, true);
  r = State::NodeRecord();
  const Node& node = s.g.node(n);
  if (const Attribute* a = node.FindAttribute("Subgraph"); a != nullptr) {
    // Another graph may come to lie at the same address.
    if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(a)) s.summaries.erase(sub->get());
  }
  for (ValueId v : node.outputs) s.FreeOwn(v);
  s.loops.Forget(n);
}

namespace {

// Solves the loops around n, around the block that it has left, and in it again.
void ResolveMoved(AliasDb::State& s, NodeId n, BlockId old_parent) {
  const auto resolve = [&](NodeId loop) {
    if (!loop.valid()) return;
    s.resolve_loops.insert(loop.index);
    s.must_resolve.insert(loop.index);
  };
  if (s.g.IsLive(old_parent) && s.g.block(old_parent).owner.valid()) {
    resolve(s.OutermostLoop(s.g.block(old_parent).owner));
  }
  std::vector<NodeId> todo = {n};
  while (!todo.empty()) {
    const NodeId m = todo.back();
    todo.pop_back();
    ++s.steps;
    if (const NodeId loop = s.OutermostLoop(m); loop.valid()) {
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
  const bool takes_tensors = std::all_of(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId v) { return !(s.TypeOf(v) & State::kMayBeContainer); });
  if (State::NodeRecord& r = s.RecordOf(n); node.parent == old_parent && node.blocks.empty() &&
                                            GetOpEffects(node.op).pure && takes_tensors && r.first_write == 0) {
    s.ForgetPosition(n);
    s.reads.MoveNode(r.first_read);
    s.dirty = true;
    s.geometry_changed |= !s.geometry_changes.empty();
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
    s.Push(m);
    s.ForgetPosition(m);
    s.Forget(m, s.RecordOf(m), true);
    // A loop's number says which loops are around it.
    if (leaves_block) s.loops.Forget(m);
    for (BlockId b : s.g.node(m).blocks) {
      for (NodeId x = s.g.block(b).first; x.valid(); x = s.g.node(x).next) todo.push_back(x);
    }
  }
  if (!GetOpEffects(node.op).pure) s.stale |= !s.moved_storage.empty();
  if (leaves_block) {
    // The node moved into or out of a loop: holders of its allocations are evaluated again. Other loops than those
    // around its old and its new place, and those in it, see the same allocations inside and outside as before.
    for (ValueId v : node.outputs) s.PushUsers(v);
    ResolveMoved(s, n, old_parent);
    // Loops that got an earlier iteration's allocation from the loop that it left may go on handing it to themselves.
    s.stale |= !s.loops.IsEmpty();
    // How far a handle has moved depends on the loops around its allocation.
    if (!s.moved_storage.empty()) s.needs_rebuild = true;
  }
  s.dirty = s.geometry_changed = s.reach_changed = true;
}

void AliasDb::OnInputChanged(NodeId n, uint32_t index, ValueId old) {
  State& s = *state_;
  s.PaidByEdit();
  s.tree.OperatorChanged(n);
  s.Push(n, old.valid() && old != s.g.node(n).inputs[index] ? index : State::kAllParts);
  s.NoteGeometry(n);
  if (!s.g.IsReturn(n)) {
    // The numbers that place views may be computed, and so may sizes.
    const OpEffects& op = GetOpEffects(s.g.node(n).op);
    const bool decides = op.kind == EffectKind::kScalar || s.DecidesGeometry(n);
    s.dirty |= decides;
    s.geometry_changed |= decides;
  }
  if (!s.g.IsReturn(n)) s.RecordOf(n).flags |= State::NodeRecord::kInputsChanged;
  // The values that the old input brought may go around a loop by themselves.
  if (old.valid()) s.ResolveFrom(n);
}

void AliasDb::OnInputRemoved(NodeId n, uint32_t, ValueId) {
  ++state_->edits;
  state_->Push(n);
  state_->NoteGeometry(n);
  state_->ResolveAround(n);
  state_->dirty = state_->geometry_changed = state_->reach_changed = true;
}

void AliasDb::OnOutputAdded(NodeId n, uint32_t index) {
  State& s = *state_;
  ++s.edits;
  if (s.g.IsParam(n)) {
    const BlockId b = s.g.node(n).parent;
    if (b == s.g.top()) {
      s.EvaluateInputs(index);
      s.dirty = s.reach_changed = true;
    } else {
      s.Push(s.g.block(b).owner);
    }
    return;
  }
  s.Push(n);
}

void AliasDb::OnOutputErasing(NodeId n, uint32_t index) {
  State& s = *state_;
  ++s.edits;
  s.FreeOwn(s.g.node(n).outputs[index]);
  if (!s.g.IsParam(n)) s.Push(n);
  s.dirty = s.geometry_changed = s.reach_changed = true;
}

void AliasDb::OnBlockAdded(NodeId n, BlockId b) {
  ++state_->edits;
  state_->Push(n);
}

void AliasDb::OnTypeChanged(ValueId v) {
  State& s = *state_;
  s.dirty = s.geometry_changed = s.reach_changed = true;
  s.PaidByEdit();
  s.stale |= !s.moved_storage.empty();
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
  s.dirty = s.geometry_changed = s.reach_changed = true;
  s.PaidByEdit();
  s.stale |= !s.moved_storage.empty();
  s.Push(n);
  s.summaries.clear();
  // A constant's value decides what its users do.
  for (ValueId v : s.g.node(n).outputs) s.PushUsers(v);
}

}  // namespace smelt
