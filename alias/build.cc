// Evaluation: what each node makes of its inputs' objects, in program order, and again where something changed.
#include <algorithm>

#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::AccessBits;
using alias_internal::Contents;
using alias_internal::IsOld;
using alias_internal::kAsync;
using alias_internal::kGeometryRead;
using alias_internal::kGeometryWrite;
using alias_internal::kOfContainer;
using alias_internal::kRead;
using alias_internal::kWrite;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::Store;

namespace {

constexpr int32_t kAnySlot = -1;
constexpr int32_t kAppended = -2;  // a store beyond the elements the container was made with
constexpr int kMaxElementDepth = 12;

bool IsLoopKind(EffectKind k) { return k == EffectKind::kLoop || k == EffectKind::kWhile; }

const Type& UnwrapOptional(const Type& t) {
  const Type* p = &t;
  while (p->kind() == TypeKind::kOptional) p = &p->element();
  return *p;
}

bool MayBeTensor(const Type& t) {
  const Type& u = UnwrapOptional(t);
  return u.IsTensor() || u.kind() == TypeKind::kAny || u.kind() == TypeKind::kUnion;
}
bool MayBeContainer(const Type& t) { return IsContainerType(t); }

// Equal fingerprints count as equal: each bit of what goes in reaches all of what comes out.
uint64_t Mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 32) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 29;
}

}  // namespace

// --- objects, sets
// ---------------------------------------------------------------------------------------------------------------

AliasDb::State::ValueRecord& AliasDb::State::RecordOf(ValueId v) {
  if (v.index >= values.size()) values.resize(std::max<size_t>(v.index + 1, g.value_index_bound()));
  ValueRecord& r = values[v.index];
  if (r.generation != v.generation) {
    r = ValueRecord();
    r.generation = v.generation;
  }
  return r;
}

alias_internal::NodeRecord& AliasDb::State::RecordOf(NodeId n) {
  if (n.index >= nodes.size()) nodes.resize(std::max<size_t>(n.index + 1, g.node_index_bound()));
  NodeRecord& r = nodes[n.index];
  if (r.generation != n.generation) {
    r = NodeRecord();
    r.generation = n.generation;
  }
  return r;
}

uint32_t AliasDb::State::NewObject(Kind kind, ValueId def) {
  uint32_t o;
  if (!free_objects.empty()) {
    o = free_objects.back();
    free_objects.pop_back();
    objects[o] = Object();
  } else {
    o = static_cast<uint32_t>(objects.size());
    SMELT_CHECK(o < (1u << 29)) << "too many objects";
    objects.emplace_back();
  }
  objects[o].kind = kind;
  objects[o].def = def;
  return o;
}

uint32_t AliasDb::State::Own(ValueId v, Kind kind, bool tensor, bool container) {
  ValueRecord& r = RecordOf(v);
  uint32_t o = r.own;
  if (o == 0) {
    o = NewObject(kind, v);
    values[v.index].own = o;
  }
  Object& object = objects[o];
  object.kind = kind;
  object.tensor = tensor;
  object.container = container;
  object.loop = kind == Kind::kConstant || kind == Kind::kInput ? 0 : LoopOf(g.value(v).def);
  return o;
}

void AliasDb::State::SetStorage(uint32_t object, SetId storage) {
  Object& o = objects[object];
  if (!moved_storage.empty()) {
    if (auto it = moved_storage.find(HandleKey(object)); it != moved_storage.end()) {
      // Where it moved to may be where it was made: what no longer comes from there would be kept alive by itself.
      auto [made_in, inserted] = unmoved_storage.try_emplace(object, storage);
      if (!inserted && made_in->second != storage && !building) needs_rebuild = true;
      made_in->second = storage;
      storage = Join(storage, it->second);
    }
  }
  if (o.storage == storage) return;
  if (!making_first) touched[object] = ++touched_epoch;
  if (!monotone && o.def.valid() && g.IsLive(o.def) && !sets.Includes(storage, o.storage))
    ResolveAround(g.value(o.def).def);
  o.storage = storage;
  if (o.escaped) Escape(storage);
}

void AliasDb::State::FreeOwn(ValueId v) {
  if (v.index >= values.size()) return;
  ValueRecord& r = values[v.index];
  if (r.generation != v.generation || r.own == 0) return;
  std::vector<uint32_t> todo = {r.own};
  while (!todo.empty()) {
    uint32_t o = todo.back();
    todo.pop_back();
    pending_free.push_back(o);
    contents.erase(o);
    geometry_changes.erase(o);
    if (auto it = elements_of.find(o); it != elements_of.end()) {
      for (uint32_t e : it->second) {
        elements.erase({o, objects[e].slot});
        todo.push_back(e);
      }
      elements_of.erase(o);
    }
  }
  r.own = 0;
  r.points_to = 0;
}

uint32_t AliasDb::State::Find(uint32_t object) const {
  while (objects[object].group != 0) object = objects[object].group;
  return object;
}

AliasDb::State::SetId AliasDb::State::Join(SetId a, SetId b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  SetId u = sets.Union(a, b);
  if (summarised != 0 && !SetPool::IsSingle(u)) {
    // Members of a summary that is in the set say nothing more.
    bool any = false;
    sets.ForEach(u, [&](Ref r) { any |= objects[ObjectOf(r)].kind == Kind::kSummary; });
    if (any) {
      absl::InlinedVector<Ref, 8> refs = sets.Refs(u);
      std::vector<Ref> kept;
      for (Ref r : refs) {
        if (objects[ObjectOf(r)].kind == Kind::kSummary) kept.push_back(MakeRef(Find(ObjectOf(r))));
      }
      size_t summaries_in = kept.size();
      for (Ref r : refs) {
        if (objects[ObjectOf(r)].kind == Kind::kSummary) continue;
        uint32_t f = Find(ObjectOf(r));
        bool covered = false;
        for (size_t i = 0; i < summaries_in; ++i) covered |= f == ObjectOf(kept[i]);
        if (!covered) kept.push_back(r);
      }
      // A chain goes on: its next member joins the summary at once.
      if (summaries_in == 1 && kept.size() <= 3) {
        return kept.size() == 1 ? SetPool::Single(kept[0]) : Summarise(sets.Make(std::move(kept)));
      }
      u = sets.Make(std::move(kept));
    }
  }
  if (sets.Size(u) > static_cast<size_t>(options.max_set)) return Summarise(u);
  return u;
}

