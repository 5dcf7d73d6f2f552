#include "smelt/alias/containers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Containers::Clear() {
  contents.Clear();
  elements.Clear();
  joined_containers.clear();
  readers.Clear();
}

int64_t Containers::bytes() const { return contents.bytes() + elements.bytes() + readers.bytes(); }

void Containers::ContainerMade(uint32_t own, uint64_t made_of, bool inputs_changed) {
  Contents& c = ContentsOf(own);
  const bool changed = c.made_of != made_of;
  if (!changed && !inputs_changed) return;
  c.made_of = made_of;
  s_.changes.dirty |= changed;
  s_.changes.reach |= changed;
  readers.Push(own, changed);
  if (s_.objects[own].escaped) s_.memory.Escape(ContentOf(MakeRef(own), kAnySlot, NodeId()));
}

Type Containers::TypeOfElement(uint32_t container, int32_t slot) {
  Type t = UnwrapOptional(TypeOfObject(container));
  switch (t.kind()) {
    case TypeKind::kList:
    case TypeKind::kFuture:
      return t.element();
    case TypeKind::kDict:
      return t.elements()[1];
    case TypeKind::kTuple:
      if (slot >= 0 && slot < static_cast<int32_t>(t.elements().size())) return t.elements()[slot];
      if (t.elements().size() == 1) return t.elements()[0];
      return Type();
    default:
      return Type();
  }
}

Type Containers::TypeOfObject(uint32_t object, int depth) {
  const Object& o = s_.objects[object];
  if (depth > kMaxElementDepth || o.kind == ObjectKind::kMade) return Type();
  if ((o.kind == ObjectKind::kElement || o.kind == ObjectKind::kPiece) && o.parent != 0) {
    if (o.tensor && !o.container) return Type::Tensor();
    return TypeOfElement(o.parent, o.slot);
  }
  if (o.def.valid() && s_.g.IsLive(o.def)) return s_.g.value(o.def).type;
  return Type();
}

uint32_t Containers::ElementObject(uint32_t parent, int32_t slot, bool tensor, bool container, ObjectKind kind) {
  if (const uint32_t known = elements.Find(parent, slot); known != 0) return known;
  int depth = 0;
  for (uint32_t p = parent; p != 0; p = s_.objects[p].parent) ++depth;
  if (depth > kMaxElementDepth) return kUnknown;
  uint32_t o = s_.objects.New(kind, ValueId());
  elements.Add(parent, slot, o);
  Object& e = s_.objects[o];
  e.def = s_.objects[parent].def;
  e.parent = parent;
  e.slot = slot;
  e.tensor = tensor;
  e.container = container;
  e.loop = s_.objects[parent].loop;
  e.external = kind == ObjectKind::kElement;
  if (kind != ObjectKind::kPiece) {
    e.storage = SetPool::Single(MakeRef(o));
  } else {
    SetId storage = PieceStorage(parent, o);
    if (auto moved = s_.memory.moved_storage.find(parent); moved != s_.memory.moved_storage.end())
      storage = s_.memory.Join(storage, moved->second);
    s_.objects[o].storage = storage;
    // Containers that one operator made share a list of accesses, and so their fate.
    if (container) ContentsOf(o).base = MadeWith(o, nullptr);
    const uint32_t sibling = elements.FirstOf(parent);
    if (sibling != o && s_.objects[sibling].kind == ObjectKind::kPiece && s_.objects[sibling].group != 0) {
      s_.objects[o].group = s_.objects.Find(sibling);
      if (container) joined_containers.push_back(MakeRef(o));
    }
    if (s_.objects[parent].escaped || s_.objects[sibling].escaped) s_.memory.Escape(SetPool::Single(MakeRef(o)));
  }
  return o;
}

