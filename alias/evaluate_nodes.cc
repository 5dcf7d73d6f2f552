// One method for each kind of node: what its results point to, what it reads and writes, what it stores.
#include <algorithm>

#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt {

using alias_internal::Contents;
using alias_internal::kAnySlot;
using alias_internal::kAsync;
using alias_internal::kGeometryRead;
using alias_internal::kRead;
using alias_internal::MakeRef;
using alias_internal::MayBeContainer;
using alias_internal::MayBeTensor;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::Store;
using alias_internal::UnwrapOptional;

void AliasDb::State::EvaluateKind(NodeId n, const Node& node, const OpEffects& op, bool first, bool inputs_changed) {
  if (op.pure) return EvaluatePure(n, node, op, first);
  switch (op.kind) {
    case EffectKind::kConstant:
      return EvaluateConstant(n, node, first);
    case EffectKind::kIf:
    case EffectKind::kCond:
      return EvaluateIf(n, node, op.kind == EffectKind::kCond, first);
    case EffectKind::kLoop:
    case EffectKind::kWhile:
      return EvaluateLoop(n, node, op.kind == EffectKind::kWhile, first);
    case EffectKind::kTupleConstruct:
    case EffectKind::kListConstruct:
    case EffectKind::kDictConstruct:
    case EffectKind::kTupleSlice:
    case EffectKind::kCreateObject:
      return EvaluateConstruct(n, node, first, inputs_changed);
    case EffectKind::kTupleUnpack:
    case EffectKind::kListUnpack:
    case EffectKind::kTupleIndex:
    case EffectKind::kGetAttr:
      return EvaluateElements(n, node, op, first);
    case EffectKind::kConstantChunk:
      return EvaluateConstantChunk(n, node, op, first);
    case EffectKind::kWait:
      return EvaluateWait(n, node, op, first);
    case EffectKind::kFork:
      return EvaluateFork(n, node, first, inputs_changed);
    case EffectKind::kSetAttr:
      AddAccesses(n, node.inputs, op, 0);
      return AddStores(n, node, op);
    case EffectKind::kSubgraph:
      return EvaluateGeneric(n, node, EffectsOf(node), first, inputs_changed);
    default:
      if (op.by == OpEffects::By::kNothing) return EvaluateGeneric(n, node, op, first, inputs_changed);
      return EvaluateGeneric(n, node, EffectsOf(node), first, inputs_changed);
  }
}

// The fast path: new memory, reads only.
void AliasDb::State::EvaluatePure(NodeId n, const Node& node, const OpEffects& op, bool first) {
  for (ValueId out : node.outputs) {
    const Type& type = g.value(out).type;
    if (type.IsTensor()) {
      const uint32_t own = Own(out, Kind::kTensor, true, false);
      if (objects[own].storage == 0) {
        objects[own].storage = SetPool::Single(MakeRef(own));
      } else {
        SetStorage(own, SetPool::Single(MakeRef(own)));
      }
      SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
    } else if (IsAliasingType(type)) {
      const uint32_t own =
          Own(out, MayBeTensor(type) ? Kind::kTensor : Kind::kContainer, MayBeTensor(type), IsContainerType(type));
      objects[own].storage = SetPool::Single(MakeRef(own));
      SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
    } else if (!first) {
      SetPointsTo(out, 0, n, false);
    }
  }
  if (reads_active) AddAccesses(n, node.inputs, op.by == OpEffects::By::kNothing ? op : EffectsOf(node), 0);
}

void AliasDb::State::EvaluateConstant(NodeId n, const Node& node, bool first) {
  for (ValueId out : node.outputs) {
    const Type& type = g.value(out).type;
    if (!IsAliasingType(type) || (node.attributes.empty() && type.kind() != TypeKind::kClass)) continue;
    const uint32_t own = Own(out, Kind::kConstant, MayBeTensor(type), MayBeContainer(type));
    objects[own].storage = SetPool::Single(MakeRef(own));
    SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
  }
}

void AliasDb::State::EvaluateConstruct(NodeId n, const Node& node, bool first, bool inputs_changed) {
  for (ValueId out : node.outputs) {
    const Type& type = g.value(out).type;
    if (!IsAliasingType(type)) {
      if (!first) SetPointsTo(out, 0, n, false);
      continue;
    }
    const uint32_t own = Own(out, Kind::kContainer, false, true);
    objects[own].storage = SetPool::Single(MakeRef(own));
    MakeContents(own, first, inputs_changed);
    SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
  }
}

