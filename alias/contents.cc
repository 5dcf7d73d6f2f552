// What containers hold: what they were made with, and what was stored before whoever looks.
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
  auto [it, inserted] = elements.try_emplace({parent, slot}, 0);
  if (!inserted) return it->second;
  int depth = 0;
  for (uint32_t p = parent; p != 0; p = objects[p].parent) ++depth;
  if (depth > kMaxElementDepth) {
    it->second = kUnknown;
    return kUnknown;
  }
  uint32_t o = NewObject(kind, ValueId());
  elements[{parent, slot}] = o;
  elements_of[parent].push_back(o);
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
    // Those that one operator made share a list of accesses, and so their fate.
    bool escapes = objects[parent].escaped;
    for (uint32_t sibling : elements_of[parent]) escapes |= objects[sibling].escaped;
    if (escapes) Escape(SetPool::Single(MakeRef(o)));
  }
  return o;
}

// Where the tensors are that an operator puts into the list it makes.
AliasDb::State::SetId AliasDb::State::PieceStorage(uint32_t container, uint32_t piece) {
  const Object& c = objects[container];
  if (c.kind == Kind::kConstant || !c.def.valid() || !g.IsLive(c.def)) return SetPool::Single(MakeRef(piece));
  const Value& value = g.value(c.def);
  const Node& node = g.node(value.def);
  OpEffects e = EffectsOf(node);
  const ResultEffects& r = e.result(value.def_index);
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
  auto it = elements_of.find(container);
  if (it == elements_of.end()) return;
  const std::vector<uint32_t> pieces = it->second;
  bool changed = false;
  for (uint32_t p : pieces) {
    objects[p].loop = objects[container].loop;
    if (objects[p].kind != Kind::kPiece) continue;
    const SetId before = objects[p].storage;
    SetStorage(p, PieceStorage(container, p));
    changed |= objects[p].storage != before;
  }
  if (changed) {
    dirty = true;
    PushReaders(container);
  }
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
  if (o.kind == Kind::kMade) return contents[object].of_call;
  const Value& value = g.value(o.def);
  const Node& node = g.node(value.def);
  if (o.kind == Kind::kPiece) {
    // A container inside a container that an operator made: whatever the operator's arguments reach.
    SetId out = 0;
    for (ValueId v : node.inputs) out = Join(out, Reach(ContentOfSet(PointsTo(v), kAnySlot, value.def), value.def));
    const OpEffects effects = EffectsOf(node);
    const ResultEffects& r = effects.result(value.def_index);
    for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
      if (r.elements_self & uint64_t{1} << i) out = Join(out, PointsTo(node.inputs[i]));
    }
    // A graph's (tuple, (view, fresh)): one piece for all, of whatever types.
    const EffectKind kind = GetOpEffects(node.op).kind;
    const Type t = TypeOfElement(object, kAnySlot);
    const bool inner = objects[o.parent].kind == Kind::kPiece;  // SummaryOf does not describe what is deeper
    if ((kind == EffectKind::kFork || kind == EffectKind::kSubgraph) && !inner && IsAliasingType(t)) {
      const uint32_t piece = ElementObject(object, kAnySlot, MayBeTensor(t), MayBeContainer(t), Kind::kPiece);
      out = Join(out, SetPool::Single(MakeRef(piece)));
    }
    return out;
  }
  if (o.kind == Kind::kConstant) {
    Type t = TypeOfElement(object, slot);
    if (!IsAliasingType(t)) return 0;
    return SetPool::Single(MakeRef(ElementObject(object, slot, MayBeTensor(t), MayBeContainer(t), Kind::kPiece)));
  }
  const OpEffects& op = GetOpEffects(node.op);
  switch (op.kind) {
    case EffectKind::kListConstruct:
    case EffectKind::kTupleConstruct: {
      *count = static_cast<int32_t>(node.inputs.size());
      if (slot >= 0) return slot < *count ? PointsTo(node.inputs[slot]) : 0;
      SetId out = 0;
      for (ValueId v : node.inputs) out = Join(out, PointsTo(v));
      return out;
    }
    case EffectKind::kDictConstruct: {
      SetId out = 0;
      for (ValueId v : node.inputs) out = Join(out, PointsTo(v));
      return out;
    }
    case EffectKind::kTupleSlice: {
      if (node.inputs.empty()) return 0;
      const Attribute* beg = node.FindAttribute("beg");
      const int64_t* b = beg != nullptr ? std::get_if<int64_t>(beg) : nullptr;
      const SetId whole = PointsTo(node.inputs[0]);
      const Type& t = UnwrapOptional(value.type);
      const bool known = b != nullptr && *b >= 0 && t.kind() == TypeKind::kTuple && !t.elements().empty();
      if (!known) return ContentOfSet(whole, kAnySlot, value.def);
      if (slot >= 0) return ContentOfSet(whole, slot + static_cast<int32_t>(*b), value.def);
      SetId out = 0;
      for (size_t k = 0; k < t.elements().size(); ++k) {
        out = Join(out, ContentOfSet(whole, static_cast<int32_t>(*b + k), value.def));
      }
      return out;
    }
    case EffectKind::kCreateObject:
      return 0;
    default:
      break;
  }
  OpEffects e = EffectsOf(node);
  const ResultEffects& r = e.result(value.def_index);
  SetId out = r.elements_unknown ? SetPool::Single(MakeRef(kUnknown)) : 0;
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    uint64_t bit = uint64_t{1} << i;
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
  if (r.elements_view != 0 || r.elements_element_view != 0 || r.elements_fresh || r.elements_deep) {
    Type t = TypeOfElement(object, slot);
    if (IsAliasingType(t)) {
      // Only a partition tells its pieces apart; and new tensors are each new.
      const bool distinct = r.partition || (r.elements_fresh && !r.elements_overlap && r.elements_view == 0 &&
                                            r.elements_element_view == 0);
      const int32_t which = distinct ? slot : r.elements_view == 0 && r.elements_element_view == 0 ? kAnySlot : slot;
      if (which == kAnySlot) t = TypeOfElement(object, kAnySlot);
      const uint32_t piece = ElementObject(object, which, MayBeTensor(t), MayBeContainer(t), Kind::kPiece);
      out = Join(out, SetPool::Single(MakeRef(piece)));
    }
  }
  return out;
}

