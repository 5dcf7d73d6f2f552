#include "smelt/alias/evaluator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Evaluator::EvaluateInputs(size_t from) {
  const NodeId param = s_.g.block(s_.g.top()).param_node;
  s_.records.RecordOf(param).flags |= NodeRecord::kEvaluated;
  absl::Span<const ValueId> inputs = s_.g.inputs();
  for (size_t i = from; i < inputs.size(); ++i) {
    const Type& type = s_.g.value(inputs[i]).type;
    if (!IsAliasingType(type)) {
      s_.work.SetPointsTo(inputs[i], 0, param, s_.solver.building);
      continue;
    }
    const uint32_t own = s_.memory.Own(inputs[i], ObjectKind::kInput, MayBeTensor(type), MayBeContainer(type));
    s_.objects[own].external = true;
    SetId storage = SetPool::Single(MakeRef(own));
    if (i < s_.g.input_infos.size() && s_.g.input_infos[i].kind == InputInfo::Kind::kWeight &&
        s_.g.input_infos[i].weight >= 0 && s_.g.input_infos[i].weight < static_cast<int>(s_.g.weights.size())) {
      const int s = s_.g.weights[s_.g.input_infos[i].weight].storage;
      auto [it, inserted] = s_.memory.weight_storages.try_emplace(s, 0);
      if (inserted) {
        uint32_t o = s_.objects.New(ObjectKind::kWeight, ValueId());
        s_.memory.weight_storages[s] = o;
        s_.objects[o].tensor = true;
        s_.objects[o].external = true;
        s_.objects[o].slot = s;
        s_.objects[o].storage = SetPool::Single(MakeRef(o));
      }
      storage = SetPool::Single(MakeRef(s_.memory.weight_storages[s]));
    }
    s_.memory.SetStorage(own, storage);
    s_.work.SetPointsTo(inputs[i], SetPool::Single(MakeRef(own)), param, s_.solver.building);
  }
}

void Evaluator::EvaluateKind(NodeId n, const Node& node, const OpEffects& op, bool first, bool inputs_changed) {
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
      s_.recorder.AddAccesses(n, node.inputs, op, 0);
      return s_.stores.AddStores(n, node, op);
    case EffectKind::kSubgraph:
      return EvaluateGeneric(n, node, s_.effects.EffectsOf(node), first, inputs_changed);
    default:
      if (op.by == OpEffects::By::kNothing) return EvaluateGeneric(n, node, op, first, inputs_changed);
      return EvaluateGeneric(n, node, s_.effects.EffectsOf(node), first, inputs_changed);
  }
}

// An object that is evaluated again may have moved since.
void Evaluator::LivesInItself(uint32_t own) {
  const SetId itself = SetPool::Single(MakeRef(own));
  if (s_.objects[own].storage == 0) {
    s_.objects[own].storage = itself;
  } else {
    s_.memory.SetStorage(own, itself);
  }
}

// The fast path: new memory, reads only.
void Evaluator::EvaluatePure(NodeId n, const Node& node, const OpEffects& op, bool first) {
  for (ValueId out : node.outputs) {
    const Type& type = s_.g.value(out).type;
    if (type.IsTensor()) {
      const uint32_t own = s_.memory.Own(out, ObjectKind::kTensor, true, false);
      LivesInItself(own);
      s_.work.SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
    } else if (IsAliasingType(type)) {
      const uint32_t own = s_.memory.Own(out, MayBeTensor(type) ? ObjectKind::kTensor : ObjectKind::kContainer,
                                         MayBeTensor(type), IsContainerType(type));
      LivesInItself(own);
      s_.work.SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
    } else if (!first) {
      s_.work.SetPointsTo(out, 0, n, false);
    }
  }
  if (s_.accesses.reads_active)
    s_.recorder.AddAccesses(n, node.inputs, op.by == OpEffects::By::kNothing ? op : s_.effects.EffectsOf(node), 0);
}

void Evaluator::EvaluateConstant(NodeId n, const Node& node, bool first) {
  for (ValueId out : node.outputs) {
    const Type& type = s_.g.value(out).type;
    if (!IsAliasingType(type) || (node.attributes.empty() && type.kind() != TypeKind::kClass)) continue;
    const uint32_t own = s_.memory.Own(out, ObjectKind::kConstant, MayBeTensor(type), MayBeContainer(type));
    LivesInItself(own);
    s_.work.SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
  }
}