AliasDb::State::SetId AliasDb::State::Summarise(SetId s) {
  absl::InlinedVector<Ref, 8> refs = sets.Refs(s);
  uint32_t group = 0;
  for (Ref r : refs) {
    uint32_t f = Find(ObjectOf(r));
    if (objects[f].kind == Kind::kSummary) group = f;
  }
  if (group == 0) {
    group = NewObject(Kind::kSummary, ValueId());
    objects[group].storage = SetPool::Single(MakeRef(group));
  }
  ++summarised;
  bool external = objects[group].external, escaped = objects[group].escaped;
  auto add = [&](uint32_t o) {
    uint32_t f = Find(o);
    if (f == group || o == kUnknown) {
      if (o == kUnknown) external = true;
      return;
    }
    external |= objects[f].external;
    escaped |= objects[f].escaped;
    objects[group].tensor |= objects[f].tensor;
    objects[group].container |= objects[f].container;
    writes.MoveList(ListOf(f), 2 * group);
    if (reads_active) reads.MoveList(ListOf(f), 2 * group);
    objects[f].group = group;
    if (objects[f].kind == Kind::kSummary) {
      std::vector<Ref> moved = std::move(members[f]);
      members.erase(f);
      std::vector<Ref>& to = members[group];
      to.insert(to.end(), moved.begin(), moved.end());
    }
  };
  for (Ref r : refs) {
    uint32_t o = ObjectOf(r);
    if (Find(o) == group) continue;
    SetId storages = objects[o].storage;
    if (objects[o].kind != Kind::kSummary) members[group].push_back(r);
    add(o);
    sets.ForEach(storages, [&](Ref storage) { add(ObjectOf(storage)); });
  }
  if ((external || escaped) && !(objects[group].external || objects[group].escaped)) {
    writes.MoveList(2 * group, 2 * kUnknown);
    if (reads_active) reads.MoveList(2 * group, 2 * kUnknown);
  }
  objects[group].external = external;
  objects[group].escaped = escaped;
  return SetPool::Single(MakeRef(group));
}

// --- loops
// ---------------------------------------------------------------------------------------------------------------------

uint32_t AliasDb::State::KnownLoop(NodeId loop_node) const {
  if (loop_node.index >= loop_of_node.size()) return 0;
  const uint32_t l = loop_of_node[loop_node.index];
  return loops[l].node == loop_node ? l : 0;
}

uint32_t AliasDb::State::LoopIndex(NodeId loop_node) {
  if (uint32_t known = KnownLoop(loop_node); known != 0) return known;
  const uint32_t parent = LoopOf(loop_node);
  if (loop_node.index >= loop_of_node.size())
    loop_of_node.resize(std::max<size_t>(loop_node.index + 1, g.node_index_bound()));
  const uint32_t l = static_cast<uint32_t>(loops.size());
  loop_of_node[loop_node.index] = l;
  loops.push_back({loop_node, parent, loops[parent].depth + 1, {}});
  return l;
}

// The innermost loop around n.
uint32_t AliasDb::State::LoopOf(NodeId n) {
  if (walk_loop != UINT32_MAX) return walk_loop;
  if (loops.size() == 1 && monotone) return 0;
  for (NodeId owner = g.block(g.node(n).parent).owner; owner.valid(); owner = g.block(g.node(owner).parent).owner) {
    if (IsLoopKind(OpOf(g.node(owner)).kind)) return LoopIndex(owner);
  }
  return 0;
}

bool AliasDb::State::LoopWithin(uint32_t inner, uint32_t outer) const {
  while (loops[inner].depth > loops[outer].depth) inner = loops[inner].parent;
  return inner == outer;
}

NodeId AliasDb::State::OutermostLoop(NodeId n) const {
  NodeId found;
  for (NodeId x = n; x.valid(); x = g.block(g.node(x).parent).owner) {
    if (IsLoopKind(OpOf(g.node(x)).kind)) found = x;
  }
  return found;
}

void AliasDb::State::ResolveAround(NodeId n) {
  needs_rebuild |= !moved_storage.empty();
  if (loops.size() <= 1) return;
  if (NodeId loop = OutermostLoop(n); loop.valid()) resolve_loops.insert(loop.index);
}

// What of `s` is in the next iteration of the loop: its allocations are older ones then.
AliasDb::State::SetId AliasDb::State::Shift(SetId s, uint32_t loop) {
  if (loop == 0) return s;
  bool any = false;
  sets.ForEach(s, [&](Ref r) { any |= !IsOld(r) && LoopWithin(objects[ObjectOf(r)].loop, loop); });
  if (!any) return s;
  std::vector<Ref> out;
  sets.ForEach(s, [&](Ref r) { out.push_back(LoopWithin(objects[ObjectOf(r)].loop, loop) ? r | 1 : r); });
  return sets.Make(std::move(out));
}

// What an older instance of a holder allocated in `loop` holds or lives in, if the current one's is `s`.
AliasDb::State::SetId AliasDb::State::OldContents(SetId s, uint32_t loop) {
  if (loop == 0 || s == 0) return s;
  std::vector<Ref> out;
  sets.ForEach(s, [&](Ref r) {
    uint32_t l = objects[ObjectOf(r)].loop;
    if (l == 0 || IsOld(r)) {
      out.push_back(r);
    } else if (LoopWithin(l, loop)) {
      out.push_back(r | 1);
    } else {
      out.push_back(r);
      out.push_back(r | 1);
    }
  });
  return sets.Make(std::move(out));
}

AliasDb::State::SetId AliasDb::State::Storages(Ref r) {
  const Object& o = objects[ObjectOf(r)];
  if (!IsOld(r)) return o.storage;
  return OldContents(o.storage, o.loop);
}

AliasDb::State::SetId AliasDb::State::StoragesOfSet(SetId s) {
  if (SetPool::IsSingle(s)) return Storages(SetPool::SingleRef(s));
  SetId out = 0;
  for (Ref r : sets.Refs(s)) out = Join(out, Storages(r));
  return out;
}

// Of what is in the set and of where each member lives: who takes them out of a container asks again when either
// changes.
uint64_t AliasDb::State::Fingerprint(SetId s) {
  uint64_t h = Mix(1, s);
  sets.ForEach(s, [&](Ref r) { h = Mix(h, objects[ObjectOf(r)].storage); });
  return h;
}