// The elements of a tuple, a list or an object's attribute.
void AliasDb::State::EvaluateElements(NodeId n, const Node& node, const OpEffects& op, bool first) {
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const Type& type = g.value(node.outputs[k]).type;
    if (!IsAliasingType(type) || node.inputs.empty()) {
      if (!first) SetPointsTo(node.outputs[k], 0, n, false);
      continue;
    }
    int32_t slot = static_cast<int32_t>(k);
    if (op.kind == EffectKind::kTupleIndex) {
      std::optional<int64_t> at = node.inputs.size() > 1 ? ConstantInt(node.inputs[1]) : std::nullopt;
      slot = kAnySlot;
      if (at && *at >= 0 && *at < INT32_MAX) slot = static_cast<int32_t>(*at);
      const Type& tuple = UnwrapOptional(g.value(node.inputs[0]).type);
      if (at && *at < 0 && tuple.kind() == TypeKind::kTuple) {
        int64_t from_end = *at + static_cast<int64_t>(tuple.elements().size());
        if (from_end >= 0) slot = static_cast<int32_t>(from_end);
      }
    } else if (op.kind == EffectKind::kGetAttr) {
      slot = AttributeSlot(node);
    }
    const SetId p = PointsTo(node.inputs[0]);
    if (op.kind == EffectKind::kGetAttr) {
      // The attribute's type is known here only.
      sets.ForEach(p, [&](Ref r) {
        const Object& holder = objects[ObjectOf(r)];
        if (holder.kind != Kind::kInput && holder.kind != Kind::kElement) return;
        if (elements.Find(ObjectOf(r), slot) == 0) {
          ElementObject(ObjectOf(r), slot, MayBeTensor(type), MayBeContainer(type), Kind::kElement);
        }
      });
    }
    SetPointsTo(node.outputs[k], ContentOfSet(p, slot, n), n, first);
  }
  if (reads_active) AddAccesses(n, node.inputs, op, 0);
}

void AliasDb::State::EvaluateConstantChunk(NodeId n, const Node& node, const OpEffects& op, bool first) {
  for (ValueId out : node.outputs) {
    const uint32_t own = Own(out, Kind::kView, true, false);
    SetStorage(own, node.inputs.empty() ? 0 : StoragesOfSet(PointsTo(node.inputs[0])));
    SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
  }
  if (reads_active) AddAccesses(n, node.inputs, op, 0);
}

void AliasDb::State::EvaluateWait(NodeId n, const Node& node, const OpEffects& op, bool first) {
  const SetId p = node.inputs.empty() ? 0 : PointsTo(node.inputs[0]);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const Type& type = g.value(node.outputs[k]).type;
    if (IsAliasingType(type)) SetPointsTo(node.outputs[k], OfType(ContentOfSet(p, kAnySlot, n), type), n, first);
  }
  AddAccessesOfWait(n, node, op);
}

void AliasDb::State::AddAccessesOfWait(NodeId n, const Node& node, const OpEffects& op) {
  AddAccesses(n, node.inputs, op, 0);
  if (node.inputs.empty()) return;
  // The effects of the forked graph may happen here.
  for (Ref r : sets.Refs(PointsTo(node.inputs[0]))) {
    const Object& future = objects[ObjectOf(r)];
    if (future.def.valid() && g.IsLive(future.def) &&
        GetOpEffects(g.node(g.value(future.def).def).op).kind == EffectKind::kFork) {
      const Node& fork = g.node(g.value(future.def).def);
      OpEffects e = EffectsOf(fork);
      e.side_effect = e.random = false;
      AddAccesses(n, fork.inputs, e, 0);
    } else {
      OpEffects e = GetOpEffects(OpName::Get(op::kPrimPythonOp));
      e.side_effect = e.random = false;
      AddAccesses(n, {}, e, 0);
    }
  }
}

