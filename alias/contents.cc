// The contents of containers: the elements that they were made with, and those that were stored before a reader looks.
#include <algorithm>
#include <utility>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::Contents;
using alias_internal::IsOld;
using alias_internal::kAnySlot;
using alias_internal::kAppended;
using alias_internal::kMaxElementDepth;
using alias_internal::MakeRef;
using alias_internal::MayBeContainer;
using alias_internal::MayBeTensor;
using alias_internal::Mix;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::Store;
using alias_internal::UnwrapOptional;

Type AliasDb::State::TypeOfElement(uint32_t container, int32_t slot) {
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

Type AliasDb::State::TypeOfObject(uint32_t object, int depth) {
  const Object& o = objects[object];
  if (depth > kMaxElementDepth || o.kind == Kind::kMade) return Type();
  if ((o.kind == Kind::kElement || o.kind == Kind::kPiece) && o.parent != 0) {
    if (o.tensor && !o.container) return Type::Tensor();
    return TypeOfElement(o.parent, o.slot);
  }
  if (o.def.valid() && g.IsLive(o.def)) return g.value(o.def).type;
  return Type();
}

uint32_t AliasDb::State::ElementObject(uint32_t parent, int32_t slot, bool tensor, bool container, Kind kind) {
  if (const uint32_t known = elements.Find(parent, slot); known != 0) return known;
  int depth = 0;
  for (uint32_t p = parent; p != 0; p = objects[p].parent) ++depth;
  if (depth > kMaxElementDepth) return kUnknown;
  uint32_t o = NewObject(kind, ValueId());
  elements.Add(parent, slot, o);
  Object& e = objects[o];
  e.def = objects[parent].def;
  e.parent = parent;
  e.slot = slot;
  e.tensor = tensor;
  e.container = container;
  e.loop = objects[parent].loop;
  e.external = kind == Kind::kElement;
  if (kind != Kind::kPiece) {
    e.storage = SetPool::Single(MakeRef(o));
  } else {
    SetId storage = PieceStorage(parent, o);
    if (auto moved = moved_storage.find(parent); moved != moved_storage.end()) storage = Join(storage, moved->second);
    objects[o].storage = storage;
    // Containers that one operator made share a list of accesses, and so their fate.
    if (container) ContentsOf(o).base = MadeWith(o, nullptr);
    const uint32_t sibling = elements.FirstOf(parent);
    if (sibling != o && objects[sibling].kind == Kind::kPiece && objects[sibling].group != 0) {
      objects[o].group = Find(sibling);
      if (container) joined_containers.push_back(MakeRef(o));
    }
    if (objects[parent].escaped || objects[sibling].escaped) Escape(SetPool::Single(MakeRef(o)));
  }
  return o;
}

// The storage of the tensors that an operator puts into the list that it makes.
AliasDb::State::SetId AliasDb::State::PieceStorage(uint32_t container, uint32_t piece) {
  const Object& c = objects[container];
  if (c.kind == Kind::kConstant || !c.def.valid() || !g.IsLive(c.def)) return SetPool::Single(MakeRef(piece));
  const Value& value = g.value(c.def);
  const Node& node = g.node(value.def);
  OpEffects made;
  const ResultEffects& r = EffectsOf(node, &made).result(value.def_index);
  SetId out = 0;
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    uint64_t bit = uint64_t{1} << i;
    if (r.elements_view & bit) out = Join(out, StoragesOfSet(PointsTo(node.inputs[i])));
    if (r.elements_element_view & bit) {
      out = Join(out, StoragesOfSet(ContentOfSet(PointsTo(node.inputs[i]), kAnySlot, value.def)));
    }
  }
  if (r.elements_fresh || out == 0) out = Join(out, SetPool::Single(MakeRef(piece)));
  return out;
}

void AliasDb::State::RefreshPieces(uint32_t container) {
  const Elements pieces = elements.Of(container);
  bool changed = false;
  for (uint32_t p : pieces) {
    objects[p].loop = objects[container].loop;
    // No piece is deeper than what such a piece holds.
    for (uint32_t i : elements.Of(p)) objects[i].loop = objects[container].loop;
    if (objects[p].kind != Kind::kPiece) continue;
    const SetId before = objects[p].storage;
    SetStorage(p, PieceStorage(container, p));
    changed |= objects[p].storage != before;
    if (!objects[p].container) continue;
    const SetId base = MadeWith(p, nullptr);
    if (std::exchange(ContentsOf(p).base, base) != base) PushReaders(p);
  }
  if (changed) {
    dirty = reach_changed = true;
    PushReaders(container);
  }
}