int AliasDb::State::Precedes(NodeId a, NodeId b) const {
  const Node *x = &g.node(a), *y = &g.node(b);
  if (x->parent == y->parent) return x->order < y->order ? 1 : 0;
  absl::InlinedVector<std::pair<BlockId, NodeId>, 8> chain;
  for (NodeId n = a; n.valid(); n = g.block(g.node(n).parent).owner) chain.push_back({g.node(n).parent, n});
  for (NodeId n = b; n.valid(); n = g.block(g.node(n).parent).owner) {
    BlockId block = g.node(n).parent;
    for (const auto& [other, m] : chain) {
      if (other == block) return m != n && g.node(m).order < g.node(n).order ? 1 : 0;
    }
  }
  return 0;
}

// Whether what node a does to the holder may have happened when b looks at it. b invalid: always.
bool AliasDb::State::MayComeBefore(NodeId a, NodeId b, Ref holder) {
  if (!b.valid() || Precedes(a, b) == 1) return true;
  const uint32_t holder_loop = objects[ObjectOf(holder)].loop;
  bool may = false;
  ForEachLoopBetween(a, holder_loop, [&](uint32_t l) { may = may || IsInside(b, l); });
  return may || (IsOld(holder) && InEarlierIteration(a, b, holder_loop));
}

// Whether a loop around both nodes is also around what is allocated in holder_loop: to what an earlier iteration
// allocated, a did what it does before b.
bool AliasDb::State::InEarlierIteration(NodeId a, NodeId b, uint32_t holder_loop) const {
  for (uint32_t l = holder_loop; l != 0; l = loops[l].parent) {
    if (IsInside(a, l) && IsInside(b, l)) return true;
  }
  return false;
}

// The loops around n that are not around what is allocated in holder_loop, from the innermost.
template <typename F>
void AliasDb::State::ForEachLoopBetween(NodeId n, uint32_t holder_loop, const F& f) {
  const uint32_t saved = walk_loop;
  walk_loop = UINT32_MAX;
  for (uint32_t l = LoopOf(n); l != 0 && !LoopWithin(holder_loop, l); l = loops[l].parent) f(l);
  walk_loop = saved;
}

bool AliasDb::State::IsInside(NodeId n, uint32_t loop) const {
  for (; n.valid(); n = g.block(g.node(n).parent).owner) {
    if (n == loops[loop].node) return true;
  }
  return false;
}

void AliasDb::State::NoteReader(uint32_t object, NodeId reader) {
  std::vector<NodeId>& readers = contents[object].readers;
  if (readers.empty() || readers.back() != reader) readers.push_back(reader);
  if (objects[object].external && (external_readers.empty() || external_readers.back() != reader)) {
    external_readers.push_back(reader);
  }
}

