// Evaluation: what a node makes of its inputs' objects.
#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::kAnySlot;
using alias_internal::kAsync;
using alias_internal::kGeometryWrite;
using alias_internal::MakeRef;
using alias_internal::MayBeContainer;
using alias_internal::MayBeTensor;
using alias_internal::Mix;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::Store;
using alias_internal::UnwrapOptional;

void AliasDb::State::Push(NodeId n) {
  if (g.IsReturn(n)) {
    NodeId owner = g.block(g.node(n).parent).owner;
    if (!owner.valid()) {
      outputs_known = false;
      return;
    }
    n = owner;
  }
  NodeRecord& r = RecordOf(n);
  if (!(r.flags & NodeRecord::kEvaluated) || (r.flags & NodeRecord::kQueued)) return;
  r.flags |= NodeRecord::kQueued;
  // While a loop is solved again, sets grow from nothing; what is outside waits for the result.
  const bool waits = resolving.valid() && OutermostLoop(n) != resolving;
  (waits ? waiting : queue).push_back(n);
}

void AliasDb::State::PushUsers(ValueId v) {
  for (const Use& u : g.value(v).uses) {
    Push(u.user);
    if (!monotone && !g.IsReturn(u.user)) RecordOf(u.user).flags |= NodeRecord::kInputsChanged;
  }
}

void AliasDb::State::PushReaders(uint32_t object, bool changed) {
  auto it = contents.find(object);
  if (it == contents.end()) return;
  it->second.summed = 0;
  it->second.sum = 0;
  std::vector<NodeId>& known = it->second.readers;
  if (known.size() > 2 * it->second.distinct + 8) {
    // Each once, in the order of their last looks.
    absl::flat_hash_set<uint32_t> seen;
    std::vector<NodeId> kept;
    for (size_t i = known.size(); i-- > 0;) {
      if (g.IsLive(known[i]) && seen.insert(known[i].index).second) kept.push_back(known[i]);
    }
    std::reverse(kept.begin(), kept.end());
    known = std::move(kept);
    it->second.distinct = static_cast<uint32_t>(known.size());
  }
  const std::vector<NodeId> readers = known;
  for (NodeId n : readers) {
    if (!g.IsLive(n)) continue;
    if (changed && !monotone) ResolveAround(n);
    Push(n);
  }
}