// --- containers
// ----------------------------------------------------------------------------------------------------------------

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
  if (depth > kMaxElementDepth) return Type();
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
  if (kind == Kind::kElement) {
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
    // A graph's (tuple, (view, fresh)).
    const EffectKind kind = OpOf(node).kind;
    const Type t = TypeOfElement(object, slot);
    if ((kind == EffectKind::kFork || kind == EffectKind::kSubgraph) && IsAliasingType(t)) {
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
  const OpEffects& op = OpOf(node);
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
      const Attribute* beg = node.FindAttribute("beg");
      const int64_t* b = beg != nullptr ? std::get_if<int64_t>(beg) : nullptr;
      int32_t from = slot >= 0 && b != nullptr && *b >= 0 ? slot + static_cast<int32_t>(*b) : kAnySlot;
      return node.inputs.empty() ? 0 : ContentOfSet(PointsTo(node.inputs[0]), from, value.def);
    }
    case EffectKind::kCreateObject:
      return 0;
    default:
      break;
  }
  OpEffects e = EffectsOf(node);
  const ResultEffects& r = e.result(value.def_index);
  SetId out = 0;
  for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
    uint64_t bit = uint64_t{1} << i;
    if (r.elements_self & bit) out = Join(out, PointsTo(node.inputs[i]));
    // Containers of what the arguments hold are pieces; they hold it.
    if ((r.elements_element & bit) && !r.elements_deep) {
      out = Join(out, ContentOfSet(PointsTo(node.inputs[i]), kAnySlot, value.def));
    }
  }
  if (r.elements_view != 0 || r.elements_element_view != 0 || r.elements_fresh || r.elements_deep) {
    Type t = TypeOfElement(object, slot);
    if (IsAliasingType(t)) {
      // Only a partition tells its pieces apart; and new tensors are each new.
      bool distinct = r.partition || (r.elements_fresh && r.elements_view == 0 && r.elements_element_view == 0);
      int32_t which = distinct ? slot : r.elements_view == 0 && r.elements_element_view == 0 ? kAnySlot : slot;
      uint32_t piece = ElementObject(object, which, MayBeTensor(t), MayBeContainer(t), Kind::kPiece);
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

AliasDb::State::SetId AliasDb::State::ContentOf(Ref holder, int32_t slot, NodeId reader) {
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
    Contents& mine = contents[o];
    if (mine.readers.empty() || mine.readers.back() != reader) mine.readers.push_back(reader);
    c = &mine;
  } else if (auto it = contents.find(o); it != contents.end()) {
    c = &it->second;
  }
  if (c != nullptr && !c->stores.empty()) {
    const std::vector<Store> stores = c->stores;
    const uint32_t holder_loop = objects[o].loop;
    // Straight-line code, all stores before the reader, any slot: the union is kept.
    bool plain = reader.valid() && !IsOld(holder) && slot < 0;
    if (plain && stores.size() > 8) {
      for (size_t i = c->summed; i < stores.size() && plain; ++i) {
        plain = LoopOf(stores[i].node) == holder_loop && (i == 0 || Precedes(stores[i - 1].node, stores[i].node) == 1);
      }
      if (plain && Precedes(stores.back().node, reader) == 1) {
        Contents& mine = contents[o];
        SetId sum = mine.sum;
        for (size_t i = mine.summed; i < stores.size(); ++i) {
          SetId stored = PointsTo(stores[i].value);
          if (stores[i].elements) stored = ContentOfSet(stored, kAnySlot, stores[i].node);
          sum = Join(sum, stored);
        }
        Contents& again = contents[o];
        again.sum = sum;
        again.summed = static_cast<uint32_t>(stores.size());
        out = Join(out, sum);
      } else {
        plain = false;
      }
    } else {
      plain = false;
    }
    if (!plain) {
      for (const Store& s : stores) {
        if (slot >= 0) {
          if (s.slot >= 0 && s.slot != slot) continue;
          if (s.slot == kAppended && count >= 0 && slot < count) continue;
        }
        SetId stored = PointsTo(s.value);
        if (s.elements) stored = ContentOfSet(stored, kAnySlot, s.node);
        const bool before = !reader.valid() || Precedes(s.node, reader) == 1;
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
  if (objects[o].external) {
    if (reader.valid() && (external_readers.empty() || external_readers.back() != reader))
      external_readers.push_back(reader);
    if (external_stores) out = Join(out, SetPool::Single(MakeRef(kUnknown)));
  }
  if (objects[o].escaped) out = Join(out, SetPool::Single(MakeRef(kUnknown)));
  return out;
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
    all = Join(all, inside);
    sets.ForEach(inside, [&](Ref e) {
      if (!done.contains(e)) todo.push_back(e);
    });
  }
  return all;
}

// --- effects of a node
// ---------------------------------------------------------------------------------------------------------

const OpEffects& AliasDb::State::OpOf(const Node& node) const {
  struct Entry {
    const std::string* name = nullptr;
    const OpEffects* effects = nullptr;
  };
  static thread_local Entry cache[64];
  const std::string* name = &node.op.full();
  Entry& entry = cache[(reinterpret_cast<uintptr_t>(name) >> 5) & 63];
  if (entry.name != name) entry = {name, &GetOpEffects(node.op)};
  return *entry.effects;
}

OpEffects AliasDb::State::EffectsOf(const Node& node) {
  const OpEffects& op = OpOf(node);
  if (op.kind == EffectKind::kSubgraph || op.kind == EffectKind::kFork) {
    const Attribute* a = node.FindAttribute("Subgraph");
    const std::shared_ptr<Graph>* sub = a != nullptr ? std::get_if<std::shared_ptr<Graph>>(a) : nullptr;
    if (sub != nullptr && *sub != nullptr) {
      OpEffects e = SummaryOf(**sub);
      if (op.kind == EffectKind::kFork && e.kind != EffectKind::kUnknown && e.kind != EffectKind::kCall) {
        // The results are the future's.
        ResultEffects future;
        future.fresh = true;
        for (const ResultEffects& r : e.results) {
          future.elements_self |= r.self | r.elements_self;
          future.elements_view |= r.view | r.elements_view;
          future.elements_element |= r.element | r.elements_element;
          future.elements_element_view |= r.element_view | r.elements_element_view;
          future.elements_fresh |= r.fresh || r.elements_fresh;
        }
        e.results = {future};
        e.kind = EffectKind::kFork;
        e.side_effect = true;
      }
      return e;
    }
    if (op.kind == EffectKind::kFork) return GetOpEffects(OpName::Get("prim::PythonOp"));
    return op;
  }
  return NodeEffects(g, node, op, !options_distrusted);
}

// What a graph does to its arguments and where its results live, as one operator.
const OpEffects& AliasDb::State::SummaryOf(Graph& sub) {
  auto it = summaries.find(&sub);
  if (it != summaries.end()) return *it->second;
  // Most groups only compute: their results are new.
  bool computes = true;
  for (NodeId n = sub.block(sub.top()).first; n.valid() && computes; n = sub.node(n).next) {
    computes = OpOf(sub.node(n)).pure && sub.node(n).blocks.empty();
  }
  for (ValueId v : sub.outputs())
    computes = computes && IsTensorType(sub.value(v).type) && !sub.IsParam(sub.value(v).def);
  if (computes) {
    auto made = std::make_unique<OpEffects>();
    made->more_args = kReadsData | kReadsGeometry | kReadsElements | kReadsContainer;
    for (size_t i = 0; i < sub.outputs().size(); ++i) {
      ResultEffects r;
      r.fresh = true;
      // The same value twice is the same tensor.
      for (size_t j = 0; j < i; ++j) {
        if (sub.outputs()[j] == sub.outputs()[i]) r.overlaps_results |= 1u << std::min<size_t>(j, 31);
      }
      made->results.push_back(r);
    }
    return *(summaries[&sub] = std::move(made));
  }
  auto result = std::make_unique<OpEffects>();
  OpEffects& e = *result;
  if (!summarising.insert(&sub).second) {
    e = GetOpEffects(OpName::Get("prim::PythonOp"));
    return *(summaries[&sub] = std::move(result));
  }
  State inner(sub, Options());
  inner.summarising = summarising;
  inner.Build();
  const size_t num_params = sub.inputs().size();
  auto param_of = [&](uint32_t object, bool* inside) -> int {
    *inside = false;
    while (inner.objects[object].kind == Kind::kElement) {
      *inside = true;
      object = inner.objects[object].parent;
    }
    if (inner.objects[object].kind != Kind::kInput) return -1;
    return static_cast<int>(sub.value(inner.objects[object].def).def_index);
  };
  bool opaque = num_params > 64, anything = false;
  e.args.assign(num_params, kReadsData | kReadsGeometry | kReadsElements | kReadsContainer);
  for (ValueId out : sub.outputs()) {
    ResultEffects r;
    bool tensor = IsTensorType(sub.value(out).type);
    SetId points_to = inner.PointsTo(out);
    auto describe = [&](Ref ref, bool nested) {
      const Object& o = inner.objects[ObjectOf(ref)];
      bool inside;
      if (ObjectOf(ref) == kUnknown || o.kind == Kind::kSummary || o.kind == Kind::kWeight) {
        opaque = true;
        return;
      }
      if (int p = param_of(ObjectOf(ref), &inside); p >= 0) {
        uint64_t bit = uint64_t{1} << p;
        (nested ? (inside ? r.elements_element : r.elements_self) : (inside ? r.element : r.self)) |= bit;
        return;
      }
      (nested ? r.elements_fresh : r.fresh) = true;
      inner.sets.ForEach(o.storage, [&](Ref s) {
        if (int p = param_of(ObjectOf(s), &inside); p >= 0) {
          uint64_t bit = uint64_t{1} << p;
          (nested ? (inside ? r.elements_element_view : r.elements_view) : (inside ? r.element_view : r.view)) |= bit;
        } else if (ObjectOf(s) == kUnknown) {
          opaque = true;
        }
      });
    };
    inner.sets.ForEach(points_to, [&](Ref ref) { describe(ref, false); });
    if (!tensor) {
      SetId reach = inner.Reach(points_to);
      inner.sets.ForEach(reach, [&](Ref ref) {
        if (!inner.sets.Contains(points_to, ref)) describe(ref, true);
      });
      r.elements_deep = r.elements_fresh;
    }
    e.results.push_back(r);
  }
  for (NodeId n : sub.AllNodes()) {
    const EffectKind kind = inner.OpOf(sub.node(n)).kind;
    if (kind == EffectKind::kCall || kind == EffectKind::kUnknown) opaque = true;
    if (kind == EffectKind::kUnknown) anything = true;
    if (kind == EffectKind::kSubgraph || kind == EffectKind::kFork) {
      const EffectKind inside = inner.EffectsOf(sub.node(n)).kind;
      if (inside == EffectKind::kCall || inside == EffectKind::kUnknown) opaque = true;
      if (inside == EffectKind::kUnknown) anything = true;
    }
    for (uint32_t i = inner.RecordOf(n).first_write; i != 0; i = inner.writes.at(i).node_next) {
      const Access& w = inner.writes.at(i);
      uint32_t s = ObjectOf(w.storage);
      if (s == kRandom) {
        e.random = true;
        continue;
      }
      if (s == kWorld) {
        e.side_effect = true;
        continue;
      }
      if (s == kUnknown) opaque = true;
      bool inside;
      int p = param_of(s, &inside);
      if (p < 0) continue;
      e.writes = true;
      const bool container = (w.bits & kOfContainer) != 0;
      if (w.bits & kGeometryWrite) e.args[p] |= inside ? kWritesElements : kWritesGeometry;
      if (w.bits & kWrite) {
        e.args[p] |= container ? kWritesContainer | kShufflesContainer : inside ? kWritesElements : kWritesData;
        if (container) {
          // What it stores is not followed: everything may be in there.
          for (uint16_t& a : e.args) a |= kEscapes;
        }
      }
    }
  }
  summarising.erase(&sub);
  // Code that we do not see: it reaches what the arguments reach, unless it is Python's.
  if (opaque) e = GetOpEffects(OpName::Get(anything ? "prim::PythonOp" : "prim::CallFunction"));
  return *(summaries[&sub] = std::move(result));
}

std::optional<int64_t> AliasDb::State::ConstantInt(ValueId v) const {
  const Value& value = g.value(v);
  if (!value.expr && OpOf(g.node(value.def)).kind != EffectKind::kConstant) return std::nullopt;
  std::optional<Expr> e = GetIntExpr(g, v);
  return e && e->IsConstant() ? e->Constant() : std::nullopt;
}

int32_t AliasDb::State::AttributeSlot(const Node& node) {
  const Attribute* a = node.FindAttribute("name");
  const std::string* name = a != nullptr ? std::get_if<std::string>(a) : nullptr;
  if (name == nullptr) return kAnySlot;
  return attribute_slots.try_emplace(*name, static_cast<int32_t>(attribute_slots.size())).first->second;
}

// --- evaluation
// ----------------------------------------------------------------------------------------------------------------

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
  std::vector<NodeId> readers = it->second.readers;
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
  if (!monotone && loops.size() > 1 && (s == before || !sets.Includes(s, before))) {
    ResolveAround(by);
    for (const Use& u : g.value(v).uses) ResolveAround(u.user);
  }
  PushUsers(v);
}

void AliasDb::State::AddAccess(NodeId n, Ref object, Ref storage, uint8_t bits, size_t arg) {
  Access a;
  a.node = n;
  a.object = object;
  a.storage = storage;
  a.bits = bits;
  a.arg = static_cast<uint16_t>(std::min<size_t>(arg, UINT16_MAX));
  NodeRecord& r = nodes[n.index];
  uint32_t list = ListOf(ObjectOf(storage));
  any_async |= (bits & kAsync) != 0;
  if (bits & (kWrite | kGeometryWrite)) {
    writes.Add(list, a, &r.first_write);
  } else {
    reads.Add(list, a, &r.first_read);
  }
}

uint32_t AliasDb::State::ListOf(uint32_t storage) const {
  uint32_t f = Find(storage);
  const Object* o = &objects[f];
  if (o->external || o->escaped) return 2 * kUnknown;
  // The pieces of one container share a list, apart from the container's own.
  if (o->kind == Kind::kPiece) return 2 * o->parent + 1;
  return 2 * f;
}

void AliasDb::State::AddAccesses(NodeId n, absl::Span<const ValueId> inputs, const OpEffects& e, uint8_t extra) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint16_t b = e.arg(i);
    if (b == 0) continue;
    const SetId p = PointsTo(inputs[i]);
    if (p == 0) continue;
    const bool writes_something = b & (kWritesData | kWritesGeometry | kWritesElements | kWritesContainer);
    if (!writes_something && !reads_active) continue;
    for (Ref r : sets.Refs(p)) {
      const Object o = objects[ObjectOf(r)];
      if (o.tensor) {
        uint8_t w = (b & kWritesData ? kWrite : 0) | (b & kWritesGeometry ? kGeometryWrite : 0);
        uint8_t rd = (b & kReadsData ? kRead : 0) | (b & kReadsGeometry ? kGeometryRead : 0);
        SetId storages = Storages(r);
        if (w != 0) {
          for (Ref s : sets.Refs(storages)) AddAccess(n, r, s, w | extra, i);
          if (b & kWritesGeometry) {
            ++geometry_changes[HandleKey(ObjectOf(r))];
            if (o.external && ObjectOf(r) != kUnknown) ++geometry_changes[kUnknown];
          }
        }
        if (reads_active && rd != 0) {
          for (Ref s : sets.Refs(storages)) AddAccess(n, r, s, rd | extra, i);
        }
      }
      if (o.container) {
        if (b & kWritesContainer) AddAccess(n, r, r, kWrite | kOfContainer | extra, i);
        if (reads_active && (b & kReadsContainer)) AddAccess(n, r, r, kRead | kOfContainer | extra, i);
      }
    }
    if (b & (kReadsElements | kWritesElements)) {
      if (!(b & kWritesElements) && !reads_active) continue;
      SetId inside = 0;
      for (Ref r : sets.Refs(p)) {
        if (objects[ObjectOf(r)].container) inside = Join(inside, ContentOf(r, kAnySlot, n));
      }
      inside = Reach(inside, n);
      const bool deep = (b & kWritesContainer) && (b & kEscapes);  // code that we do not see
      for (Ref r : sets.Refs(inside)) {
        if (objects[ObjectOf(r)].container) {
          if (deep) AddAccess(n, r, r, kWrite | kOfContainer | extra, i);
          if (reads_active) AddAccess(n, r, r, kRead | kOfContainer | extra, i);
        }
        if (!objects[ObjectOf(r)].tensor) continue;
        const bool reshapes = deep && (b & kWritesGeometry);
        if (reshapes) {
          ++geometry_changes[HandleKey(ObjectOf(r))];
          if (objects[ObjectOf(r)].external && ObjectOf(r) != kUnknown) ++geometry_changes[kUnknown];
        }
        for (Ref s : sets.Refs(Storages(r))) {
          if (b & kWritesElements) AddAccess(n, r, s, kWrite | (reshapes ? kGeometryWrite : 0) | extra, i);
          if (reads_active && (b & kReadsElements)) AddAccess(n, r, s, kRead | kGeometryRead | extra, i);
        }
      }
    }
  }
  const Ref unknown = MakeRef(kUnknown);
  if (e.kind == EffectKind::kUnknown) {
    ++geometry_changes[kUnknown];
    AddAccess(n, unknown, unknown, kWrite | kGeometryWrite | extra, UINT16_MAX);
    AddAccess(n, unknown, unknown, kWrite | kOfContainer | extra, UINT16_MAX);
    if (reads_active) {
      AddAccess(n, unknown, unknown, kRead | kGeometryRead | extra, UINT16_MAX);
      AddAccess(n, unknown, unknown, kRead | kOfContainer | extra, UINT16_MAX);
    }
  }
  if (e.random) AddAccess(n, MakeRef(kRandom), MakeRef(kRandom), kWrite, UINT16_MAX);
  if (e.side_effect) AddAccess(n, MakeRef(kWorld), MakeRef(kWorld), kWrite, UINT16_MAX);
  if (reads_active && e.side_effect && g.node(n).op.name() == "prim::RaiseException") {
    AddAccess(n, unknown, unknown, kRead, UINT16_MAX);
  }
}