// Lists that take in each other's elements, or their own, ask in circles: each question is answered once a round,
// those that are being answered by what is known so far, until nothing is new. In a loop most readers are told the
// same.
AliasDb::State::SetId AliasDb::State::ContentOf(Ref holder, int32_t slot, NodeId reader) {
  struct Depth {
    int& depth;
    explicit Depth(int& d) : depth(++d) {}
    ~Depth() { --depth; }
  } depth(content_depth);
  constexpr uint32_t kOfLoop = 1u << 31;
  constexpr size_t kMaxAnswers = 1 << 16;
  const auto answer = [&] {
    const std::tuple<Ref, int32_t, uint32_t> question = {holder, slot, reader.valid() ? reader.index : kOfLoop};
    {
      ContentAnswer& known = content_answers[question];
      if (known.round != 0 && known.round <= content_last_round) return known.content;
      if (known.round == content_round) {
        content_circular |= known.open;
        return known.content;
      }
      known.round = content_round;
      known.open = true;
    }
    // The outermost loop that is around the reader and not around the holder.
    uint32_t loop = 0;
    const Object& h = objects[ObjectOf(holder)];
    if (reader.valid() && loops.size() > 1 && h.container && h.kind != Kind::kSummary && ObjectOf(holder) != kUnknown) {
      ForEachLoopBetween(reader, h.loop, [&](uint32_t l) { loop = l; });
    }
    const std::tuple<Ref, int32_t, uint32_t> of_loop = {holder, slot, kOfLoop | loop};
    SetId found = 0;
    bool told = false, differs = true;
    if (loop != 0) {
      ContentAnswer& all = content_answers[of_loop];
      differs = all.differs;
      told = !differs && all.round != 0 && (all.round <= content_last_round || all.round == content_round);
      if (told) {
        content_circular |= all.open;
        all.told = true;
        found = all.content;
      } else if (!differs) {
        all.round = content_round;
        all.open = true;
      }
    }
    if (told) {
      NoteReader(ObjectOf(holder), reader);
    } else {
      const bool known_to_differ = differs;
      found = ComputeContent(holder, slot, reader, known_to_differ ? 0 : loop, &differs);
      if (!known_to_differ) {
        const SetId content = Join(content_answers[of_loop].content, found);
        ContentAnswer& all = content_answers[of_loop];
        all.open = false;
        all.content = content;
        all.differs = differs;
        content_again |= differs && all.told;
      }
    }
    const SetId before = content_answers[question].content;
    const SetId content = Join(before, found);
    content_grew |= content != before;
    ContentAnswer& now = content_answers[question];
    now.open = false;
    return now.content = content;
  };
  if (content_depth > 1) return answer();
  if (content_changes != content_known_changes || content_answers.size() > kMaxAnswers) {
    content_answers.clear();
    content_known_changes = content_changes;
  }
  SetId out;
  do {
    ++content_round;
    content_circular = content_grew = content_again = false;
    out = answer();
    if (content_again) {
      // Somebody was told what holds for others.
      for (auto& [question, known] : content_answers) {
        if (known.round <= content_last_round) continue;
        const bool differs = known.differs;
        known = ContentAnswer();
        known.differs = differs;
      }
    }
  } while (content_again || (content_circular && content_grew));
  content_last_round = content_round;
  return out;
}