void Evaluator::EvaluateConstruct(NodeId n, const Node& node, bool first, bool inputs_changed) {
  for (ValueId out : node.outputs) {
    const Type& type = s_.g.value(out).type;
    if (!IsAliasingType(type)) {
      if (!first) s_.work.SetPointsTo(out, 0, n, false);
      continue;
    }
    const uint32_t own = s_.memory.Own(out, ObjectKind::kContainer, false, true);
    s_.objects[own].storage = SetPool::Single(MakeRef(own));
    s_.containers.MakeContents(own, first, inputs_changed);
    s_.work.SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
  }
}

// The elements of a tuple, a list or an object's attribute.
void Evaluator::EvaluateElements(NodeId n, const Node& node, const OpEffects& op, bool first) {
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const Type& type = s_.g.value(node.outputs[k]).type;
    if (!IsAliasingType(type) || node.inputs.empty()) {
      if (!first) s_.work.SetPointsTo(node.outputs[k], 0, n, false);
      continue;
    }
    int32_t slot = static_cast<int32_t>(k);
    if (op.kind == EffectKind::kTupleIndex) {
      std::optional<int64_t> at = node.inputs.size() > 1 ? s_.numbers.ConstantInt(node.inputs[1]) : std::nullopt;
      slot = kAnySlot;
      if (at && *at >= 0 && *at < INT32_MAX) slot = static_cast<int32_t>(*at);
      const Type& tuple = UnwrapOptional(s_.g.value(node.inputs[0]).type);
      if (at && *at < 0 && tuple.kind() == TypeKind::kTuple) {
        int64_t from_end = *at + static_cast<int64_t>(tuple.elements().size());
        if (from_end >= 0) slot = static_cast<int32_t>(from_end);
      }
    } else if (op.kind == EffectKind::kGetAttr) {
      slot = s_.effects.AttributeSlot(node);
    }
    const SetId p = s_.records.PointsTo(node.inputs[0]);
    if (op.kind == EffectKind::kGetAttr) {
      // The attribute's type is known here only.
      s_.sets.ForEach(p, [&](Ref r) {
        const Object& holder = s_.objects[ObjectOf(r)];
        if (holder.kind != ObjectKind::kInput && holder.kind != ObjectKind::kElement) return;
        if (s_.containers.elements.Find(ObjectOf(r), slot) == 0) {
          s_.containers.ElementObject(ObjectOf(r), slot, MayBeTensor(type), MayBeContainer(type), ObjectKind::kElement);
        }
      });
    }
    s_.work.SetPointsTo(node.outputs[k], s_.containers.ContentOfSet(p, slot, n), n, first);
  }
  if (s_.accesses.reads_active) s_.recorder.AddAccesses(n, node.inputs, op, 0);
}

void Evaluator::EvaluateConstantChunk(NodeId n, const Node& node, const OpEffects& op, bool first) {
  for (ValueId out : node.outputs) {
    const uint32_t own = s_.memory.Own(out, ObjectKind::kView, true, false);
    s_.memory.SetStorage(own, node.inputs.empty() ? 0 : s_.memory.StoragesOfSet(s_.records.PointsTo(node.inputs[0])));
    s_.work.SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
  }
  if (s_.accesses.reads_active) s_.recorder.AddAccesses(n, node.inputs, op, 0);
}

void Evaluator::EvaluateWait(NodeId n, const Node& node, const OpEffects& op, bool first) {
  const SetId p = node.inputs.empty() ? 0 : s_.records.PointsTo(node.inputs[0]);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const Type& type = s_.g.value(node.outputs[k]).type;
    if (IsAliasingType(type))
      s_.work.SetPointsTo(node.outputs[k], s_.containers.OfType(s_.containers.ContentOfSet(p, kAnySlot, n), type), n,
                          first);
  }
  s_.recorder.AddAccessesOfWait(n, node, op);
}