void AliasDb::State::EscapeObject(uint32_t object) {
  Object& o = objects[object];
  if (o.escaped || object == kUnknown) return;
  const uint32_t list = ListOf(object);
  o.escaped = true;
  const uint32_t f = Find(object);
  if (f != object && !objects[f].escaped) {
    const uint32_t group_list = ListOf(f);
    objects[f].escaped = true;
    writes.MoveList(group_list, 2 * kUnknown);
    if (reads_active) reads.MoveList(group_list, 2 * kUnknown);
  }
  if (list == 2 * kUnknown) return;
  writes.MoveList(list, 2 * kUnknown);
  if (reads_active) reads.MoveList(list, 2 * kUnknown);
  if (o.kind == Kind::kPiece) {
    // They share a list: they all go, which costs only precision.
    std::vector<uint32_t> siblings = elements_of[o.parent];
    for (uint32_t sibling : siblings) {
      if (sibling != object) EscapeObject(sibling);
    }
  }
}

void AliasDb::State::Escape(SetId set) {
  std::vector<Ref> todo;
  sets.ForEach(set, [&](Ref r) { todo.push_back(r); });
  while (!todo.empty()) {
    uint32_t o = ObjectOf(todo.back());
    todo.pop_back();
    if (objects[o].escaped || o == kUnknown) continue;
    const bool was_external = objects[o].external;
    EscapeObject(o);
    dirty = true;
    sets.ForEach(objects[o].storage, [&](Ref s) { todo.push_back(s); });
    if (objects[o].container && !was_external) {
      SetId inside = ContentOf(MakeRef(o), kAnySlot, NodeId());
      sets.ForEach(inside, [&](Ref r) { todo.push_back(r); });
      PushReaders(o);
    }
  }
}