void AliasDb::State::SetPointsTo(ValueId v, SetId s, NodeId by, bool first) {
  ValueRecord& r = RecordOf(v);
  if (first) {
    r.points_to = s;
    return;
  }
  const SetId before = r.points_to;
  // Two values that are read from what the other is stored in could otherwise change in turns for ever.
  if (growing && before != 0 && s != before) s = Join(before, s);
  values[v.index].points_to = s;
  bool changed = before != s;
  if (!changed && !touched.empty()) {
    uint64_t last = 0;
    sets.ForEach(s, [&](Ref x) {
      if (auto it = touched.find(ObjectOf(x)); it != touched.end()) last = std::max(last, it->second);
    });
    if (last != 0) {
      uint64_t& epoch = forced[v.index];
      changed = epoch < last;
      epoch = std::max(epoch, last);
    }
  }
  if (!changed) return;
  dirty = true;
  ++content_changes;
  if (!monotone && loops.size() > 1 && (s == before || !sets.Includes(s, before))) {
    ResolveAround(by);
    for (const Use& u : g.value(v).uses) ResolveAround(u.user);
  }
  PushUsers(v);
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
        int32_t slot = kAnySlot;
        if (r.slot_arg >= 0 && r.slot_arg < static_cast<int>(node.inputs.size())) {
          std::optional<int64_t> at = ConstantInt(node.inputs[r.slot_arg]);
          if (at && *at >= 0 && *at < INT32_MAX) slot = static_cast<int32_t>(*at);
          if (at && *at < 0) {
            // From the end: known for a list that nobody changes.
            if (SetPool::IsSingle(p)) {
              const Ref holder = SetPool::SingleRef(p);
              const uint32_t o = ObjectOf(holder);
              auto c = contents.find(o);
              int32_t count;
              bool untouched = true;
              if (c != contents.end()) {
                for (const Store& st : c->second.stores) untouched &= !MayComeBefore(st.node, n, holder);
                for (NodeId sh : c->second.shuffles) untouched &= !MayComeBefore(sh, n, holder);
              }
              // A change of the list may come to be before: then this is asked again.
              contents[o].readers.push_back(n);
              if (untouched) {
                BaseContent(o, kAnySlot, &count);
                if (count >= 0 && *at + count >= 0) slot = static_cast<int32_t>(*at + count);
              }
            }
          }
        }
        SetId inside = ContentOfSet(p, slot, n);
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

// Code that we do not see and that has no globals. What its arguments reach it may put into any container that they
// reach, and with it what it makes; nothing else.
void AliasDb::State::EvaluateCall(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed) {
  SetId reach = 0;
  for (ValueId v : node.inputs) reach = Join(reach, Reach(PointsTo(v), n));
  // Into what is not told apart nothing is stored: what is put there escapes.
  bool escapes = node.outputs.empty();
  SetId target = 0;  // where its tensors may be
  for (Ref r : sets.Refs(reach)) {
    const Object& o = objects[ObjectOf(r)];
    escapes |= o.container && (o.external || o.escaped || o.kind == Kind::kSummary);
    if (o.tensor) target = Join(target, Storages(r));
  }
  if (!node.outputs.empty()) {
    // Containers and tensors apart: a caller's handle may come to lie in the memory of the latter.
    const uint32_t made = Own(node.outputs[0], Kind::kMade, false, true);
    const uint32_t tensors = ElementObject(made, kAnySlot, true, false, Kind::kMade);
    objects[tensors].loop = objects[made].loop;
    target = Join(target, SetPool::Single(MakeRef(tensors)));
    SetStorage(made, SetPool::Single(MakeRef(made)));
    SetStorage(tensors, target);
    const SetId all = Join(Join(reach, SetPool::Single(MakeRef(made))), SetPool::Single(MakeRef(tensors)));
    contents[made].of_call = all;
    const uint64_t made_of = Fingerprint(all);
    if (!first) ContainerMade(made, made_of, inputs_changed);
    contents[made].made_of = made_of;
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
      s.last = made_of;
      new_stores.push_back({ObjectOf(r), s});
      new_stores.push_back({ObjectOf(r), Store()});  // whatever the elements were, they may have changed places
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
      int32_t count;
      if (!first) {
        const SetId inside = BaseContent(own, kAnySlot, &count);
        ContainerMade(own, Fingerprint(inside), inputs_changed);
      }
    }
    SetPointsTo(out, s, n, first);
  }
  if (e.writes || e.random || e.side_effect || reads_active) AddAccesses(n, node.inputs, e, 0);
  if (e.writes || e.kind == EffectKind::kUnknown) AddStores(n, node, e);
  // set_: the handle moves to another storage. Code that we do not see may do so to whatever it gets.
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
    for (uint32_t l = LoopOf(n); l != 0 && !LoopWithin(objects[moved_object].loop, l); l = loops[l].parent) {
      moved = Join(moved, Shift(target, l));
    }
    moved_storage[key] = moved;
    if (objects[moved_object].external) {
      external_moved = true;
      Escape(target);
    }
    std::vector<uint32_t> handles = {moved_object};
    if (key != moved_object) handles = elements_of[key];
    for (uint32_t o : handles) {
      const SetId before = objects[o].storage;
      auto unmoved = unmoved_storage.find(o);
      SetStorage(o, unmoved != unmoved_storage.end() ? unmoved->second : before);
      // Whoever holds it: its definition's users, and theirs.
      if (objects[o].storage != before && objects[o].def.valid() && g.IsLive(objects[o].def)) {
        dirty = true;
        PushUsers(objects[o].def);
        PushReaders(objects[o].parent != 0 ? objects[o].parent : key);
        uint64_t& epoch = forced[objects[o].def.index];
        epoch = touched_epoch;
      }
    }
  }
}