void Evaluator::EvaluateFork(NodeId n, const Node& node, bool first, bool inputs_changed) {
  OpEffects e = s_.effects.EffectsOf(node);
  const bool unknown = e.kind == EffectKind::kUnknown;
  if (unknown) {
    e.results.assign(1, ResultEffects());
    e.results[0].fresh = true;
  }
  EvaluateGeneric(n, node, e, first, inputs_changed);
  if (unknown && !node.outputs.empty()) {
    // The future may come to hold anything that has escaped.
    s_.memory.Escape(s_.records.PointsTo(node.outputs[0]));
    s_.records.nodes[n.index].flags |= NodeRecord::kEscapes;
  }
  if (e.writes) s_.recorder.AddAccesses(n, node.inputs, e, kAsync);
}

std::optional<size_t> Evaluator::BranchTaken(const Node& branch) const {
  if (branch.inputs.empty()) return std::nullopt;
  const std::optional<ConstantValue> c = GetConstant(s_.g, branch.inputs[0]);
  const bool* b = c ? std::get_if<bool>(&*c) : nullptr;
  return b != nullptr ? std::optional<size_t>(*b ? 0 : 1) : std::nullopt;
}

// cond's blocks take its operands; If's see the values in scope. Both return the results of the block that runs.
void Evaluator::EvaluateIf(NodeId n, const Node& node, bool is_cond, bool first) {
  s_.recorder.AddReadsOfControl(n, node, is_cond ? EffectKind::kCond : EffectKind::kIf);
  if (is_cond) {
    for (BlockId b : node.blocks) {
      for (size_t i = 1; i < node.inputs.size(); ++i) SetParam(n, b, i - 1, s_.records.PointsTo(node.inputs[i]), first);
    }
  }
  if (first) return;
  const std::optional<size_t> taken = BranchTaken(node);
  const size_t count = parts != nullptr ? parts->size() : node.outputs.size();
  s_.steps += static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t k = parts != nullptr ? (*parts)[i] : i;
    if (k >= node.outputs.size()) continue;
    SetId s = 0;
    for (size_t b = 0; b < node.blocks.size(); ++b) {
      if (!taken || b == *taken) s = s_.memory.Join(s, ResultOf(node.blocks[b], k));
    }
    s_.work.SetPointsTo(node.outputs[k], s, n, false);
  }
}

bool Evaluator::RunsOnce(const Node& loop) const {
  if (loop.inputs.size() < 2) return false;
  const std::optional<int64_t> trips = s_.numbers.ConstantInt(loop.inputs[0]);
  if (!trips || *trips <= 0) return false;
  const std::optional<ConstantValue> condition = GetConstant(s_.g, loop.inputs[1]);
  return condition && std::holds_alternative<bool>(*condition) && std::get<bool>(*condition);
}

// A carried value is an initial value, or a result of an earlier iteration. A tensor that smelt::while_loop returns is a
// copy of the initial one if it makes no trip. Otherwise its condition has run after the last trip, to which the trip's
// allocations are those of an earlier one: so they are to whatever the condition stores.
void Evaluator::EvaluateLoop(NodeId n, const Node& node, bool is_while, bool first) {
  if (node.blocks.empty()) return;
  s_.recorder.AddReadsOfControl(n, node, is_while ? EffectKind::kWhile : EffectKind::kLoop);
  const BlockId body = is_while && node.blocks.size() > 1 ? node.blocks[1] : node.blocks[0];
  // Loop(trips, condition, carried...) with a body (index, carried...) -> (condition, carried...).
  const size_t inputs_from = is_while ? 0 : 2, params_from = is_while ? 0 : 1, results_from = is_while ? 0 : 1;
  const uint32_t loop = s_.loops.IndexOf(n);
  const bool runs = !first && !is_while && RunsOnce(node);
  const size_t carried_values = node.inputs.size() - std::min(inputs_from, node.inputs.size());
  const size_t count = parts != nullptr ? parts->size() : carried_values;
  const absl::Span<SetId> carried = s_.loops.CarriedBy(loop, 2 * carried_values);
  for (size_t at = 0; at < count; ++at) {
    const size_t k = parts != nullptr ? (*parts)[at] : at, i = inputs_from + k;
    if (k >= carried_values) continue;
    const SetId init = s_.records.PointsTo(node.inputs[i]);
    const SetId back = ResultOf(body, results_from + k);
    const SetId s = s_.memory.Join(init, s_.memory.Shift(back, loop));
    // The back edge alone may keep alive what no longer comes in.
    if (!s_.solver.monotone &&
        (!s_.sets.Includes(init, carried[2 * k]) || !s_.sets.Includes(back, carried[2 * k + 1]))) {
      s_.work.resolve_loops.insert(s_.work.OutermostLoop(n).index);
    }
    carried[2 * k] = init;
    carried[2 * k + 1] = back;
    for (BlockId b : node.blocks) SetParam(n, b, params_from + k, s, first);
    if (first || k >= node.outputs.size()) continue;
    const ValueId out = node.outputs[k];
    const Type& type = s_.g.value(out).type;
    if (is_while && IsAliasingType(type)) {
      s_.work.SetPointsTo(
          out, s_.memory.Join(s_.memory.Join(back, s_.memory.Shift(back, loop)), WithoutTrips(out, type, init)), n,
          false);
    } else {
      s_.work.SetPointsTo(out, runs ? back : s_.memory.Join(init, back), n, false);
    }
  }
}