// `differs`: another reader in `loop`, the outermost one around this one that is not around the holder, may be told
// something else.
AliasDb::State::SetId AliasDb::State::ComputeContent(Ref holder, int32_t slot, NodeId reader, uint32_t loop,
                                                     bool* differs) {
  const uint32_t o = ObjectOf(holder);
  if (o == kUnknown) return SetPool::Single(MakeRef(kUnknown));
  if (objects[o].kind == Kind::kSummary) {
    SetId out = 0;
    if (objects[o].external || objects[o].escaped) out = SetPool::Single(MakeRef(kUnknown));
    auto it = members.find(Find(o));
    if (it != members.end()) {
      std::vector<Ref> all = it->second;
      for (Ref m : all) {
        if (objects[ObjectOf(m)].container) out = Join(out, ContentOf(m, kAnySlot, reader));
      }
    }
    return out;
  }
  if (!objects[o].container) return 0;
  const Contents* c = nullptr;
  if (auto it = contents.find(o); it != contents.end()) c = &it->second;
  if (c != nullptr && slot >= 0) {
    for (NodeId n : c->shuffles) {
      if (MayComeBefore(n, reader, holder)) {
        slot = kAnySlot;
        break;
      }
    }
  }
  int32_t count;
  SetId out = BaseContent(o, slot < 0 ? kAnySlot : slot, &count);
  if (IsOld(holder)) out = OldContents(out, objects[o].loop);
  if (reader.valid()) {
    NoteReader(o, reader);
    c = &contents[o];
  } else if (auto it = contents.find(o); it != contents.end()) {
    c = &it->second;
  }
  if (c != nullptr && !c->stores.empty()) {
    const uint32_t holder_loop = objects[o].loop;
    const size_t num_stores = c->stores.size();
    // Straight-line code, all stores before the reader, any slot: the union is kept.
    bool plain = !IsOld(holder) && slot < 0 && num_stores > 8 &&
                 (!reader.valid() || Precedes(c->stores.back().node, reader) == 1);
    for (size_t i = c->summed; i < num_stores && plain; ++i) {
      plain = LoopOf(c->stores[i].node) == holder_loop &&
              (i == 0 || Precedes(c->stores[i - 1].node, c->stores[i].node) == 1);
    }
    if (plain) {
      if (c->summed < num_stores) {
        const std::vector<Store> added(c->stores.begin() + c->summed, c->stores.end());
        SetId sum = c->sum;
        for (const Store& s : added) {
          sum = Join(sum, StoredBy(s, o));
        }
        Contents& again = contents[o];
        again.sum = sum;
        again.summed = static_cast<uint32_t>(num_stores);
      }
      out = Join(out, contents[o].sum);
    }
    if (!plain) {
      const std::vector<Store> stores = c->stores;
      for (const Store& s : stores) {
        if (slot >= 0) {
          if (s.slot >= 0 && s.slot != slot) continue;
          if (s.slot == kAppended && count >= 0 && slot < count) continue;
        }
        const bool before = !reader.valid() || Precedes(s.node, reader) == 1;
        if (!before && !MayComeBefore(s.node, reader, holder)) continue;
        const SetId stored = StoredBy(s, o);
        if (loop != 0 && !*differs && IsInside(s.node, loop)) *differs = Shift(stored, loop) != stored;
        SetId seen = before ? stored : 0;
        // What earlier iterations of the loops around the store have put there.
        ForEachLoopBetween(s.node, holder_loop, [&](uint32_t l) {
          if (before || IsInside(reader, l)) seen = Join(seen, Shift(stored, l));
        });
        if (IsOld(holder)) {
          if (before || InEarlierIteration(s.node, reader, holder_loop)) seen = Join(seen, stored);
          seen = OldContents(seen, holder_loop);
        }
        out = Join(out, seen);
      }
    }
  }
  if (objects[o].external && MayHoldOthers(o, slot)) out = Join(out, SetPool::Single(MakeRef(kUnknown)));
  if (objects[o].escaped) out = Join(out, SetPool::Single(MakeRef(kUnknown)));
  return out;
}

// Whether something was stored into a container of the caller's that may be this one.
bool AliasDb::State::MayHoldOthers(uint32_t o, int32_t slot) {
  if (external_stores) return true;
  if (external_attributes.empty()) return false;
  const TypeKind kind = UnwrapOptional(TypeOfObject(o)).kind();
  if (kind == TypeKind::kList || kind == TypeKind::kDict || kind == TypeKind::kTuple || kind == TypeKind::kFuture) {
    return false;
  }
  return slot < 0 || external_attributes.contains(slot);
}

AliasDb::State::SetId AliasDb::State::StoredBy(const Store& store, uint32_t holder) {
  if (store.by_call) {
    const auto made = contents.find(RecordOf(store.value).own);
    return made == contents.end() ? 0 : OfType(made->second.of_call, TypeOfElement(holder, kAnySlot));
  }
  const SetId stored = PointsTo(store.value);
  return store.elements ? ContentOfSet(stored, kAnySlot, store.node) : stored;
}

AliasDb::State::SetId AliasDb::State::ContentOfSet(SetId s, int32_t slot, NodeId reader) {
  if (SetPool::IsSingle(s)) return ContentOf(SetPool::SingleRef(s), slot, reader);
  SetId out = 0;
  for (Ref r : sets.Refs(s)) out = Join(out, ContentOf(r, slot, reader));
  return out;
}

// The set and everything its containers reach.
AliasDb::State::SetId AliasDb::State::Reach(SetId s, NodeId reader) {
  SetId all = s;
  absl::flat_hash_set<Ref> done;
  absl::InlinedVector<Ref, 8> todo = sets.Refs(s);
  while (!todo.empty()) {
    Ref r = todo.back();
    todo.pop_back();
    if (!done.insert(r).second) continue;
    if (!objects[ObjectOf(r)].container || ObjectOf(r) == kUnknown) continue;
    SetId inside = ContentOf(r, kAnySlot, reader);
    // A question summarises nothing: what else is asked must not depend on it.
    all = reader.valid() ? Join(all, inside) : sets.Union(all, inside);
    sets.ForEach(inside, [&](Ref e) {
      if (!done.contains(e)) todo.push_back(e);
    });
  }
  return all;
}

AliasDb::State::SetId AliasDb::State::ReachAtAnyTime(SetId s) {
  if (auto it = reach_at_any_time.find(s); it != reach_at_any_time.end()) return it->second;
  const SetId reach = Reach(s);
  return reach_at_any_time[s] = reach;
}

}  // namespace smelt