void AliasDb::State::EvaluateInputs() {
  const NodeId param = g.block(g.top()).param_node;
  RecordOf(param).flags |= NodeRecord::kEvaluated;
  absl::Span<const ValueId> inputs = g.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = g.value(inputs[i]).type;
    if (!IsAliasingType(type)) {
      SetPointsTo(inputs[i], 0, param, building);
      continue;
    }
    const uint32_t own = Own(inputs[i], Kind::kInput, MayBeTensor(type), MayBeContainer(type));
    objects[own].external = true;
    SetId storage = SetPool::Single(MakeRef(own));
    if (i < g.input_infos.size() && g.input_infos[i].kind == InputInfo::Kind::kWeight && g.input_infos[i].weight >= 0 &&
        g.input_infos[i].weight < static_cast<int>(g.weights.size())) {
      const int s = g.weights[g.input_infos[i].weight].storage;
      auto [it, inserted] = weight_storages.try_emplace(s, 0);
      if (inserted) {
        uint32_t o = NewObject(Kind::kWeight, ValueId());
        weight_storages[s] = o;
        objects[o].tensor = true;
        objects[o].external = true;
        objects[o].slot = s;
        objects[o].storage = SetPool::Single(MakeRef(o));
      }
      storage = SetPool::Single(MakeRef(weight_storages[s]));
    }
    SetStorage(own, storage);
    SetPointsTo(inputs[i], SetPool::Single(MakeRef(own)), param, building);
  }
}

// If, Loop, cond, while_loop: parameters and outputs.
void AliasDb::State::EvaluateBlockNode(NodeId n, const Node& node, EffectKind kind, bool first) {
  auto set_params = [&](BlockId b, size_t from, size_t i, SetId s) {
    absl::Span<const ValueId> params = g.params(b);
    if (from + i >= params.size()) return;
    ValueId p = params[from + i];
    SetPointsTo(p, IsAliasingType(g.value(p).type) ? s : 0, n, first);
  };
  auto result = [&](BlockId b, size_t i) -> SetId {
    absl::Span<const ValueId> results = g.results(b);
    return i < results.size() ? PointsTo(results[i]) : 0;
  };
  switch (kind) {
    case EffectKind::kCond:
      for (BlockId b : node.blocks) {
        for (size_t i = 1; i < node.inputs.size(); ++i) set_params(b, 0, i - 1, PointsTo(node.inputs[i]));
      }
      [[fallthrough]];
    case EffectKind::kIf: {
      if (first) return;
      std::optional<int64_t> known;
      if (!node.inputs.empty()) {
        if (std::optional<ConstantValue> c = GetConstant(g, node.inputs[0])) {
          if (const bool* b = std::get_if<bool>(&*c)) known = *b ? 0 : 1;
        }
      }
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        SetId s = 0;
        for (size_t b = 0; b < node.blocks.size(); ++b) {
          if (known && static_cast<int64_t>(b) != *known) continue;
          s = Join(s, result(node.blocks[b], k));
        }
        SetPointsTo(node.outputs[k], s, n, false);
      }
      return;
    }
    case EffectKind::kLoop:
    case EffectKind::kWhile: {
      const bool is_while = kind == EffectKind::kWhile;
      if (node.blocks.empty()) return;
      const BlockId body = is_while && node.blocks.size() > 1 ? node.blocks[1] : node.blocks[0];
      const size_t inputs_from = is_while ? 0 : 2, inner_from = is_while ? 0 : 1;
      const uint32_t loop = LoopIndex(n);
      bool runs = false;  // at least once
      if (!first && !is_while && node.inputs.size() >= 2) {
        std::optional<int64_t> trips = ConstantInt(node.inputs[0]);
        if (trips && *trips > 0) {
          std::optional<ConstantValue> c = GetConstant(g, node.inputs[1]);
          runs = c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
        }
      }
      for (size_t i = inputs_from; i < node.inputs.size(); ++i) {
        const size_t k = i - inputs_from;
        const SetId init = PointsTo(node.inputs[i]);
        SetId s = init;
        SetId back = 0;
        if (k < g.results(body).size() - (is_while ? 0 : std::min<size_t>(1, g.results(body).size()))) {
          back = result(body, inner_from + k);
          s = Join(s, Shift(back, loop));
        }
        // What no longer comes in may be kept alive by the back edge alone.
        std::vector<SetId>& carried = loops[loop].carried;
        if (carried.size() < 2 * k + 2) carried.resize(2 * k + 2);
        if (!monotone && (!sets.Includes(init, carried[2 * k]) || !sets.Includes(back, carried[2 * k + 1]))) {
          resolve_loops.insert(OutermostLoop(n).index);
        }
        carried[2 * k] = init;
        carried[2 * k + 1] = back;
        for (BlockId b : node.blocks) set_params(b, is_while ? 0 : 1, k, s);
        if (!first && k < node.outputs.size()) {
          SetPointsTo(node.outputs[k], runs ? back : Join(init, back), n, false);
        }
      }
      return;
    }
    default:
      return;
  }
}