// The storage of the tensors that an operator puts into the list that it makes.
SetId Containers::PieceStorage(uint32_t container, uint32_t piece) {
  const Object& c = s_.objects[container];
  if (c.kind == ObjectKind::kConstant || !c.def.valid() || !s_.g.IsLive(c.def)) return SetPool::Single(MakeRef(piece));
  const Value& value = s_.g.value(c.def);
  const Node& node = s_.g.node(value.def);
  OpEffects made;
  const ResultEffects& r = s_.effects.EffectsOf(node, &made).result(value.def_index);
  SetId out = 0;
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    uint64_t bit = uint64_t{1} << i;
    if (r.elements_view & bit) out = s_.memory.Join(out, s_.memory.StoragesOfSet(s_.records.PointsTo(node.inputs[i])));
    if (r.elements_element_view & bit) {
      out = s_.memory.Join(
          out, s_.memory.StoragesOfSet(ContentOfSet(s_.records.PointsTo(node.inputs[i]), kAnySlot, value.def)));
    }
  }
  if (r.elements_fresh || out == 0) out = s_.memory.Join(out, SetPool::Single(MakeRef(piece)));
  return out;
}

void Containers::RefreshPieces(uint32_t container) {
  const Elements pieces = elements.Of(container);
  bool changed = false;
  for (uint32_t p : pieces) {
    s_.objects[p].loop = s_.objects[container].loop;
    // No piece is deeper than what such a piece holds.
    for (uint32_t i : elements.Of(p)) s_.objects[i].loop = s_.objects[container].loop;
    if (s_.objects[p].kind != ObjectKind::kPiece) continue;
    const SetId before = s_.objects[p].storage;
    s_.memory.SetStorage(p, PieceStorage(container, p));
    changed |= s_.objects[p].storage != before;
    if (!s_.objects[p].container) continue;
    const SetId base = MadeWith(p, nullptr);
    if (std::exchange(ContentsOf(p).base, base) != base) readers.Push(p);
  }
  if (changed) {
    s_.changes.dirty = s_.changes.reach = true;
    readers.Push(container);
  }
}

SetId Containers::JoinedInputs(const Node& node) {
  SetJoiner out(s_);
  for (ValueId v : node.inputs) out.Add(s_.records.PointsTo(v));
  return out.Joined();
}

// The elements that a container is made with, as its node's arguments are now, apart from those that are new handles.
SetId Containers::MadeWith(uint32_t object, std::vector<SetId>* slots) {
  const Object o = s_.objects[object];
  if (!o.def.valid() || !s_.g.IsLive(o.def)) return 0;
  const Value& value = s_.g.value(o.def);
  const Node& node = s_.g.node(value.def);
  SetId out = 0;
  if (o.kind == ObjectKind::kPiece) {
    // A container inside a container that an operator made: whatever the operator's arguments reach.
    for (ValueId v : node.inputs)
      out = s_.memory.Join(out, Reach(ContentOfSet(s_.records.PointsTo(v), kAnySlot, value.def), value.def));
    OpEffects made;
    const ResultEffects& r = s_.effects.EffectsOf(node, &made).result(value.def_index);
    for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
      if (r.elements_self & uint64_t{1} << i) out = s_.memory.Join(out, s_.records.PointsTo(node.inputs[i]));
    }
    return out;
  }
  switch (GetOpEffects(node.op).kind) {
    case EffectKind::kListConstruct:
    case EffectKind::kTupleConstruct:
    case EffectKind::kDictConstruct:
      return JoinedInputs(node);
    case EffectKind::kTupleSlice: {
      if (node.inputs.empty()) return 0;
      const Attribute* beg = node.FindAttribute("beg");
      const int64_t* b = beg != nullptr ? std::get_if<int64_t>(beg) : nullptr;
      const SetId whole = s_.records.PointsTo(node.inputs[0]);
      const Type& t = UnwrapOptional(value.type);
      const bool known = b != nullptr && *b >= 0 && t.kind() == TypeKind::kTuple && !t.elements().empty();
      if (!known) return ContentOfSet(whole, kAnySlot, value.def);
      for (size_t k = 0; k < t.elements().size(); ++k) {
        const SetId at = ContentOfSet(whole, static_cast<int32_t>(*b + k), value.def);
        out = s_.memory.Join(out, at);
        if (slots != nullptr) slots->push_back(at);
      }
      return out;
    }
    case EffectKind::kCreateObject:
      return 0;
    default:
      break;
  }
  OpEffects made;
  const ResultEffects& r = s_.effects.EffectsOf(node, &made).result(value.def_index);
  if (r.elements_unknown) out = SetPool::Single(MakeRef(kUnknown));
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (r.elements_self & bit) out = s_.memory.Join(out, s_.records.PointsTo(node.inputs[i]));
    if (!(r.elements_element & bit)) continue;
    const SetId held = ContentOfSet(s_.records.PointsTo(node.inputs[i]), kAnySlot, value.def);
    // A dictionary of a list's pairs holds what they hold. Other containers of what the arguments hold are pieces,
    // which hold it.
    if (!r.elements_deep) {
      out = s_.memory.Join(out, held);
    } else if (UnwrapOptional(value.type).kind() == TypeKind::kDict) {
      out = s_.memory.Join(out, Reach(held, value.def));
    }
  }
  return out;
}