// The elements that a container is made with, as its node's arguments are now, apart from those that are new handles.
AliasDb::State::SetId AliasDb::State::MadeWith(uint32_t object, std::vector<SetId>* slots) {
  const Object o = objects[object];
  if (!o.def.valid() || !g.IsLive(o.def)) return 0;
  const Value& value = g.value(o.def);
  const Node& node = g.node(value.def);
  SetId out = 0;
  if (o.kind == Kind::kPiece) {
    // A container inside a container that an operator made: whatever the operator's arguments reach.
    for (ValueId v : node.inputs) out = Join(out, Reach(ContentOfSet(PointsTo(v), kAnySlot, value.def), value.def));
    OpEffects made;
    const ResultEffects& r = EffectsOf(node, &made).result(value.def_index);
    for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
      if (r.elements_self & uint64_t{1} << i) out = Join(out, PointsTo(node.inputs[i]));
    }
    return out;
  }
  switch (GetOpEffects(node.op).kind) {
    case EffectKind::kListConstruct:
    case EffectKind::kTupleConstruct:
    case EffectKind::kDictConstruct:
      for (ValueId v : node.inputs) out = Join(out, PointsTo(v));
      return out;
    case EffectKind::kTupleSlice: {
      if (node.inputs.empty()) return 0;
      const Attribute* beg = node.FindAttribute("beg");
      const int64_t* b = beg != nullptr ? std::get_if<int64_t>(beg) : nullptr;
      const SetId whole = PointsTo(node.inputs[0]);
      const Type& t = UnwrapOptional(value.type);
      const bool known = b != nullptr && *b >= 0 && t.kind() == TypeKind::kTuple && !t.elements().empty();
      if (!known) return ContentOfSet(whole, kAnySlot, value.def);
      for (size_t k = 0; k < t.elements().size(); ++k) {
        const SetId at = ContentOfSet(whole, static_cast<int32_t>(*b + k), value.def);
        out = Join(out, at);
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
  const ResultEffects& r = EffectsOf(node, &made).result(value.def_index);
  if (r.elements_unknown) out = SetPool::Single(MakeRef(kUnknown));
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (r.elements_self & bit) out = Join(out, PointsTo(node.inputs[i]));
    if (!(r.elements_element & bit)) continue;
    const SetId held = ContentOfSet(PointsTo(node.inputs[i]), kAnySlot, value.def);
    // A dictionary of a list's pairs holds what they hold. Other containers of what the arguments hold are pieces,
    // which hold it.
    if (!r.elements_deep) {
      out = Join(out, held);
    } else if (UnwrapOptional(value.type).kind() == TypeKind::kDict) {
      out = Join(out, Reach(held, value.def));
    }
  }
  return out;
}

void AliasDb::State::MakeContents(uint32_t own, bool first, bool inputs_changed) {
  if (parts != nullptr && !first) return MakePartsOf(own);
  std::vector<SetId> slots;
  const SetId base = MadeWith(own, &slots);
  if (first && base == 0 && FindContents(own) == nullptr) return;
  uint64_t made_of = Mix(1, Fingerprint(base));
  const Node& node = g.node(g.value(objects[own].def).def);
  const EffectKind kind = GetOpEffects(node.op).kind;
  if (kind == EffectKind::kListConstruct || kind == EffectKind::kTupleConstruct) {
    for (ValueId v : node.inputs) made_of = Mix(made_of, sets.Hash(PointsTo(v)));
    steps += static_cast<int64_t>(node.inputs.size());
  }
  for (SetId s : slots) made_of = Mix(made_of, sets.Hash(s));
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
void AliasDb::State::MakePartsOf(uint32_t own) {
  const Node& node = g.node(g.value(objects[own].def).def);
  const std::vector<uint32_t> changed = *parts;
  const int64_t cost = static_cast<int64_t>(node.inputs.size());
  if (!monotone && !overdrawn && Affords(cost)) {
    Spend(cost);
    parts = nullptr;
    return MakeContents(own, false, true);
  }
  if (!monotone) stale = keeps_freed = true;
  Contents& c = ContentsOf(own);
  SetId base = c.base;
  uint64_t made_of = c.made_of;
  for (uint32_t k : changed) {
    if (k >= node.inputs.size()) continue;
    base = Join(base, PointsTo(node.inputs[k]));
    made_of = Mix(made_of, Fingerprint(PointsTo(node.inputs[k])));
    ++steps;
  }
  ContentsOf(own).base = base;
  ContainerMade(own, made_of, false);
}

// The elements a container was made with. *count: how many, -1 if not known.
AliasDb::State::SetId AliasDb::State::BaseContent(uint32_t object, int32_t slot, int32_t* count) {
  *count = -1;
  const Object o = objects[object];
  if (o.kind == Kind::kInput || o.kind == Kind::kElement) {
    Type t = TypeOfElement(object, slot);
    if (!IsAliasingType(t)) return 0;
    return SetPool::Single(MakeRef(ElementObject(object, slot, MayBeTensor(t), MayBeContainer(t), Kind::kElement)));
  }
  if (!o.def.valid() || !g.IsLive(o.def)) return 0;
  const Contents* c = FindContents(object);
  const SetId base = c != nullptr ? c->base : 0;
  if (o.kind == Kind::kMade) return c != nullptr ? c->of_call : 0;
  const Value& value = g.value(o.def);
  const Node& node = g.node(value.def);
  if (o.kind == Kind::kPiece) {
    // A graph's (tuple, (view, fresh)): one piece for all, of whatever types.
    const EffectKind kind = GetOpEffects(node.op).kind;
    const Type t = TypeOfElement(object, kAnySlot);
    const bool inner = objects[o.parent].kind == Kind::kPiece;  // SummaryOf does not describe what is deeper
    if ((kind == EffectKind::kFork || kind == EffectKind::kSubgraph) && !inner && IsAliasingType(t)) {
      const uint32_t piece = ElementObject(object, kAnySlot, MayBeTensor(t), MayBeContainer(t), Kind::kPiece);
      return Join(base, SetPool::Single(MakeRef(piece)));
    }
    return base;
  }
  if (o.kind == Kind::kConstant) {
    Type t = TypeOfElement(object, slot);
    if (!IsAliasingType(t)) return 0;
    return SetPool::Single(MakeRef(ElementObject(object, slot, MayBeTensor(t), MayBeContainer(t), Kind::kPiece)));
  }
  switch (GetOpEffects(node.op).kind) {
    case EffectKind::kListConstruct:
    case EffectKind::kTupleConstruct:
      *count = static_cast<int32_t>(node.inputs.size());
      if (slot >= 0) return slot < *count ? PointsTo(node.inputs[slot]) : 0;
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
  const ResultEffects& r = EffectsOf(node, &made).result(value.def_index);
  if (r.elements_view == 0 && r.elements_element_view == 0 && !r.elements_fresh && !r.elements_deep) return base;
  Type t = TypeOfElement(object, slot);
  if (!IsAliasingType(t)) return base;
  // Only the pieces of a partition are disjoint; and new tensors are each new.
  const bool distinct =
      r.partition || (r.elements_fresh && !r.elements_overlap && r.elements_view == 0 && r.elements_element_view == 0);
  const int32_t which = distinct ? slot : r.elements_view == 0 && r.elements_element_view == 0 ? kAnySlot : slot;
  if (which == kAnySlot) t = TypeOfElement(object, kAnySlot);
  const uint32_t piece = ElementObject(object, which, MayBeTensor(t), MayBeContainer(t), Kind::kPiece);
  return Join(base, SetPool::Single(MakeRef(piece)));
}

int AliasDb::State::Precedes(NodeId a, NodeId b) const {
  const alias_internal::BlockTree::Common c = tree.CommonOf(a, b);
  return c.a != c.b && g.node(c.a).order < g.node(c.b).order ? 1 : 0;
}

// Returns whether the effect of node a on the holder may have happened when b looks at it. With an invalid b it may
// always have.
bool AliasDb::State::MayComeBefore(NodeId a, NodeId b, Ref holder) {
  if (!b.valid() || Precedes(a, b) == 1) return true;
  const uint32_t common = loops.CommonOf(a, b);
  if (common == 0) return false;
  const uint32_t holder_loop = objects[ObjectOf(holder)].loop;
  // a ran in an earlier iteration of a loop around both that is not around the allocations in holder_loop. To the
  // contents of an earlier instance of such an allocation, a did what it does before b.
  return !loops.IsWithin(holder_loop, common) || (IsOld(holder) && loops[common].top == loops[holder_loop].top);
}

void AliasDb::State::NoteReader(uint32_t object, NodeId reader) {
  Contents& c = ContentsOf(object);
  AddReader(reader, &c.readers, &c.distinct);
  if (objects[object].external) AddReader(reader, &external_readers, &external_distinct);
}

// Returns the elements that the store has put there for a reader at any time, in this iteration or an earlier one of
// each loop around it. Of the loops between it and the holder, only the innermost and the outermost can make a
// difference: whatever one of them makes older, all loops further out make older too.
AliasDb::State::SetId AliasDb::State::StoredAtAnyTime(const Store& s, uint32_t holder_loop) {
  const alias_internal::LoopTable::Range range = loops.Between(loops.Around(s.node), holder_loop);
  return Join(Join(s.set, Shift(s.set, range.inner)), Shift(s.set, range.outer));
}

// A container that holds more than what was just put there, as nobody has paid for looking at each store.
bool AliasDb::State::KeepMore(uint32_t container) {
  if (!objects[container].container || objects[container].kind == Kind::kSummary) return true;
  const SetId now = ContentNow(MakeRef(container), kAnySlot, NodeId());
  const SetId kept = Grown(ContentsOf(container).kept, now);
  const uint64_t told = Fingerprint(kept);
  Contents& c = ContentsOf(container);
  if (std::exchange(c.blurred, true) && c.kept == kept && c.kept_told == told) return false;
  c.kept = kept;
  c.kept_told = told;
  return true;
}

AliasDb::State::SetId AliasDb::State::ContentOf(Ref holder, int32_t slot, NodeId reader) {
  const uint32_t o = ObjectOf(holder);
  const Contents* known = objects[o].container && o != kUnknown ? FindContents(o) : nullptr;
  if (known == nullptr || !known->blurred) return ContentNow(holder, slot, reader);
  ++steps;
  if (reader.valid()) NoteReader(o, reader);
  const SetId kept = FindContents(o)->kept;
  SetId out = IsOld(holder) ? OldContents(kept, objects[o].loop) : kept;
  if ((objects[o].external && MayHoldOthers(o, kAnySlot)) || objects[o].escaped) {
    out = Join(out, SetPool::Single(MakeRef(kUnknown)));
  }
  return out;
}

AliasDb::State::SetId AliasDb::State::ContentNow(Ref holder, int32_t slot, NodeId reader) {
  const uint32_t o = ObjectOf(holder);
  ++steps;
  if (o == kUnknown) return SetPool::Single(MakeRef(kUnknown));
  if (objects[o].kind == Kind::kSummary) {
    const uint32_t f = Find(o);
    if (reader.valid()) NoteReader(f, reader);
    const Contents* c = FindContents(f);
    SetId out = c != nullptr ? c->base : 0;
    if (objects[f].external || objects[f].escaped) out = Join(out, SetPool::Single(MakeRef(kUnknown)));
    return out;
  }
  if (!objects[o].container) return 0;
  if (reader.valid()) NoteReader(o, reader);
  const Contents* c = FindContents(o);
  const bool many = c != nullptr && c->HasMany();
  if (c != nullptr && slot >= 0 && c->shuffles != 0) {
    if (many || std::any_of(c->stores.begin(), c->stores.end(),
                            [&](const Store& s) { return s.shuffle && MayComeBefore(s.node, reader, holder); })) {
      slot = kAnySlot;
    }
  }
  int32_t count;
  SetId out = BaseContent(o, slot < 0 ? kAnySlot : slot, &count);
  const uint32_t holder_loop = objects[o].loop;
  if (IsOld(holder)) out = OldContents(out, holder_loop);
  // Where elements are appended, the first ones stay where they are.
  const bool among_first = slot >= 0 && slot < count;
  if (many) {
    const auto& [stored, appended] = *c->sums;
    SetId seen = stored[1];
    if (!among_first) seen = Join(seen, appended[1]);
    out = Join(out, IsOld(holder) ? OldContents(seen, holder_loop) : seen);
  } else if (c != nullptr) {
    for (size_t i = 0; i < c->stores.size(); ++i) {
      ++steps;
      const Store& s = c->stores[i];
      if (s.shuffle || s.set == 0) continue;
      if (slot >= 0 && ((s.slot >= 0 && s.slot != slot) || (s.slot == kAppended && among_first))) continue;
      const bool before = !reader.valid() || Precedes(s.node, reader) == 1;
      const uint32_t common = before && !IsOld(holder) ? 0 : reader.valid() ? loops.CommonOf(s.node, reader) : 0;
      const bool earlier = IsOld(holder) && common != 0 && loops[common].top == loops[holder_loop].top;
      alias_internal::LoopTable::Range range;
      if (before) {
        range = loops.Between(loops.Around(s.node), holder_loop);
      } else if (common != 0) {
        range = loops.Between(common, holder_loop);
        if (range.inner == 0 && !earlier) continue;
      } else {
        continue;
      }
      SetId seen = before || earlier ? s.set : 0;
      // The elements that earlier iterations of the loops around the store have put there.
      if (range.inner != 0) seen = Join(Join(seen, Shift(s.set, range.inner)), Shift(s.set, range.outer));
      if (IsOld(holder)) seen = OldContents(seen, holder_loop);
      out = Join(out, seen);
    }
  }
  if ((objects[o].external && MayHoldOthers(o, slot)) || objects[o].escaped) {
    out = Join(out, SetPool::Single(MakeRef(kUnknown)));
  }
  return out;
}

// Returns whether something was stored into a container of the caller's that may be this one.
bool AliasDb::State::MayHoldOthers(uint32_t o, int32_t slot) {
  if (external_stores) return true;
  if (external_attributes.empty()) return false;
  const TypeKind kind = UnwrapOptional(TypeOfObject(o)).kind();
  if (kind == TypeKind::kList || kind == TypeKind::kDict || kind == TypeKind::kTuple || kind == TypeKind::kFuture) {
    return false;
  }
  return slot < 0 || external_attributes.contains(slot);
}

AliasDb::State::SetId AliasDb::State::ContentOfSet(SetId s, int32_t slot, NodeId reader) {
  if (SetPool::IsSingle(s)) return ContentOf(SetPool::SingleRef(s), slot, reader);
  SetId out = 0;
  for (Ref r : sets.Refs(s)) out = Join(out, ContentOf(r, slot, reader));
  return out;
}

// --- many stores ---

void AliasDb::State::SumStore(uint32_t holder, uint32_t at) {
  Contents& c = ContentsOf(holder);
  if (!c.HasMany()) return;
  const size_t leaves = (*c.sums)[0].size() / 2;
  if (at >= leaves) return SumAgain(holder, 2 * c.stores.size());
  const SetId set = at < c.stores.size() ? StoredAtAnyTime(c.stores[at], objects[holder].loop) : 0;
  const bool appended = at < c.stores.size() && c.stores[at].slot == kAppended;
  for (const int k : {0, 1}) {
    std::vector<SetId>& sums = (*c.sums)[k];
    size_t i = leaves + at;
    sums[i] = appended == (k == 1) ? set : 0;
    for (i /= 2; i > 0; i /= 2) {
      ++steps;
      const SetId sum = Join(sums[2 * i], sums[2 * i + 1]);
      if (sums[i] == sum) break;
      sums[i] = sum;
    }
  }
}

void AliasDb::State::SumAgain(uint32_t holder, size_t leaves) {
  Contents& c = ContentsOf(holder);
  size_t size = 2 * Contents::kMany;
  while (size < leaves) size *= 2;
  if (c.sums == nullptr) c.sums = std::make_unique<std::array<std::vector<SetId>, 2>>();
  for (std::vector<SetId>& sums : *c.sums) sums.assign(2 * size, 0);
  for (size_t at = 0; at < c.stores.size(); ++at) {
    (*c.sums)[c.stores[at].slot == kAppended ? 1 : 0][size + at] = StoredAtAnyTime(c.stores[at], objects[holder].loop);
  }
  for (std::vector<SetId>& sums : *c.sums) {
    for (size_t i = size; i-- > 1;) sums[i] = Join(sums[2 * i], sums[2 * i + 1]);
  }
  steps += 2 * static_cast<int64_t>(size);
}

void AliasDb::State::AddStore(uint32_t holder, const Store& s) {
  Contents& c = ContentsOf(holder);
  const uint32_t at = static_cast<uint32_t>(c.stores.size());
  c.stores.push_back(s);
  c.shuffles += s.shuffle ? 1 : 0;
  stores_of_node[s.node.index].push_back({holder, at});
  if (c.stores.size() == Contents::kMany + 1) {
    coarse = true;
    SumAgain(holder, 0);
  } else {
    SumStore(holder, at);
  }
}

// The last one takes its place.
void AliasDb::State::DropStore(uint32_t holder, uint32_t at) {
  Contents& c = ContentsOf(holder);
  const uint32_t last = static_cast<uint32_t>(c.stores.size()) - 1;
  c.shuffles -= c.stores[at].shuffle ? 1 : 0;
  if (at != last) {
    c.stores[at] = c.stores[last];
    for (StoreAt& s : stores_of_node[c.stores[at].node.index]) {
      ++steps;
      if (s.holder == holder && s.at == last) s.at = at;
    }
  }
  c.stores.pop_back();
  if (c.HasMany()) {
    SumStore(holder, last);
    if (at != last) SumStore(holder, at);
  } else {
    c.sums = nullptr;
  }
}

void AliasDb::State::StoresChanged(uint32_t holder, bool changed) {
  Contents& c = ContentsOf(holder);
  if (c.HasMany()) {
    uint64_t told = Mix(c.shuffles != 0 ? 3 : 2, Fingerprint((*c.sums)[0][1]));
    told = Mix(told, Fingerprint((*c.sums)[1][1]));
    if (std::exchange(c.told, told) == told) return;
  } else {
    c.told = 0;
  }
  PushReaders(holder, changed);
}

// A summary holds all that its members hold.
void AliasDb::State::FollowJoined() {
  while (!joined_containers.empty()) {
    const Ref r = joined_containers.back();
    joined_containers.pop_back();
    if (!objects[ObjectOf(r)].container || objects[ObjectOf(r)].kind == Kind::kSummary) continue;
    const SetId held = ContentOf(r, kAnySlot, NodeId());
    const uint32_t f = Find(ObjectOf(r));
    if (f == ObjectOf(r)) continue;
    Contents& c = ContentsOf(f);
    const SetId base = Join(c.base, held);
    if (base == c.base) continue;
    c.base = base;
    PushReaders(f);
  }
}

// --- what is reached ---

// Returns the set and everything that its containers reach.
AliasDb::State::SetId AliasDb::State::Reach(SetId s, NodeId reader) {
  bool any = false;
  sets.ForEach(s, [&](Ref r) { any |= objects[ObjectOf(r)].container; });
  if (!any) return s;
  SetId all = s;
  alias_internal::SmallSet<Ref, 8> done;
  absl::InlinedVector<Ref, 8> todo = sets.Refs(s);
  while (!todo.empty()) {
    ++steps;
    Ref r = todo.back();
    todo.pop_back();
    if (!done.Insert(r)) continue;
    if (!objects[ObjectOf(r)].container || ObjectOf(r) == kUnknown) continue;
    const SetId inside = ContentOf(r, kAnySlot, reader);
    const SetId before = all;
    all = Join(all, inside);
    if (all == before) continue;
    // Where it has been summarised, the summary stands for its members.
    if (sets.Size(all) < sets.Size(before)) todo = sets.Refs(all);
    sets.ForEach(inside, [&](Ref e) {
      if (sets.Contains(all, e) && !done.Contains(e)) todo.push_back(e);
    });
  }
  return all;
}

std::optional<AliasDb::State::SetId> AliasDb::State::ReachAtAnyTime(SetId s) {
  constexpr size_t kGreatDeal = 64;
  if (SetPool::IsSingle(s) && !objects[ObjectOf(SetPool::SingleRef(s))].container) return s;
  if (auto it = reach_at_any_time.find(s); it != reach_at_any_time.end()) return it->second;
  alias_internal::SmallSet<Ref, 8> done;
  std::vector<Ref> all;
  sets.ForEach(s, [&](Ref r) { all.push_back(r); });
  for (Ref r : all) done.Insert(r);
  std::optional<SetId> out;
  size_t at = 0;
  // A query summarises nothing of its own: other queries must not depend on it. Where what a container holds joins a
  // summary only now, the summary holds that too before it is looked into.
  for (; at < all.size() && all.size() <= kGreatDeal; ++at) {
    ++steps;
    if (!joined_containers.empty()) FollowJoined();
    if (!objects[ObjectOf(all[at])].container || ObjectOf(all[at]) == kUnknown) continue;
    sets.ForEach(ContentOf(all[at], kAnySlot, NodeId()), [&](Ref e) {
      if (done.Insert(e)) all.push_back(e);
    });
  }
  if (at == all.size()) out = sets.Make(absl::MakeSpan(all));
  return reach_at_any_time[s] = out;
}

}  // namespace smelt