// Returns what the result `out` of a smelt::while_loop is if it makes no trip: a new tensor, or the container that came
// in.
SetId Evaluator::WithoutTrips(ValueId out, const Type& type, SetId init) {
  SetId s = 0;
  if (MayBeTensor(type)) {
    const uint32_t own = s_.memory.Own(out, ObjectKind::kTensor, true, false);
    s_.memory.SetStorage(own, SetPool::Single(MakeRef(own)));
    s = SetPool::Single(MakeRef(own));
  }
  if (!MayBeContainer(type)) return s;
  s_.sets.ForEach(init, [&](Ref r) {
    if (s_.objects[ObjectOf(r)].container) s = s_.memory.Join(s, SetPool::Single(r));
  });
  return s;
}

void Evaluator::SetParam(NodeId n, BlockId b, size_t i, SetId s, bool first) {
  absl::Span<const ValueId> params = s_.g.params(b);
  if (i >= params.size()) return;
  s_.work.SetPointsTo(params[i], IsAliasingType(s_.g.value(params[i]).type) ? s : 0, n, first);
}

SetId Evaluator::ResultOf(BlockId b, size_t i) {
  absl::Span<const ValueId> results = s_.g.results(b);
  return i < results.size() ? s_.records.PointsTo(results[i]) : 0;
}

// Returns the slot of the containers `p` that is read: kAnySlot if the index is not known.
int32_t Evaluator::SlotRead(NodeId n, const Node& node, const ResultEffects& r, SetId p) {
  if (r.slot_arg < 0 || r.slot_arg >= static_cast<int>(node.inputs.size())) return kAnySlot;
  const std::optional<int64_t> at = s_.numbers.ConstantInt(node.inputs[r.slot_arg]);
  if (!at) return kAnySlot;
  if (*at >= 0) return *at < INT32_MAX ? static_cast<int32_t>(*at) : kAnySlot;
  // An index from the end is known for a list that nothing changes.
  if (!SetPool::IsSingle(p)) return kAnySlot;
  const Ref holder = SetPool::SingleRef(p);
  const uint32_t o = ObjectOf(holder);
  bool untouched = true;
  if (const Contents* c = s_.containers.FindContents(o); c != nullptr) {
    untouched = !c->HasMany() && !c->blurred && std::none_of(c->stores.begin(), c->stores.end(), [&](const Store& st) {
      return s_.stores.MayComeBefore(st.node, n, holder);
    });
  }
  // A change of the list may come to stand before it. Then this is evaluated again.
  s_.containers.readers.Note(o, n);
  if (!untouched) return kAnySlot;
  int32_t count;
  s_.containers.BaseContent(o, kAnySlot, &count);
  return count >= 0 && *at + count >= 0 ? static_cast<int32_t>(*at + count) : kAnySlot;
}