void Containers::MakeContents(uint32_t own, bool first, bool inputs_changed) {
  if (s_.evaluator.parts != nullptr && !first) return MakePartsOf(own);
  std::vector<SetId> slots;
  const SetId base = MadeWith(own, &slots);
  if (first && base == 0 && FindContents(own) == nullptr) return;
  uint64_t made_of = Mix(1, s_.memory.Fingerprint(base));
  const Node& node = s_.g.node(s_.g.value(s_.objects[own].def).def);
  const EffectKind kind = GetOpEffects(node.op).kind;
  if (kind == EffectKind::kListConstruct || kind == EffectKind::kTupleConstruct) {
    for (ValueId v : node.inputs) made_of = Mix(made_of, s_.sets.Hash(s_.records.PointsTo(v)));
    s_.steps += static_cast<int64_t>(node.inputs.size());
  }
  for (SetId s : slots) made_of = Mix(made_of, s_.sets.Hash(s));
  Contents& c = ContentsOf(own);
  c.base = base;
  c.slots = std::move(slots);
  if (first) {
    c.made_of = made_of;
  } else {
    ContainerMade(own, made_of, inputs_changed);
  }
}

// Evaluates a container that was made with very many elements, some of which have changed. Where no edit has paid for
// looking at all of them, it also keeps their old values.
void Containers::MakePartsOf(uint32_t own) {
  const Node& node = s_.g.node(s_.g.value(s_.objects[own].def).def);
  const std::vector<uint32_t> changed = *s_.evaluator.parts;
  const int64_t cost = static_cast<int64_t>(node.inputs.size());
  if (!s_.solver.monotone && !s_.budget.overdrawn && s_.budget.Affords(cost)) {
    s_.solver.Spend(cost);
    s_.evaluator.parts = nullptr;
    return MakeContents(own, false, true);
  }
  if (!s_.solver.monotone) s_.budget.stale = s_.budget.keeps_freed = true;
  Contents& c = ContentsOf(own);
  SetId base = c.base;
  uint64_t made_of = c.made_of;
  for (uint32_t k : changed) {
    if (k >= node.inputs.size()) continue;
    base = s_.memory.Join(base, s_.records.PointsTo(node.inputs[k]));
    made_of = Mix(made_of, s_.memory.Fingerprint(s_.records.PointsTo(node.inputs[k])));
    ++s_.steps;
  }
  ContentsOf(own).base = base;
  ContainerMade(own, made_of, false);
}