void AliasDb::State::Evaluate(NodeId n, bool first) {
  const Node& node = g.node(n);
  NodeRecord& record = RecordOf(n);
  ++evaluations;
  making_first = building && first;
  first_in_loop = first && walk_loop != 0 && walk_loop != UINT32_MAX;
  // While sets also shrink, a reader may have looked when inputs were something else for a moment.
  const bool inputs_changed = !monotone && (record.flags & NodeRecord::kInputsChanged) != 0;
  record.flags &= ~NodeRecord::kInputsChanged;
  const OpEffects& op = GetOpEffects(node.op);
  const uint8_t had = record.flags;
  std::vector<std::pair<uint32_t, Store>> had_stores;
  if (had & NodeRecord::kStores) had_stores = StoresOf(n);
  if (!first || had != 0) ForgetAccesses(record);
  new_stores.clear();
  record.flags = (record.flags | NodeRecord::kEvaluated) &
                 ~(NodeRecord::kEscapes | NodeRecord::kMovesStorage | NodeRecord::kGeometry);
  // The fast road: new memory, reads only.
  if (op.pure) {
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
  } else {
    switch (op.kind) {
      case EffectKind::kConstant:
        for (ValueId out : node.outputs) {
          const Type& type = g.value(out).type;
          if (!IsAliasingType(type) || (node.attributes.empty() && type.kind() != TypeKind::kClass)) continue;
          const uint32_t own = Own(out, Kind::kConstant, MayBeTensor(type), MayBeContainer(type));
          objects[own].storage = SetPool::Single(MakeRef(own));
          SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
        }
        break;
      case EffectKind::kIf:
      case EffectKind::kCond:
      case EffectKind::kLoop:
      case EffectKind::kWhile:
        EvaluateBlockNode(n, node, op.kind, first);
        break;
      case EffectKind::kTupleConstruct:
      case EffectKind::kListConstruct:
      case EffectKind::kDictConstruct:
      case EffectKind::kTupleSlice:
      case EffectKind::kCreateObject:
        for (ValueId out : node.outputs) {
          const Type& type = g.value(out).type;
          if (!IsAliasingType(type)) {
            if (!first) SetPointsTo(out, 0, n, false);
            continue;
          }
          const uint32_t own = Own(out, Kind::kContainer, false, true);
          objects[own].storage = SetPool::Single(MakeRef(own));
          if (!first) {
            uint64_t made_of = 1;
            for (ValueId v : node.inputs) {
              made_of = Mix(made_of, Fingerprint(PointsTo(v)));
            }
            if (op.kind == EffectKind::kTupleSlice) {
              int32_t count;
              made_of = Mix(made_of, Fingerprint(BaseContent(own, kAnySlot, &count)));
            }
            ContainerMade(own, made_of, inputs_changed);
          }
          SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
        }
        break;
      case EffectKind::kTupleUnpack:
      case EffectKind::kListUnpack:
      case EffectKind::kTupleIndex:
      case EffectKind::kGetAttr:
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
              auto it = elements.find({ObjectOf(r), slot});
              if (it == elements.end()) {
                ElementObject(ObjectOf(r), slot, MayBeTensor(type), MayBeContainer(type), Kind::kElement);
              }
            });
          }
          SetPointsTo(node.outputs[k], ContentOfSet(p, slot, n), n, first);
        }
        if (reads_active) AddAccesses(n, node.inputs, op, 0);
        break;
      case EffectKind::kConstantChunk:
        for (ValueId out : node.outputs) {
          const uint32_t own = Own(out, Kind::kView, true, false);
          SetStorage(own, node.inputs.empty() ? 0 : StoragesOfSet(PointsTo(node.inputs[0])));
          SetPointsTo(out, SetPool::Single(MakeRef(own)), n, first);
        }
        if (reads_active) AddAccesses(n, node.inputs, op, 0);
        break;
      case EffectKind::kWait: {
        const SetId p = node.inputs.empty() ? 0 : PointsTo(node.inputs[0]);
        OpEffects wait = op;
        for (size_t k = 0; k < node.outputs.size(); ++k) {
          const Type& type = g.value(node.outputs[k]).type;
          if (IsAliasingType(type)) SetPointsTo(node.outputs[k], OfType(ContentOfSet(p, kAnySlot, n), type), n, first);
        }
        AddAccesses(n, node.inputs, wait, 0);
        // What the forked graph does may happen here.
        for (Ref r : sets.Refs(p)) {
          const Object& future = objects[ObjectOf(r)];
          if (future.def.valid() && g.IsLive(future.def) &&
              GetOpEffects(g.node(g.value(future.def).def).op).kind == EffectKind::kFork) {
            const Node& fork = g.node(g.value(future.def).def);
            OpEffects e = EffectsOf(fork);
            e.side_effect = e.random = false;
            AddAccesses(n, fork.inputs, e, 0);
          } else {
            OpEffects e = GetOpEffects(OpName::Get("prim::PythonOp"));
            e.side_effect = e.random = false;
            AddAccesses(n, {}, e, 0);
          }
        }
        break;
      }
      case EffectKind::kFork: {
        OpEffects e = EffectsOf(node);
        const bool unknown = e.kind == EffectKind::kUnknown;
        if (unknown) {
          e.results.assign(1, ResultEffects());
          e.results[0].fresh = true;
        }
        EvaluateGeneric(n, node, e, first, inputs_changed);
        if (unknown && !node.outputs.empty()) {
          // What the future will hold may be anything that has escaped.
          Escape(PointsTo(node.outputs[0]));
          nodes[n.index].flags |= NodeRecord::kEscapes;
        }
        if (e.writes) AddAccesses(n, node.inputs, e, kAsync);
        break;
      }
      case EffectKind::kSetAttr: {
        AddAccesses(n, node.inputs, op, 0);
        AddStores(n, node, op);
        break;
      }
      case EffectKind::kSubgraph: {
        OpEffects e = EffectsOf(node);
        EvaluateGeneric(n, node, e, first, inputs_changed);
        break;
      }
      default:
        if (op.by == OpEffects::By::kNothing) {
          EvaluateGeneric(n, node, op, first, inputs_changed);
        } else {
          OpEffects e = EffectsOf(node);
          EvaluateGeneric(n, node, e, first, inputs_changed);
        }
        break;
    }
  }
  NodeRecord& after = nodes[n.index];
  if (!had_stores.empty() || !new_stores.empty()) {
    const bool changed = CommitStores(n, had_stores);
    // Straight-line code that is walked for the first time has no reader that a store could reach.
    if ((changed || inputs_changed) && !(first && walk_loop == 0)) {
      dirty |= changed;
      for (const auto& [o, store] : had_stores) PushReaders(o, changed);
      for (const auto& [o, store] : new_stores) PushReaders(o, changed);
    }
  }
  if (after.first_write != 0) {
    bool geometry = false;
    for (uint32_t i = after.first_write; i != 0; i = writes.at(i).node_next)
      geometry |= (writes.at(i).bits & kGeometryWrite) != 0;
    if (geometry) after.flags |= NodeRecord::kGeometry;
  }
  const int64_t change = ((after.flags & NodeRecord::kGeometry) ? 1 : 0) - ((had & NodeRecord::kGeometry) ? 1 : 0);
  if (change != 0) {
    const bool before = geometry_writers == 0;
    geometry_writers += change;
    if (before != (geometry_writers == 0)) needs_rebuild = true;
  }
  // What was let out, or moved, cannot be taken back piecemeal.
  const uint8_t sticky = NodeRecord::kEscapes | NodeRecord::kMovesStorage;
  if (!monotone && (had & sticky) != 0) needs_rebuild = true;
}

}  // namespace smelt