void AliasDb::State::EvaluateFork(NodeId n, const Node& node, bool first, bool inputs_changed) {
  OpEffects e = EffectsOf(node);
  const bool unknown = e.kind == EffectKind::kUnknown;
  if (unknown) {
    e.results.assign(1, ResultEffects());
    e.results[0].fresh = true;
  }
  EvaluateGeneric(n, node, e, first, inputs_changed);
  if (unknown && !node.outputs.empty()) {
    // The future may come to hold anything that has escaped.
    Escape(PointsTo(node.outputs[0]));
    nodes[n.index].flags |= NodeRecord::kEscapes;
  }
  if (e.writes) AddAccesses(n, node.inputs, e, kAsync);
}

std::optional<size_t> AliasDb::State::BranchTaken(const Node& branch) const {
  if (branch.inputs.empty()) return std::nullopt;
  const std::optional<ConstantValue> c = GetConstant(g, branch.inputs[0]);
  const bool* b = c ? std::get_if<bool>(&*c) : nullptr;
  return b != nullptr ? std::optional<size_t>(*b ? 0 : 1) : std::nullopt;
}

// Records that n reads the tensors that decide which of its blocks run, and those that smelt::while_loop may copy: what
// it carries if it makes no trip.
void AliasDb::State::AddReadsOfControl(NodeId n, const Node& node, EffectKind kind) {
  if (!reads_active) return;
  ForgetAccesses(nodes[n.index]);  // while it is entered and left it is evaluated twice
  const auto reads = [&](ValueId v, size_t arg) {
    AddAccessesTo(n, TensorsOf(PointsTo(v)), kRead | kGeometryRead, arg);
  };
  // The results of a block that decide: no arguments of the node.
  const auto reads_result = [&](BlockId b) {
    if (!g.results(b).empty()) reads(g.results(b)[0], UINT16_MAX);
  };
  const size_t decide = kind == EffectKind::kWhile ? 0 : kind == EffectKind::kLoop ? 2 : 1;
  for (size_t i = 0; i < decide && i < node.inputs.size(); ++i) reads(node.inputs[i], i);
  if (alias_internal::IsLoopKind(kind) && !node.blocks.empty()) reads_result(node.blocks[0]);
  if (kind != EffectKind::kWhile) return;
  const size_t carried = std::min(node.inputs.size(), node.outputs.size());
  steps += static_cast<int64_t>(carried);
  for (size_t i = 0; i < carried; ++i) reads(node.inputs[i], i);
}

// cond's blocks take its operands; If's see the values in scope. Both return the results of the block that runs.
void AliasDb::State::EvaluateIf(NodeId n, const Node& node, bool is_cond, bool first) {
  AddReadsOfControl(n, node, is_cond ? EffectKind::kCond : EffectKind::kIf);
  if (is_cond) {
    for (BlockId b : node.blocks) {
      for (size_t i = 1; i < node.inputs.size(); ++i) SetParam(n, b, i - 1, PointsTo(node.inputs[i]), first);
    }
  }
  if (first) return;
  const std::optional<size_t> taken = BranchTaken(node);
  const size_t count = parts != nullptr ? parts->size() : node.outputs.size();
  steps += static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t k = parts != nullptr ? (*parts)[i] : i;
    if (k >= node.outputs.size()) continue;
    SetId s = 0;
    for (size_t b = 0; b < node.blocks.size(); ++b) {
      if (!taken || b == *taken) s = Join(s, ResultOf(node.blocks[b], k));
    }
    SetPointsTo(node.outputs[k], s, n, false);
  }
}

// Returns whether the Loop's body certainly runs at least once.
bool AliasDb::State::RunsOnce(const Node& loop) const {
  if (loop.inputs.size() < 2) return false;
  const std::optional<int64_t> trips = ConstantInt(loop.inputs[0]);
  if (!trips || *trips <= 0) return false;
  const std::optional<ConstantValue> condition = GetConstant(g, loop.inputs[1]);
  return condition && std::holds_alternative<bool>(*condition) && std::get<bool>(*condition);
}