SetId Evaluator::ResultSet(NodeId n, const Node& node, const OpEffects& e, size_t k) {
  const ValueId out = node.outputs[k];
  const ResultEffects& r = e.result(k);
  const Type& type = s_.g.value(out).type;
  SetId set = 0;
  SetId storages = 0;
  const size_t num_inputs = std::min<size_t>(node.inputs.size(), 64);
  if ((r.self | r.view | r.element | r.element_view) != 0) {
    for (size_t i = 0; i < num_inputs; ++i) {
      const uint64_t bit = uint64_t{1} << i;
      if (!((r.self | r.view | r.element | r.element_view) & bit)) continue;
      const SetId p = s_.records.PointsTo(node.inputs[i]);
      if (r.self & bit) set = s_.memory.Join(set, p);
      if (r.view & bit) storages = s_.memory.Join(storages, s_.memory.StoragesOfSet(p));
      if ((r.element | r.element_view) & bit) {
        const int32_t slot = SlotRead(n, node, r, p);
        const SetId inside = s_.containers.ContentOfSet(p, slot, n);
        if (r.element & bit) set = s_.memory.Join(set, inside);
        if (r.element_view & bit) storages = s_.memory.Join(storages, s_.memory.StoragesOfSet(inside));
      }
    }
  }
  if (r.unknown) set = s_.memory.Join(set, SetPool::Single(MakeRef(kUnknown)));
  const bool has_view = (r.view | r.element_view) != 0;
  if (r.fresh || has_view) {
    const bool tensor = MayBeTensor(type), container = MayBeContainer(type);
    uint32_t own;
    if (tensor) {
      own = s_.memory.Own(out, r.fresh ? ObjectKind::kTensor : ObjectKind::kView, true, container);
      SetId mine = storages;
      if (r.fresh) mine = s_.memory.Join(mine, SetPool::Single(MakeRef(own)));
      for (size_t j = 0; j < k && j < 32; ++j) {
        if (!(r.overlaps_results & (1u << j))) continue;
        uint32_t other = s_.records.RecordOf(node.outputs[j]).own;
        if (other != 0) mine = s_.memory.Join(mine, s_.objects[other].storage);
      }
      s_.memory.SetStorage(own, mine);
    } else {
      own = s_.memory.Own(out, ObjectKind::kContainer, false, true);
      s_.objects[own].storage = SetPool::Single(MakeRef(own));
    }
    set = s_.memory.Join(set, SetPool::Single(MakeRef(own)));
  }
  return set;
}