std::vector<std::pair<uint32_t, Store>> AliasDb::State::StoresOf(NodeId n) {
  std::vector<std::pair<uint32_t, Store>> out;
  auto it = stores_of_node.find(n.index);
  if (it == stores_of_node.end()) return out;
  std::vector<uint32_t> holders = it->second;
  std::sort(holders.begin(), holders.end());
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  for (uint32_t o : holders) {
    auto c = contents.find(o);
    if (c == contents.end()) continue;
    // From the end: it is usually the last one.
    const auto& stores = c->second.stores;
    for (size_t i = stores.size(); i-- > 0;) {
      if (stores[i].node == n) {
        out.push_back({o, stores[i]});
      } else if (!out.empty() && out.back().first == o) {
        break;  // a node's stores stand together
      }
    }
    if (!c->second.shuffles.empty() &&
        std::find(c->second.shuffles.begin(), c->second.shuffles.end(), n) != c->second.shuffles.end()) {
      out.push_back({o, Store()});
    }
  }
  return out;
}

void AliasDb::State::ContainerMade(uint32_t own, uint64_t made_of, bool inputs_changed) {
  Contents& c = contents[own];
  const bool changed = c.made_of != made_of;
  if (!changed && !inputs_changed) return;
  c.made_of = made_of;
  dirty |= changed;
  PushReaders(own, changed);
  if (objects[own].escaped) Escape(ContentOf(MakeRef(own), kAnySlot, NodeId()));
}