// A carried value is an initial value, or a result of an earlier iteration. A tensor that smelt::while_loop returns is a
// copy of the initial one if it makes no trip. Otherwise its condition has run after the last trip, to which the trip's
// allocations are those of an earlier one: so they are to whatever the condition stores.
void AliasDb::State::EvaluateLoop(NodeId n, const Node& node, bool is_while, bool first) {
  if (node.blocks.empty()) return;
  AddReadsOfControl(n, node, is_while ? EffectKind::kWhile : EffectKind::kLoop);
  const BlockId body = is_while && node.blocks.size() > 1 ? node.blocks[1] : node.blocks[0];
  // Loop(trips, condition, carried...) with a body (index, carried...) -> (condition, carried...).
  const size_t inputs_from = is_while ? 0 : 2, params_from = is_while ? 0 : 1, results_from = is_while ? 0 : 1;
  const uint32_t loop = loops.IndexOf(n);
  const bool runs = !first && !is_while && RunsOnce(node);
  const size_t carried_values = node.inputs.size() - std::min(inputs_from, node.inputs.size());
  const size_t count = parts != nullptr ? parts->size() : carried_values;
  const absl::Span<SetId> carried = loops.CarriedBy(loop, 2 * carried_values);
  for (size_t at = 0; at < count; ++at) {
    const size_t k = parts != nullptr ? (*parts)[at] : at, i = inputs_from + k;
    if (k >= carried_values) continue;
    const SetId init = PointsTo(node.inputs[i]);
    const SetId back = ResultOf(body, results_from + k);
    const SetId s = Join(init, Shift(back, loop));
    // The back edge alone may keep alive what no longer comes in.
    if (!monotone && (!sets.Includes(init, carried[2 * k]) || !sets.Includes(back, carried[2 * k + 1]))) {
      resolve_loops.insert(OutermostLoop(n).index);
    }
    carried[2 * k] = init;
    carried[2 * k + 1] = back;
    for (BlockId b : node.blocks) SetParam(n, b, params_from + k, s, first);
    if (first || k >= node.outputs.size()) continue;
    const ValueId out = node.outputs[k];
    const Type& type = g.value(out).type;
    if (is_while && IsAliasingType(type)) {
      SetPointsTo(out, Join(Join(back, Shift(back, loop)), WithoutTrips(out, type, init)), n, false);
    } else {
      SetPointsTo(out, runs ? back : Join(init, back), n, false);
    }
  }
}

// Returns what the result `out` of a smelt::while_loop is if it makes no trip: a new tensor, or the container that came
// in.
AliasDb::State::SetId AliasDb::State::WithoutTrips(ValueId out, const Type& type, SetId init) {
  SetId s = 0;
  if (MayBeTensor(type)) {
    const uint32_t own = Own(out, Kind::kTensor, true, false);
    SetStorage(own, SetPool::Single(MakeRef(own)));
    s = SetPool::Single(MakeRef(own));
  }
  if (!MayBeContainer(type)) return s;
  sets.ForEach(init, [&](Ref r) {
    if (objects[ObjectOf(r)].container) s = Join(s, SetPool::Single(r));
  });
  return s;
}

void AliasDb::State::SetParam(NodeId n, BlockId b, size_t i, SetId s, bool first) {
  absl::Span<const ValueId> params = g.params(b);
  if (i >= params.size()) return;
  SetPointsTo(params[i], IsAliasingType(g.value(params[i]).type) ? s : 0, n, first);
}

AliasDb::State::SetId AliasDb::State::ResultOf(BlockId b, size_t i) {
  absl::Span<const ValueId> results = g.results(b);
  return i < results.size() ? PointsTo(results[i]) : 0;
}

// Returns the slot of the containers `p` that is read: kAnySlot if the index is not known.
int32_t AliasDb::State::SlotRead(NodeId n, const Node& node, const ResultEffects& r, SetId p) {
  if (r.slot_arg < 0 || r.slot_arg >= static_cast<int>(node.inputs.size())) return kAnySlot;
  const std::optional<int64_t> at = ConstantInt(node.inputs[r.slot_arg]);
  if (!at) return kAnySlot;
  if (*at >= 0) return *at < INT32_MAX ? static_cast<int32_t>(*at) : kAnySlot;
  // An index from the end is known for a list that nothing changes.
  if (!SetPool::IsSingle(p)) return kAnySlot;
  const Ref holder = SetPool::SingleRef(p);
  const uint32_t o = ObjectOf(holder);
  bool untouched = true;
  if (const Contents* c = FindContents(o); c != nullptr) {
    untouched = !c->HasMany() && !c->blurred && std::none_of(c->stores.begin(), c->stores.end(), [&](const Store& st) {
      return MayComeBefore(st.node, n, holder);
    });
  }
  // A change of the list may come to stand before it. Then this is evaluated again.
  NoteReader(o, n);
  if (!untouched) return kAnySlot;
  int32_t count;
  BaseContent(o, kAnySlot, &count);
  return count >= 0 && *at + count >= 0 ? static_cast<int32_t>(*at + count) : kAnySlot;
}