// The elements a container was made with. *count: how many, -1 if not known.
SetId Containers::BaseContent(uint32_t object, int32_t slot, int32_t* count) {
  *count = -1;
  const Object o = s_.objects[object];
  if (o.kind == ObjectKind::kInput || o.kind == ObjectKind::kElement) {
    Type t = TypeOfElement(object, slot);
    if (!IsAliasingType(t)) return 0;
    return SetPool::Single(
        MakeRef(ElementObject(object, slot, MayBeTensor(t), MayBeContainer(t), ObjectKind::kElement)));
  }
  if (!o.def.valid() || !s_.g.IsLive(o.def)) return 0;
  const Contents* c = FindContents(object);
  const SetId base = c != nullptr ? c->base : 0;
  if (o.kind == ObjectKind::kMade) return c != nullptr ? c->of_call : 0;
  const Value& value = s_.g.value(o.def);
  const Node& node = s_.g.node(value.def);
  if (o.kind == ObjectKind::kPiece) {
    // A graph's (tuple, (view, fresh)): one piece for all, of whatever types.
    const EffectKind kind = GetOpEffects(node.op).kind;
    const Type t = TypeOfElement(object, kAnySlot);
    const bool inner = s_.objects[o.parent].kind == ObjectKind::kPiece;  // SummaryOf does not describe what is deeper
    if ((kind == EffectKind::kFork || kind == EffectKind::kSubgraph) && !inner && IsAliasingType(t)) {
      const uint32_t piece = ElementObject(object, kAnySlot, MayBeTensor(t), MayBeContainer(t), ObjectKind::kPiece);
      return s_.memory.Join(base, SetPool::Single(MakeRef(piece)));
    }
    return base;
  }
  if (o.kind == ObjectKind::kConstant) {
    Type t = TypeOfElement(object, slot);
    if (!IsAliasingType(t)) return 0;
    return SetPool::Single(MakeRef(ElementObject(object, slot, MayBeTensor(t), MayBeContainer(t), ObjectKind::kPiece)));
  }
  switch (GetOpEffects(node.op).kind) {
    case EffectKind::kListConstruct:
    case EffectKind::kTupleConstruct:
      *count = static_cast<int32_t>(node.inputs.size());
      if (slot >= 0) return slot < *count ? s_.records.PointsTo(node.inputs[slot]) : 0;
      return base;
    case EffectKind::kDictConstruct:
    case EffectKind::kCreateObject:
      return base;
    case EffectKind::kTupleSlice:
      return slot >= 0 && c != nullptr && slot < static_cast<int32_t>(c->slots.size()) ? c->slots[slot] : base;
    default:
      break;
  }
  OpEffects made;
  const ResultEffects& r = s_.effects.EffectsOf(node, &made).result(value.def_index);
  if (r.elements_view == 0 && r.elements_element_view == 0 && !r.elements_fresh && !r.elements_deep) return base;
  Type t = TypeOfElement(object, slot);
  if (!IsAliasingType(t)) return base;
  // Only the pieces of a partition are disjoint; and new tensors are each new.
  const bool distinct =
      r.partition || (r.elements_fresh && !r.elements_overlap && r.elements_view == 0 && r.elements_element_view == 0);
  const int32_t which = distinct ? slot : r.elements_view == 0 && r.elements_element_view == 0 ? kAnySlot : slot;
  if (which == kAnySlot) t = TypeOfElement(object, kAnySlot);
  const uint32_t piece = ElementObject(object, which, MayBeTensor(t), MayBeContainer(t), ObjectKind::kPiece);
  return s_.memory.Join(base, SetPool::Single(MakeRef(piece)));
}

// A container that holds more than what was just put there, as nobody has paid for looking at each store.
bool Containers::KeepMore(uint32_t container) {
  if (!s_.objects[container].container || s_.objects[container].kind == ObjectKind::kSummary) return true;
  const SetId now = ContentNow(MakeRef(container), kAnySlot, NodeId());
  const SetId kept = s_.memory.Grown(ContentsOf(container).kept, now);
  const uint64_t told = s_.memory.Fingerprint(kept);
  Contents& c = ContentsOf(container);
  if (std::exchange(c.blurred, true) && c.kept == kept && c.kept_told == told) return false;
  c.kept = kept;
  c.kept_told = told;
  return true;
}