void AliasDb::State::Forget(NodeId n, NodeRecord& r, bool push) {
  if (r.first_write != 0) {
    if (r.flags & NodeRecord::kGeometry) {
      for (uint32_t i = r.first_write; i != 0; i = writes.at(i).node_next) {
        const Access& w = writes.at(i);
        if (!(w.bits & kGeometryWrite)) continue;
        // Counted once an object and argument, recorded once a storage.
        bool again = false;
        for (uint32_t k = r.first_write; k != i; k = writes.at(k).node_next) {
          const Access& x = writes.at(k);
          again |= (x.bits & kGeometryWrite) && x.object == w.object && x.arg == w.arg && x.bits == w.bits;
        }
        if (again) continue;
        auto drop = [&](uint32_t o) {
          auto it = geometry_changes.find(o);
          if (it != geometry_changes.end() && --it->second <= 0) geometry_changes.erase(it);
        };
        drop(HandleKey(ObjectOf(w.object)));
        if (ObjectOf(w.object) != kUnknown && objects[ObjectOf(w.object)].external) drop(kUnknown);
      }
    }
    writes.RemoveNode(&r.first_write);
  }
  if (r.first_read != 0) reads.RemoveNode(&r.first_read);
  if (r.flags & NodeRecord::kStores) {
    auto it = stores_of_node.find(n.index);
    if (it != stores_of_node.end()) {
      std::vector<uint32_t> holders = std::move(it->second);
      stores_of_node.erase(it);
      for (uint32_t o : holders) {
        auto c = contents.find(o);
        if (c == contents.end()) continue;
        auto& stores = c->second.stores;
        stores.erase(std::remove_if(stores.begin(), stores.end(), [&](const Store& s) { return s.node == n; }),
                     stores.end());
        auto& shuffles = c->second.shuffles;
        shuffles.erase(std::remove(shuffles.begin(), shuffles.end(), n), shuffles.end());
        c->second.summed = 0;
        c->second.sum = 0;
        if (push) PushReaders(o);
      }
    }
    r.flags &= ~NodeRecord::kStores;
  }
}

void AliasDb::State::AddStores(NodeId n, const Node& node, const OpEffects& e) {
  bool container_write = false, escapes = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    container_write |= (e.arg(i) & kWritesContainer) != 0;
    escapes |= (e.arg(i) & kEscapes) != 0;
  }
  if (escapes) {
    bool any = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!(e.arg(i) & kEscapes)) continue;
      SetId p = PointsTo(node.inputs[i]);
      any |= p != 0;
      Escape(p);
    }
    if (any) {
      nodes[n.index].flags |= NodeRecord::kEscapes;
      if (!external_stores) {
        external_stores = true;
        for (NodeId reader : external_readers) {
          if (g.IsLive(reader)) Push(reader);
        }
      }
    }
  }
  if (!container_write) return;
  const bool is_set_attribute = e.kind == EffectKind::kSetAttr;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const uint16_t b = e.arg(i);
    if (!(b & kWritesContainer)) continue;
    for (Ref holder : sets.Refs(PointsTo(node.inputs[i]))) {
      const uint32_t o = ObjectOf(holder);
      const Object h = objects[o];
      if (!h.container) continue;
      const bool leaves = h.external || h.escaped || h.kind == Kind::kSummary || o == kUnknown;
      bool stores = (b & kEscapes) != 0;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        stores |= k != i && (e.arg(k) & (kStored | kStoresElements)) != 0 && PointsTo(node.inputs[k]) != 0;
      }
      if (leaves && stores) {
        nodes[n.index].flags |= NodeRecord::kEscapes;
        if (!external_stores) {
          external_stores = true;
          for (NodeId reader : external_readers) {
            if (g.IsLive(reader)) Push(reader);
          }
        }
      }
      bool stored_any = false;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const uint16_t c = e.arg(k);
        if (!(c & (kStored | kStoresElements)) || k == i) continue;
        SetId p = PointsTo(node.inputs[k]);
        if (p == 0) continue;
        if (leaves) Escape(c & kStored ? p : ContentOfSet(p, kAnySlot, n));
        if (o == kUnknown || h.kind == Kind::kSummary) continue;
        Store s;
        s.node = n;
        s.value = node.inputs[k];
        s.elements = (c & kStoresElements) != 0;
        if (is_set_attribute) {
          s.slot = AttributeSlot(node);
        } else if (node.op.name() == "aten::append" || node.op.name() == "aten::extend" ||
                   node.op.name() == "aten::add_") {
          s.slot = kAppended;
        } else if (node.op.name() == "aten::_set_item" &&
                   UnwrapOptional(g.value(node.inputs[i]).type).kind() == TypeKind::kList) {
          std::optional<int64_t> at = ConstantInt(node.inputs[1]);
          s.slot = at && *at >= 0 && *at < INT32_MAX ? static_cast<int32_t>(*at) : kAnySlot;
        }
        s.last = Fingerprint(s.elements ? ContentOfSet(p, kAnySlot, n) : p);
        contents[o].stores.push_back(s);
        stored_any = true;
      }
      if (o != kUnknown && h.kind != Kind::kSummary) {
        if (b & kShufflesContainer) {
          contents[o].shuffles.push_back(n);
          stored_any = true;
        }
        if (stored_any) {
          nodes[n.index].flags |= NodeRecord::kStores;
          stores_of_node[n.index].push_back(o);
        }
      }
    }
  }
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