// Unknown code without globals. It may put everything that its arguments reach, and everything that it makes, into any
// container that they reach; nothing else.
void Evaluator::EvaluateCall(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed) {
  // Many arguments are the same. A few are remembered, and what they reach.
  struct Reached {
    SetId handles, all;
    bool moves = false;
  };
  absl::InlinedVector<Reached, 8> seen;
  SetId reach = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SetId p = s_.records.PointsTo(node.inputs[i]);
    const auto is_this = [&](const Reached& r) { return r.handles == p; };
    const auto known = std::find_if(seen.begin(), seen.end(), is_this);
    const bool moves = (e.arg(i) & kWritesGeometry) != 0;
    if (known != seen.end()) {
      known->moves |= moves;
      continue;
    }
    const SetId all = s_.containers.Reach(p, n);
    reach = s_.memory.Join(reach, all);
    if (seen.size() < seen.capacity()) seen.push_back({p, all, moves});
  }
  // Nothing is stored into objects that are not distinguished: values that are put there escape.
  bool escapes = node.outputs.empty();
  SetId target = 0;  // where its tensors may be
  for (Ref r : s_.sets.Refs(reach)) {
    const Object& o = s_.objects[ObjectOf(r)];
    escapes |= o.container && (o.external || o.escaped || o.kind == ObjectKind::kSummary);
    if (o.tensor) target = s_.memory.Join(target, s_.memory.Storages(r));
  }
  if (!node.outputs.empty()) {
    // Containers and tensors are kept apart: a caller's handle may come to lie in the memory of the latter.
    const uint32_t made = s_.memory.Own(node.outputs[0], ObjectKind::kMade, false, true);
    const uint32_t tensors = s_.containers.ElementObject(made, kAnySlot, true, false, ObjectKind::kMade);
    s_.objects[tensors].loop = s_.objects[made].loop;
    target = s_.memory.Join(target, SetPool::Single(MakeRef(tensors)));
    s_.memory.SetStorage(made, SetPool::Single(MakeRef(made)));
    s_.memory.SetStorage(tensors, target);
    SetId all =
        s_.memory.Join(s_.memory.Join(reach, SetPool::Single(MakeRef(made))), SetPool::Single(MakeRef(tensors)));
    if (s_.budget.overdrawn) all = s_.memory.Grown(s_.containers.ContentsOf(made).of_call, all);
    s_.containers.ContentsOf(made).of_call = all;
    const uint64_t made_of = s_.memory.Fingerprint(all);
    if (!first) s_.containers.ContainerMade(made, made_of, inputs_changed);
    s_.containers.ContentsOf(made).made_of = made_of;
    for (ValueId out : node.outputs) {
      SetId s = s_.containers.OfType(all, s_.g.value(out).type);
      if (escapes && s != 0) s = s_.memory.Join(s, SetPool::Single(MakeRef(kUnknown)));
      s_.work.SetPointsTo(out, s, n, first);
    }
    for (Ref r : s_.sets.Refs(reach)) {
      if (escapes || !s_.objects[ObjectOf(r)].container) continue;
      Store s;
      s.node = n;
      s.value = node.outputs[0];
      s.by_call = true;
      s.set = s_.containers.OfType(all, s_.containers.TypeOfElement(ObjectOf(r), kAnySlot));
      s.last = made_of;
      s_.stores.new_stores.push_back({ObjectOf(r), s});
      Store places;  // whatever the elements were, they may have changed places
      places.node = n;
      places.shuffle = true;
      s_.stores.new_stores.push_back({ObjectOf(r), places});
    }
    if (escapes) s_.memory.Escape(SetPool::Single(MakeRef(made)));
  }
  s_.recorder.AddAccesses(n, node.inputs, e, 0);
  if (escapes) s_.stores.AddStores(n, node, e);
  for (const Reached& r : seen) {
    if (r.moves) s_.memory.MoveStorage(n, r.all, target);
  }
  // The others, if there are so many.
  const auto is_seen = [&](SetId p) {
    return std::any_of(seen.begin(), seen.end(), [&](const Reached& r) { return r.handles == p; });
  };
  for (size_t i = seen.size(); i < node.inputs.size(); ++i) {
    const SetId p = s_.records.PointsTo(node.inputs[i]);
    if ((e.arg(i) & kWritesGeometry) && !is_seen(p)) s_.memory.MoveStorage(n, s_.containers.Reach(p, n), target);
  }
}

void Evaluator::EvaluateGeneric(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed) {
  if (e.kind == EffectKind::kCall) return EvaluateCall(n, node, e, first, inputs_changed);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId out = node.outputs[k];
    if (!IsAliasingType(s_.g.value(out).type)) {
      if (!first) s_.work.SetPointsTo(out, 0, n, false);
      continue;
    }
    SetId s = ResultSet(n, node, e, k);
    const uint32_t own = s_.records.RecordOf(out).own;
    if (own != 0 && s_.objects[own].container) {
      s_.containers.RefreshPieces(own);  // when a loop is walked again too
      s_.containers.MakeContents(own, first, inputs_changed);
    }
    s_.work.SetPointsTo(out, s, n, first);
  }
  if (e.writes || e.random || e.side_effect || s_.accesses.reads_active) s_.recorder.AddAccesses(n, node.inputs, e, 0);
  if (e.writes || e.kind == EffectKind::kUnknown) s_.stores.AddStores(n, node, e);
  // set_: the handle moves to another storage. Unknown code may do so to every handle that it gets.
  const auto reached = [&](ValueId v) { return s_.containers.Reach(s_.records.PointsTo(v), n); };
  if (e.kind == EffectKind::kUnknown) {
    for (ValueId v : node.inputs) s_.memory.MoveStorage(n, reached(v), SetPool::Single(MakeRef(kUnknown)));
  } else if (!node.inputs.empty() && e.storage_unknown) {
    s_.memory.MoveStorage(n, reached(node.inputs[0]), SetPool::Single(MakeRef(kUnknown)));
  } else if (e.geometry_from >= 0 && e.geometry_from < static_cast<int>(node.inputs.size())) {
    s_.memory.MoveStorage(n, reached(node.inputs[0]),
                          s_.memory.StoragesOfSet(s_.records.PointsTo(node.inputs[e.geometry_from])));
  }
}

}  // namespace smelt::alias_internal