SetId Containers::ContentOf(Ref holder, int32_t slot, NodeId reader) {
  const uint32_t o = ObjectOf(holder);
  const Contents* known = s_.objects[o].container && o != kUnknown ? FindContents(o) : nullptr;
  if (known == nullptr || !known->blurred) return ContentNow(holder, slot, reader);
  ++s_.steps;
  if (reader.valid()) readers.Note(o, reader);
  const SetId kept = FindContents(o)->kept;
  SetId out = IsOld(holder) ? s_.memory.OldContents(kept, s_.objects[o].loop) : kept;
  if ((s_.objects[o].external && MayHoldOthers(o, kAnySlot)) || s_.objects[o].escaped) {
    out = s_.memory.Join(out, SetPool::Single(MakeRef(kUnknown)));
  }
  return out;
}

SetId Containers::ContentNow(Ref holder, int32_t slot, NodeId reader) {
  const uint32_t o = ObjectOf(holder);
  ++s_.steps;
  if (o == kUnknown) return SetPool::Single(MakeRef(kUnknown));
  if (s_.objects[o].kind == ObjectKind::kSummary) {
    const uint32_t f = s_.objects.Find(o);
    if (reader.valid()) readers.Note(f, reader);
    const Contents* c = FindContents(f);
    SetId out = c != nullptr ? c->base : 0;
    if (s_.objects[f].external || s_.objects[f].escaped) out = s_.memory.Join(out, SetPool::Single(MakeRef(kUnknown)));
    return out;
  }
  if (!s_.objects[o].container) return 0;
  if (reader.valid()) readers.Note(o, reader);
  const Contents* c = FindContents(o);
  const bool many = c != nullptr && c->HasMany();
  if (c != nullptr && slot >= 0 && c->shuffles != 0) {
    if (many || std::any_of(c->stores.begin(), c->stores.end(), [&](const Store& s) {
          return s.shuffle && s_.stores.MayComeBefore(s.node, reader, holder);
        })) {
      slot = kAnySlot;
    }
  }
  int32_t count;
  SetId out = BaseContent(o, slot < 0 ? kAnySlot : slot, &count);
  const uint32_t holder_loop = s_.objects[o].loop;
  if (IsOld(holder)) out = s_.memory.OldContents(out, holder_loop);
  // Where elements are appended, the first ones stay where they are.
  const bool among_first = slot >= 0 && slot < count;
  if (many) {
    const auto& [stored, appended] = *c->sums;
    SetId seen = stored[1];
    if (!among_first) seen = s_.memory.Join(seen, appended[1]);
    out = s_.memory.Join(out, IsOld(holder) ? s_.memory.OldContents(seen, holder_loop) : seen);
  } else if (c != nullptr) {
    for (size_t i = 0; i < c->stores.size(); ++i) {
      ++s_.steps;
      const Store& s = c->stores[i];
      if (s.shuffle || s.set == 0) continue;
      if (slot >= 0 && ((s.slot >= 0 && s.slot != slot) || (s.slot == kAppended && among_first))) continue;
      const bool before = !reader.valid() || s_.stores.Precedes(s.node, reader) == 1;
      const uint32_t common = before && !IsOld(holder) ? 0 : reader.valid() ? s_.loops.CommonOf(s.node, reader) : 0;
      const bool earlier = IsOld(holder) && common != 0 && s_.loops[common].top == s_.loops[holder_loop].top;
      LoopTable::Range range;
      if (before) {
        range = s_.loops.Between(s_.loops.Around(s.node), holder_loop);
      } else if (common != 0) {
        range = s_.loops.Between(common, holder_loop);
        if (range.inner == 0 && !earlier) continue;
      } else {
        continue;
      }
      SetId seen = before || earlier ? s.set : 0;
      // The elements that earlier iterations of the loops around the store have put there.
      if (range.inner != 0)
        seen = s_.memory.Join(s_.memory.Join(seen, s_.memory.Shift(s.set, range.inner)),
                              s_.memory.Shift(s.set, range.outer));
      if (IsOld(holder)) seen = s_.memory.OldContents(seen, holder_loop);
      out = s_.memory.Join(out, seen);
    }
  }
  if ((s_.objects[o].external && MayHoldOthers(o, slot)) || s_.objects[o].escaped) {
    out = s_.memory.Join(out, SetPool::Single(MakeRef(kUnknown)));
  }
  return out;
}