AliasDb::State::SetId AliasDb::State::ResultSet(NodeId n, const Node& node, const OpEffects& e, size_t k) {
  const ValueId out = node.outputs[k];
  const ResultEffects& r = e.result(k);
  const Type& type = g.value(out).type;
  SetId set = 0;
  SetId storages = 0;
  const size_t num_inputs = std::min<size_t>(node.inputs.size(), 64);
  if ((r.self | r.view | r.element | r.element_view) != 0) {
    for (size_t i = 0; i < num_inputs; ++i) {
      const uint64_t bit = uint64_t{1} << i;
      if (!((r.self | r.view | r.element | r.element_view) & bit)) continue;
      const SetId p = PointsTo(node.inputs[i]);
      if (r.self & bit) set = Join(set, p);
      if (r.view & bit) storages = Join(storages, StoragesOfSet(p));
      if ((r.element | r.element_view) & bit) {
        const int32_t slot = SlotRead(n, node, r, p);
        const SetId inside = ContentOfSet(p, slot, n);
        if (r.element & bit) set = Join(set, inside);
        if (r.element_view & bit) storages = Join(storages, StoragesOfSet(inside));
      }
    }
  }
  if (r.unknown) set = Join(set, SetPool::Single(MakeRef(kUnknown)));
  const bool has_view = (r.view | r.element_view) != 0;
  if (r.fresh || has_view) {
    const bool tensor = MayBeTensor(type), container = MayBeContainer(type);
    uint32_t own;
    if (tensor) {
      own = Own(out, r.fresh ? Kind::kTensor : Kind::kView, true, container);
      SetId mine = storages;
      if (r.fresh) mine = Join(mine, SetPool::Single(MakeRef(own)));
      for (size_t j = 0; j < k && j < 32; ++j) {
        if (!(r.overlaps_results & (1u << j))) continue;
        uint32_t other = RecordOf(node.outputs[j]).own;
        if (other != 0) mine = Join(mine, objects[other].storage);
      }
      SetStorage(own, mine);
    } else {
      own = Own(out, Kind::kContainer, false, true);
      objects[own].storage = SetPool::Single(MakeRef(own));
    }
    set = Join(set, SetPool::Single(MakeRef(own)));
  }
  return set;
}

// Unknown code without globals. It may put everything that its arguments reach, and everything that it makes, into any
// container that they reach; nothing else.
void AliasDb::State::EvaluateCall(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed) {
  SetId reach = 0;
  for (ValueId v : node.inputs) reach = Join(reach, Reach(PointsTo(v), n));
  // Nothing is stored into objects that are not distinguished: values that are put there escape.
  bool escapes = node.outputs.empty();
  SetId target = 0;  // where its tensors may be
  for (Ref r : sets.Refs(reach)) {
    const Object& o = objects[ObjectOf(r)];
    escapes |= o.container && (o.external || o.escaped || o.kind == Kind::kSummary);
    if (o.tensor) target = Join(target, Storages(r));
  }
  if (!node.outputs.empty()) {
    // Containers and tensors are kept apart: a caller's handle may come to lie in the memory of the latter.
    const uint32_t made = Own(node.outputs[0], Kind::kMade, false, true);
    const uint32_t tensors = ElementObject(made, kAnySlot, true, false, Kind::kMade);
    objects[tensors].loop = objects[made].loop;
    target = Join(target, SetPool::Single(MakeRef(tensors)));
    SetStorage(made, SetPool::Single(MakeRef(made)));
    SetStorage(tensors, target);
    SetId all = Join(Join(reach, SetPool::Single(MakeRef(made))), SetPool::Single(MakeRef(tensors)));
    if (overdrawn) all = Grown(ContentsOf(made).of_call, all);
    ContentsOf(made).of_call = all;
    const uint64_t made_of = Fingerprint(all);
    if (!first) ContainerMade(made, made_of, inputs_changed);
    ContentsOf(made).made_of = made_of;
    for (ValueId out : node.outputs) {
      SetId s = OfType(all, g.value(out).type);
      if (escapes && s != 0) s = Join(s, SetPool::Single(MakeRef(kUnknown)));
      SetPointsTo(out, s, n, first);
    }
    for (Ref r : sets.Refs(reach)) {
      if (escapes || !objects[ObjectOf(r)].container) continue;
      Store s;
      s.node = n;
      s.value = node.outputs[0];
      s.by_call = true;
      s.set = OfType(all, TypeOfElement(ObjectOf(r), kAnySlot));
      s.last = made_of;
      new_stores.push_back({ObjectOf(r), s});
      Store places;  // whatever the elements were, they may have changed places
      places.node = n;
      places.shuffle = true;
      new_stores.push_back({ObjectOf(r), places});
    }
    if (escapes) Escape(SetPool::Single(MakeRef(made)));
  }
  AddAccesses(n, node.inputs, e, 0);
  if (escapes) AddStores(n, node, e);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (e.arg(i) & kWritesGeometry) MoveStorage(n, node.inputs[i], target);
  }
}