void AliasDb::State::EvaluateGeneric(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed) {
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
  } else if (e.kind == EffectKind::kCall) {
    SetId reach = 0;
    for (ValueId v : node.inputs) reach = Join(reach, Reach(PointsTo(v), n));
    const SetId target = StoragesOfSet(reach);
    for (ValueId v : node.inputs) MoveStorage(n, v, target);
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
      SetPointsTo(inputs[i], 0, param, false);
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
    SetPointsTo(inputs[i], SetPool::Single(MakeRef(own)), param, false);
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
      if (!is_while && node.inputs.size() >= 2) {
        std::optional<int64_t> trips = ConstantInt(node.inputs[0]);
        std::optional<ConstantValue> c = GetConstant(g, node.inputs[1]);
        runs = trips && *trips > 0 && c && std::holds_alternative<bool>(*c) && std::get<bool>(*c);
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
  // While sets also shrink, a reader may have looked when inputs were something else for a moment.
  const bool inputs_changed = !monotone && (record.flags & NodeRecord::kInputsChanged) != 0;
  record.flags &= ~NodeRecord::kInputsChanged;
  const OpEffects& op = OpOf(node);
  const uint8_t had = record.flags;
  std::vector<std::pair<uint32_t, Store>> had_stores;
  if (had & NodeRecord::kStores) had_stores = StoresOf(n);
  if (!first || had != 0) Forget(n, record, false);
  record.flags = (record.flags | NodeRecord::kEvaluated) &
                 ~(NodeRecord::kEscapes | NodeRecord::kMovesStorage | NodeRecord::kGeometry);
  // The fast road: new memory, reads only.
  if (op.pure && !reads_active) {
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
          if (IsAliasingType(g.value(node.outputs[k]).type)) {
            SetPointsTo(node.outputs[k], ContentOfSet(p, kAnySlot, n), n, first);
          }
        }
        AddAccesses(n, node.inputs, wait, 0);
        // What the forked graph does may happen here.
        for (Ref r : sets.Refs(p)) {
          const Object& future = objects[ObjectOf(r)];
          if (future.def.valid() && g.IsLive(future.def) &&
              OpOf(g.node(g.value(future.def).def)).kind == EffectKind::kFork) {
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
        const bool opaque = e.kind != EffectKind::kFork;
        if (opaque) {
          e.results.resize(1);
          e.results[0].fresh = true;
        }
        EvaluateGeneric(n, node, e, first, inputs_changed);
        if (opaque && !node.outputs.empty()) {
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
  // Straight-line code that is walked for the first time has no reader that a store could reach.
  if (((had | after.flags) & NodeRecord::kStores) && !(first && walk_loop == 0)) {
    std::vector<std::pair<uint32_t, Store>> has_stores;
    if (after.flags & NodeRecord::kStores) has_stores = StoresOf(n);
    const bool changed = has_stores != had_stores;
    if (changed || inputs_changed) {
      dirty |= changed;
      for (const auto& [o, store] : had_stores) PushReaders(o, changed);
      for (const auto& [o, store] : has_stores) PushReaders(o, changed);
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

void AliasDb::State::WalkNode(NodeId n) {
  Evaluate(n, true);
  const Node& node = g.node(n);
  if (node.blocks.empty()) return;
  const EffectKind kind = OpOf(node).kind;
  const uint32_t saved = walk_loop;
  if (IsLoopKind(kind)) walk_loop = LoopIndex(n);
  for (BlockId b : node.blocks) WalkBlock(b);
  walk_loop = saved;
  if (kind == EffectKind::kIf || kind == EffectKind::kCond) {
    EvaluateBlockNode(n, node, kind, false);
  } else if (IsLoopKind(kind)) {
    EvaluateBlockNode(n, node, kind, false);
    if (walk_loop == 0) Propagate();
  }
}

void AliasDb::State::WalkBlock(BlockId b) {
  RecordOf(g.block(b).param_node).flags |= NodeRecord::kEvaluated;
  for (NodeId n = g.block(b).first; n.valid(); n = g.node(n).next) WalkNode(n);
}

void AliasDb::State::Propagate() {
  const uint32_t saved = walk_loop;
  walk_loop = UINT32_MAX;
  for (size_t i = 0; i < queue.size(); ++i) {
    NodeId n = queue[i];
    if (!g.IsLive(n)) continue;
    NodeRecord& r = RecordOf(n);
    if (!(r.flags & NodeRecord::kQueued)) continue;
    r.flags &= ~NodeRecord::kQueued;
    constexpr uint8_t kManyTurns = 100;
    growing = r.turns >= kManyTurns;
    if (!growing) ++r.turns;
    Evaluate(n, false);
  }
  growing = false;
  for (NodeId n : queue) {
    if (g.IsLive(n)) RecordOf(n).turns = 0;
  }
  queue.clear();
  walk_loop = saved;
}

void AliasDb::State::Reset() {
  values.clear();
  objects.clear();
  free_objects.clear();
  pending_free.clear();
  nodes.clear();
  loops.clear();
  loop_of_node.clear();
  contents.clear();
  elements.clear();
  elements_of.clear();
  members.clear();
  moved_storage.clear();
  unmoved_storage.clear();
  weight_storages.clear();
  summaries.clear();
  external_readers.clear();
  external_stores = false;
  external_moved = false;
  stores_of_node.clear();
  geometry_changes.clear();
  geometry_writers = 0;
  summarised = 0;
  writes.Clear();
  reads.Clear();
  queue.clear();
  waiting.clear();
  touched.clear();
  forced.clear();
  resolve_loops.clear();
  DropCaches();
  any_async = false;
  needs_rebuild = false;
}

void AliasDb::State::Build() {
  Reset();
  values.resize(g.value_index_bound());
  nodes.resize(g.node_index_bound());
  objects.reserve(g.value_index_bound() + kFirstObject);
  objects.resize(kFirstObject);
  loops.push_back({NodeId(), 0, 0, {}});
  objects[kUnknown].kind = Kind::kUnknown;
  objects[kUnknown].tensor = objects[kUnknown].container = objects[kUnknown].external = true;
  objects[kRandom].kind = Kind::kRandom;
  objects[kWorld].kind = Kind::kWorld;
  for (uint32_t o : {kUnknown, kRandom, kWorld}) objects[o].storage = SetPool::Single(MakeRef(o));
  monotone = building = true;
  walk_loop = 0;
  EvaluateInputs();
  WalkBlock(g.top());
  Propagate();
  monotone = building = false;
  walk_loop = UINT32_MAX;
  touched.clear();
  forced.clear();
  if (needs_rebuild) {
    // A change of geometry was found after types had been trusted: they are not, this time.
    const int64_t found = geometry_writers;
    if (found != 0 && !options_distrusted) {
      options_distrusted = true;
      Build();
      return;
    }
    needs_rebuild = false;
  }
  dirty = true;
}

// Solves an outermost loop again from nothing: what only its own back edges kept alive goes.
void AliasDb::State::ResolveLoop(NodeId loop) {
  std::vector<NodeId> todo = {loop};
  std::vector<std::pair<ValueId, SetId>> before;
  for (ValueId v : g.node(loop).outputs) before.push_back({v, PointsTo(v)});
  std::vector<uint32_t> holders;
  while (!todo.empty()) {
    NodeId n = todo.back();
    todo.pop_back();
    NodeRecord& r = RecordOf(n);
    // What was let out, or moved, cannot be taken back piecemeal.
    needs_rebuild |= (r.flags & (NodeRecord::kEscapes | NodeRecord::kMovesStorage)) != 0;
    if (auto it = stores_of_node.find(n.index); it != stores_of_node.end()) {
      holders.insert(holders.end(), it->second.begin(), it->second.end());
    }
    Forget(n, nodes[n.index], false);
    if (r.flags & NodeRecord::kGeometry) --geometry_writers;
    r.flags &= NodeRecord::kQueued;
    for (ValueId v : g.node(n).outputs) {
      ValueRecord& value = RecordOf(v);
      value.points_to = 0;
      if (auto it = contents.find(value.own); value.own != 0 && it != contents.end()) {
        it->second.made_of = 0;
        it->second.summed = 0;
        it->second.sum = 0;
      }
    }
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : g.params(b)) RecordOf(v).points_to = 0;
      for (NodeId m = g.block(b).first; m.valid(); m = g.node(m).next) todo.push_back(m);
    }
  }
  if (needs_rebuild) return;
  const uint32_t saved = walk_loop;
  const bool saved_monotone = monotone;
  monotone = true;
  walk_loop = 0;
  resolving = loop;
  WalkNode(loop);
  Propagate();
  resolving = NodeId();
  queue.swap(waiting);
  monotone = saved_monotone;
  walk_loop = saved;
  for (const auto& [v, old] : before) {
    if (PointsTo(v) != old) {
      dirty = true;
      PushUsers(v);
    }
  }
  // What is inside has been evaluated.
  for (uint32_t o : holders) {
    auto it = contents.find(o);
    if (it == contents.end()) continue;
    const std::vector<NodeId> readers = it->second.readers;
    for (NodeId n : readers) {
      if (g.IsLive(n) && OutermostLoop(n) != loop) Push(n);
    }
  }
}

void AliasDb::State::Flush() {
  if (queue.empty() && !needs_rebuild && resolve_loops.empty() && pending_free.empty()) return;
  walk_loop = UINT32_MAX;
  if (!needs_rebuild) Propagate();
  for (int round = 0; !needs_rebuild && !resolve_loops.empty(); ++round) {
    uint32_t index = *resolve_loops.begin();
    resolve_loops.erase(resolve_loops.begin());
    NodeId loop;
    for (const alias_internal::Loop& l : loops) {
      if (l.node.valid() && l.node.index == index && g.IsLive(l.node)) loop = l.node;
    }
    if (loop.valid()) ResolveLoop(loop);
    Propagate();
    // Loops that fill each other's containers: from the start once is cheaper than in turns.
    if (round == 16) needs_rebuild = true;
  }
  if (needs_rebuild) {
    ++rebuilds;
    options_distrusted = false;
    Build();
    if (reads_active) {
      reads_active = false;
      ActivateReads();
    }
  }
  touched.clear();
  forced.clear();
  for (uint32_t o : pending_free) {
    if (o < objects.size()) {
      objects[o] = Object();
      free_objects.push_back(o);
    }
  }
  pending_free.clear();
  if (dirty) DropCaches();
}

void AliasDb::State::DropCaches() {
  geoms.clear();
  ++geom_epoch;
  write_spans.clear();
  outputs_known = false;
  output_refs.clear();
  dirty = false;
}

void AliasDb::State::ActivateReads() {
  if (reads_active) return;
  reads_active = true;
  for (NodeId n : g.AllNodes()) {
    NodeRecord& r = RecordOf(n);
    if (!(r.flags & NodeRecord::kEvaluated)) continue;
    // Only the reads are new: evaluation adds both, so the node's writes are taken out first.
    const bool saved = monotone;
    monotone = true;
    r.flags |= NodeRecord::kQueued;
    queue.push_back(n);
    monotone = saved;
  }
  const bool saved = monotone;
  monotone = true;
  Propagate();
  monotone = saved;
}

}  // namespace smelt