// Returns whether something was stored into a container of the caller's that may be this one.
bool Containers::MayHoldOthers(uint32_t o, int32_t slot) {
  if (s_.stores.external_stores) return true;
  if (s_.stores.external_attributes.empty()) return false;
  const TypeKind kind = UnwrapOptional(TypeOfObject(o)).kind();
  if (kind == TypeKind::kList || kind == TypeKind::kDict || kind == TypeKind::kTuple || kind == TypeKind::kFuture) {
    return false;
  }
  return slot < 0 || s_.stores.external_attributes.contains(slot);
}

SetId Containers::ContentOfSet(SetId s, int32_t slot, NodeId reader) {
  if (SetPool::IsSingle(s)) return ContentOf(SetPool::SingleRef(s), slot, reader);
  SetId out = 0;
  for (Ref r : s_.sets.Refs(s)) out = s_.memory.Join(out, ContentOf(r, slot, reader));
  return out;
}

// A summary holds all that its members hold.
void Containers::FollowJoined() {
  while (!joined_containers.empty()) {
    const Ref r = joined_containers.back();
    joined_containers.pop_back();
    if (!s_.objects[ObjectOf(r)].container || s_.objects[ObjectOf(r)].kind == ObjectKind::kSummary) continue;
    const SetId held = ContentOf(r, kAnySlot, NodeId());
    const uint32_t f = s_.objects.Find(ObjectOf(r));
    if (f == ObjectOf(r)) continue;
    Contents& c = ContentsOf(f);
    const SetId base = s_.memory.Join(c.base, held);
    if (base == c.base) continue;
    c.base = base;
    readers.Push(f);
  }
}

// Returns the set and everything that its containers reach.
SetId Containers::Reach(SetId s, NodeId reader) {
  bool any = false;
  s_.sets.ForEach(s, [&](Ref r) { any |= s_.objects[ObjectOf(r)].container; });
  if (!any) return s;
  SetId all = s;
  SmallSet<Ref, 8> done;
  absl::InlinedVector<Ref, 8> todo = s_.sets.Refs(s);
  while (!todo.empty()) {
    ++s_.steps;
    Ref r = todo.back();
    todo.pop_back();
    if (!done.Insert(r)) continue;
    if (!s_.objects[ObjectOf(r)].container || ObjectOf(r) == kUnknown) continue;
    const SetId inside = ContentOf(r, kAnySlot, reader);
    const SetId before = all;
    all = s_.memory.Join(all, inside);
    if (all == before) continue;
    // Where it has been summarised, the summary stands for its members.
    if (s_.sets.Size(all) < s_.sets.Size(before)) todo = s_.sets.Refs(all);
    s_.sets.ForEach(inside, [&](Ref e) {
      if (s_.sets.Contains(all, e) && !done.Contains(e)) todo.push_back(e);
    });
  }
  return all;
}

SetId Containers::OfType(SetId s, const Type& type) {
  SetJoiner out(s_);
  for (Ref r : s_.sets.Refs(s)) {
    const Object& o = s_.objects[ObjectOf(r)];
    const bool tensor = o.tensor && MayBeTensor(type);
    const bool container = o.container && MayBeContainer(type);
    if (tensor || (container && TypesMeet(TypeOfObject(ObjectOf(r)), type))) out.Add(SetPool::Single(r));
  }
  return out.Joined();
}

}  // namespace smelt::alias_internal