void AliasDb::State::EvaluateGeneric(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed) {
  if (e.kind == EffectKind::kCall) return EvaluateCall(n, node, e, first, inputs_changed);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId out = node.outputs[k];
    if (!IsAliasingType(g.value(out).type)) {
      if (!first) SetPointsTo(out, 0, n, false);
      continue;
    }
    SetId s = ResultSet(n, node, e, k);
    const uint32_t own = RecordOf(out).own;
    if (own != 0 && objects[own].container) {
      RefreshPieces(own);  // when a loop is walked again too
      MakeContents(own, first, inputs_changed);
    }
    SetPointsTo(out, s, n, first);
  }
  if (e.writes || e.random || e.side_effect || reads_active) AddAccesses(n, node.inputs, e, 0);
  if (e.writes || e.kind == EffectKind::kUnknown) AddStores(n, node, e);
  // set_: the handle moves to another storage. Unknown code may do so to every handle that it gets.
  if (e.kind == EffectKind::kUnknown) {
    for (ValueId v : node.inputs) MoveStorage(n, v, SetPool::Single(MakeRef(kUnknown)));
  } else if (!node.inputs.empty() && e.storage_unknown) {
    MoveStorage(n, node.inputs[0], SetPool::Single(MakeRef(kUnknown)));
  } else if (e.geometry_from >= 0 && e.geometry_from < static_cast<int>(node.inputs.size())) {
    MoveStorage(n, node.inputs[0], StoragesOfSet(PointsTo(node.inputs[e.geometry_from])));
  }
}

// Every tensor handle that `handle` is or reaches may live in `target` from now on.
void AliasDb::State::MoveStorage(NodeId n, ValueId handle, SetId target) {
  if (target == 0) return;
  nodes[n.index].flags |= NodeRecord::kMovesStorage;
  making_first = false;  // but of others
  for (Ref r : sets.Refs(Reach(PointsTo(handle), n))) {
    const uint32_t moved_object = ObjectOf(r);
    if (moved_object == kUnknown || !objects[moved_object].tensor || objects[moved_object].kind == Kind::kSummary) {
      continue;
    }
    const uint32_t key = HandleKey(moved_object);
    SetId moved = Join(moved_storage[key], target);
    // A handle from outside the loop may have moved in an earlier iteration.
    // Whatever one loop makes older, all loops further out make older too.
    const alias_internal::LoopTable::Range range = loops.Between(LoopOf(n), objects[moved_object].loop);
    moved = Join(Join(moved, Shift(target, range.inner)), Shift(target, range.outer));
    moved_storage[key] = moved;
    if (objects[moved_object].external) {
      external_moved = true;
      Escape(target);
    }
    Elements handles = {moved_object};
    if (key != moved_object) handles = elements.Of(key);
    for (uint32_t o : handles) {
      const SetId before = objects[o].storage;
      auto unmoved = unmoved_storage.find(o);
      SetStorage(o, unmoved != unmoved_storage.end() ? unmoved->second : before);
      // Whoever holds it: its definition's users, and theirs.
      if (objects[o].storage != before && objects[o].def.valid() && g.IsLive(objects[o].def)) {
        dirty = geometry_changed = reach_changed = true;
        PushUsers(objects[o].def);
        PushReaders(objects[o].parent != 0 ? objects[o].parent : key);
        uint64_t& epoch = forced[objects[o].def.index];
        epoch = touched_epoch;
      }
    }
  }
}

}  // namespace smelt
