// The queries: aliasing, writes, reachability.
#include <algorithm>

#include "absl/strings/match.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt {

using alias_internal::Geom;
using alias_internal::IsOld;
using alias_internal::kAsync;
using alias_internal::kGeometryWrite;
using alias_internal::kOfContainer;
using alias_internal::kRead;
using alias_internal::kWrite;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::UnwrapOptional;

namespace {

bool IsInterface(const Type& t) { return absl::StartsWith(t.class_name(), "InterfaceType<"); }

// Returns whether one object can be of both types.
bool TypesMeet(const Type& a, const Type& b) {
  const Type &x = UnwrapOptional(a), &y = UnwrapOptional(b);
  auto open = [](const Type& t) {
    return t.kind() == TypeKind::kAny || t.kind() == TypeKind::kUnion || t.kind() == TypeKind::kNumber;
  };
  if (open(x) || open(y)) return true;
  if (x.kind() != y.kind()) return false;
  switch (x.kind()) {
    case TypeKind::kList:
    case TypeKind::kFuture:
      return TypesMeet(x.element(), y.element());
    case TypeKind::kDict:
      return TypesMeet(x.elements()[0], y.elements()[0]) && TypesMeet(x.elements()[1], y.elements()[1]);
    case TypeKind::kTuple: {
      if (x.elements().size() != y.elements().size()) return false;
      for (size_t i = 0; i < x.elements().size(); ++i) {
        if (!TypesMeet(x.elements()[i], y.elements()[i])) return false;
      }
      return true;
    }
    case TypeKind::kClass:
      return x.class_name() == y.class_name() || IsInterface(x) || IsInterface(y);
    default:
      return true;
  }
}

// Collects the types of a value of type t and of everything that it reaches. Returns false if that may be anything (an
// object's attributes have no types here).
bool ReachableTypes(const Type& t, absl::InlinedVector<const Type*, 4>* out) {
  const Type& u = UnwrapOptional(t);
  switch (u.kind()) {
    case TypeKind::kTensor:
      out->push_back(&u);
      return true;
    case TypeKind::kList:
    case TypeKind::kFuture:
      out->push_back(&u);
      return ReachableTypes(u.element(), out);
    case TypeKind::kDict:
      out->push_back(&u);
      return ReachableTypes(u.elements()[0], out) && ReachableTypes(u.elements()[1], out);
    case TypeKind::kTuple:
      if (IsAliasingType(u)) out->push_back(&u);
      for (const Type& e : u.elements()) {
        if (!ReachableTypes(e, out)) return false;
      }
      return true;
    case TypeKind::kClass:
    case TypeKind::kAny:
    case TypeKind::kUnion:
      return false;
    default:
      return true;
  }
}

// Returns whether one object may be of a type that `a` reaches and of one that `b` reaches.
bool ReachableTypesMeet(const Type& a, const Type& b) {
  absl::InlinedVector<const Type*, 4> x, y;
  if (!ReachableTypes(a, &x) || !ReachableTypes(b, &y)) return true;
  for (const Type* p : x) {
    for (const Type* q : y) {
      if (TypesMeet(*p, *q)) return true;
    }
  }
  return false;
}

}  // namespace

AliasDb::State::SetId AliasDb::State::OfType(SetId s, const Type& type) {
  SetId out = 0;
  for (Ref r : sets.Refs(s)) {
    const Object& o = objects[ObjectOf(r)];
    const bool tensor = o.tensor && alias_internal::MayBeTensor(type);
    const bool container = o.container && alias_internal::MayBeContainer(type);
    if (tensor || (container && TypesMeet(TypeOfObject(ObjectOf(r)), type))) out = Join(out, SetPool::Single(r));
  }
  return out;
}

const char* Name(AliasAnswer a) {
  switch (a) {
    case AliasAnswer::kNo:
      return "no";
    case AliasAnswer::kMay:
      return "may";
    case AliasAnswer::kMust:
      return "must";
  }
  return "?";
}

bool AliasDb::State::StoragesMayOverlap(Ref a, Ref b, bool ignore_age) const {
  const uint32_t x = Find(ObjectOf(a)), y = Find(ObjectOf(b));
  const Object &p = objects[x], &q = objects[y];
  if (x == y) {
    if (p.kind == Kind::kSummary || p.external || ignore_age) return true;
    return IsOld(a) == IsOld(b);
  }
  if (p.external && q.external) {
    if (p.kind == Kind::kWeight && q.kind == Kind::kWeight) return false;
    if (options.distinct_inputs && x != kUnknown && y != kUnknown) {
      // Handles that descend from one input alone overlap only within it.
      auto root = [&](uint32_t o) {
        while (objects[o].kind == Kind::kElement) o = objects[o].parent;
        return o;
      };
      return root(x) == root(y);
    }
    return true;
  }
  if (x == kUnknown || (external_moved && p.external)) return q.escaped;
  if (y == kUnknown || (external_moved && q.external)) return p.escaped;
  if (p.kind == Kind::kPiece && q.kind == Kind::kPiece && p.parent == q.parent) {
    return p.slot < 0 || q.slot < 0;
  }
  return false;
}

bool AliasDb::State::HandlesMayBeSame(Ref a, Ref b, bool ignore_age) const {
  const uint32_t x = Find(ObjectOf(a)), y = Find(ObjectOf(b));
  const Object &p = objects[x], &q = objects[y];
  if (x == y) return p.kind == Kind::kSummary || p.external || ignore_age || IsOld(a) == IsOld(b);
  if (p.external && q.external) return true;
  if (x == kUnknown) return q.escaped;
  if (y == kUnknown) return p.escaped;
  if (p.kind == Kind::kPiece && q.kind == Kind::kPiece && p.parent == q.parent) return p.slot < 0 || q.slot < 0;
  return false;
}

bool AliasDb::State::AnyMayBeSame(SetId a, SetId b, bool ignore_age) const {
  bool any = false;
  sets.ForEach(
      a, [&](Ref r) { sets.ForEach(b, [&](Ref other) { any = any || HandlesMayBeSame(r, other, ignore_age); }); });
  return any;
}

bool AliasDb::State::RefsMayAlias(Ref a, Ref b, bool ignore_age) {
  const Object &x = objects[ObjectOf(a)], &y = objects[ObjectOf(b)];
  const bool same_time = !ignore_age && !IsOld(a) && !IsOld(b);
  if (x.tensor && y.tensor) {
    if (a == b) {
      if (!IsEmpty(ObjectOf(a))) return true;
    } else {
      const SetId s = Storages(a), t = Storages(b);
      bool meet = false;
      if (SetPool::IsSingle(s) && SetPool::IsSingle(t)) {
        meet = StoragesMayOverlap(SetPool::SingleRef(s), SetPool::SingleRef(t), ignore_age);
      } else {
        sets.ForEach(
            s, [&](Ref p) { sets.ForEach(t, [&](Ref q) { meet = meet || StoragesMayOverlap(p, q, ignore_age); }); });
      }
      if (meet && s == t && CompareObjects(ObjectOf(a), ObjectOf(b), same_time) == Overlap::kDisjoint) meet = false;
      if (meet && s != t && SetPool::IsSingle(s) && SetPool::IsSingle(t) &&
          ObjectOf(SetPool::SingleRef(s)) == ObjectOf(SetPool::SingleRef(t)) &&
          CompareObjects(ObjectOf(a), ObjectOf(b), same_time) == Overlap::kDisjoint) {
        meet = false;
      }
      if (meet && (IsEmpty(ObjectOf(a)) || IsEmpty(ObjectOf(b)))) meet = false;
      if (meet) return true;
    }
  }
  if (objects[ObjectOf(a)].container && objects[ObjectOf(b)].container) {
    if (StoragesMayOverlap(a, b, ignore_age)) {
      if (ObjectOf(a) == ObjectOf(b)) return true;
      return TypesMeet(TypeOfObject(ObjectOf(a)), TypeOfObject(ObjectOf(b)));
    }
  }
  return false;
}

bool AliasDb::State::SetsMayAlias(SetId a, SetId b, bool ignore_age) {
  if (a == 0 || b == 0) return false;
  if (SetPool::IsSingle(a) && SetPool::IsSingle(b)) {
    return RefsMayAlias(SetPool::SingleRef(a), SetPool::SingleRef(b), ignore_age);
  }
  if (!ignore_age && IsPlainSet(a) && IsPlainSet(b)) {
    return sets.AnyCommon(a, b, [&](Ref r) { return !IsEmpty(ObjectOf(r)); });
  }
  if (!ignore_age) {
    const SetId in_a = PrivateStorages(a), in_b = in_a != 0 ? PrivateStorages(b) : 0;
    if (in_b != 0 && !sets.AnyCommon(in_a, in_b, [](Ref) { return true; })) return false;
  }
  const absl::InlinedVector<Ref, 8> x = sets.Refs(a), y = sets.Refs(b);
  if (x.size() * y.size() > alias_internal::kManyPairs) return true;
  for (Ref p : x) {
    for (Ref q : y) {
      ++steps;
      if (RefsMayAlias(p, q, ignore_age)) return true;
    }
  }
  return false;
}

bool AliasDb::State::AccessHits(const Access& w, Ref object, SetId storages, bool as_container, bool ignore_age) {
  if (((w.bits & kOfContainer) != 0) != as_container) return false;
  if (!AnyStoragesMayOverlap(storages, w.storages, ignore_age)) return false;
  if (SetPool::IsSingle(w.handles)) return HandleHits(w, w.object(), object, as_container, ignore_age);
  for (Ref r : sets.Refs(w.handles)) {
    ++steps;
    if (AnyStoragesMayOverlap(storages, as_container ? SetPool::Single(r) : Storages(r), ignore_age) &&
        HandleHits(w, r, object, as_container, ignore_age)) {
      return true;
    }
  }
  return false;
}

// Returns whether the access touches `object`'s bytes if it touches that handle, whose storage may be the object's.
bool AliasDb::State::HandleHits(const Access& w, Ref touched_handle, Ref object, bool as_container, bool ignore_age) {
  const uint32_t i = ObjectOf(object), j = ObjectOf(touched_handle);
  if (as_container) {
    if (!objects[i].container || !objects[j].container) return false;
    return i == j || TypesMeet(TypeOfObject(i), TypeOfAccess(w));
  }
  if (!objects[i].tensor || !objects[j].tensor || IsEmpty(i) || IsEmpty(j)) return false;
  const bool same_time = !ignore_age && !IsOld(object) && !IsOld(touched_handle);
  return object == touched_handle || CompareObjects(i, j, same_time) != Overlap::kDisjoint;
}

bool AliasDb::State::AnyStoragesMayOverlap(SetId a, SetId b, bool ignore_age) const {
  if (a == 0 || b == 0) return false;
  if (SetPool::IsSingle(a) && SetPool::IsSingle(b)) {
    return StoragesMayOverlap(SetPool::SingleRef(a), SetPool::SingleRef(b), ignore_age);
  }
  if (sets.Size(a) > sets.Size(b)) std::swap(a, b);
  bool meet = false;
  sets.ForEach(a, [&](Ref r) {
    if (meet) return;
    const Object& o = objects[ObjectOf(r)];
    const bool is_private =
        (o.kind == Kind::kTensor || o.kind == Kind::kContainer) && !o.external && !o.escaped && o.group == 0;
    if (is_private) {
      // It overlaps nothing but itself.
      meet = sets.Contains(b, r) || (ignore_age && sets.Contains(b, r ^ 1));
    } else {
      sets.ForEach(b, [&](Ref s) { meet = meet || StoragesMayOverlap(r, s, ignore_age); });
    }
  });
  return meet;
}

const Type& AliasDb::State::TypeOfAccess(const Access& w) const {
  static const Type* const kAny = new Type();
  const Node& n = g.node(w.node);
  if (w.arg >= n.inputs.size() || !sets.Includes(PointsTo(n.inputs[w.arg]), w.handles)) return *kAny;
  return g.value(n.inputs[w.arg]).type;
}

bool AliasDb::State::AccessHitsValue(const Access& w, ValueId v, Ref object, bool ignore_age) {
  const Object& o = objects[ObjectOf(object)];
  if (w.bits & kOfContainer) {
    // Tuples never change, and a future is set once, by the node that made it.
    const TypeKind kind = UnwrapOptional(g.value(v).type).kind();
    return kind != TypeKind::kTuple && kind != TypeKind::kFuture && o.container && (TypeOf(v) & kMayBeContainer) &&
           AccessHits(w, object, SetPool::Single(object), true, ignore_age) &&
           TypesMeet(g.value(v).type, TypeOfAccess(w));
  }
  return o.tensor && (TypeOf(v) & kMayBeTensor) && AccessHits(w, object, Storages(object), false, ignore_age);
}

// Returns whether n, or a node inside it, writes v. The writes inside to v's locations come right after n's own.
bool AliasDb::State::WritesTo(NodeId n, ValueId v) {
  const absl::InlinedVector<Ref, 8> refs = sets.Refs(PointsTo(v));
  alias_internal::Looks looks;
  const auto hits = [&](const Access& w) {
    ++steps;
    if (!(w.bits & kWrite)) return false;
    if (looks.Tired(w.node, sets.Size(w.handles))) return true;
    const Access copy = w;
    return std::any_of(refs.begin(), refs.end(), [&](Ref r) { return AccessHitsValue(copy, v, r, true); });
  };
  if (refs.empty()) return false;
  for (uint32_t i = RecordOf(n).first_write; i != 0; i = writes.at(i).node_next) {
    if (hits(writes.at(i))) return true;
  }
  const Node& node = g.node(n);
  if (node.blocks.empty()) return false;
  absl::InlinedVector<uint32_t, 4> lists;
  for (Ref r : refs) {
    const Object& o = objects[ObjectOf(r)];
    if (o.tensor) sets.ForEach(Storages(r), [&](Ref s) { AddListsOf(ObjectOf(s), &lists); });
    if (o.container) AddListsOf(ObjectOf(r), &lists);
  }
  for (uint32_t list : lists) {
    for (uint32_t i = writes.FirstAfter(list, n); i != 0; i = writes.Next(i)) {
      if (AncestorIn(node.parent, writes.at(i).node) != n) break;
      if (hits(writes.at(i))) return true;
    }
  }
  return false;
}

void AliasDb::State::FillOutputs() {
  constexpr size_t kMany = 32;
  if (outputs_known) return;
  output_refs.clear();
  // Many outputs are looked at again only when edits have paid for it, and for what each of them reaches. Building pays
  // for the first time.
  constexpr int64_t kStepsOfOutput = 8;
  const bool many = g.outputs().size() > kMany && edits > 1;
  const int64_t cost = kStepsOfOutput * static_cast<int64_t>(g.outputs().size()), before = AllSteps();
  outputs_reach_all = many && !Affords(cost);
  if (outputs_reach_all) {
    outputs_known = true;
    return;
  }
  steps += static_cast<int64_t>(g.outputs().size());
  for (ValueId out : g.outputs()) {
    const std::optional<SetId> reach = ReachAtAnyTime(PointsTo(out));
    if (!reach) {
      outputs_reach_all = true;
      break;
    }
    for (Ref r : sets.Refs(*reach)) {
      const Object& o = objects[ObjectOf(r)];
      const auto add = [&](uint32_t key) {
        absl::InlinedVector<Ref, 2>& list = output_refs[OutputKey(key)];
        // Beyond that number every query about the location is answered with yes.
        if (list.size() <= kMany && std::find(list.begin(), list.end(), r) == list.end()) list.push_back(r);
      };
      if (o.container) add(ObjectOf(r));
      sets.ForEach(o.storage, [&](Ref s) { add(ObjectOf(s)); });
    }
  }
  if (many) credit = std::max<int64_t>(0, credit - std::max(cost, AllSteps() - before));
  outputs_known = true;
}

bool AliasDb::State::ReachableByCaller(ValueId v) {
  constexpr size_t kMany = 32;
  if (PointsTo(v) == 0) return false;
  const std::optional<SetId> reach = ReachAtAnyTime(PointsTo(v));
  if (!reach) return true;
  FillOutputs();
  if (outputs_reach_all) return true;
  for (Ref r : sets.Refs(*reach)) {
    const Object o = objects[ObjectOf(r)];
    if (o.external || o.escaped) return true;
    const auto hit = [&](uint32_t storage) {
      const Object& s = objects[Find(storage)];
      if (s.external || s.escaped) return true;
      const auto it = output_refs.find(OutputKey(storage));
      if (it == output_refs.end()) return false;
      // A tensor without elements has no bytes to reach, so its memory decides.
      if (it->second.size() > kMany || (o.tensor && IsEmpty(ObjectOf(r)))) return true;
      const absl::InlinedVector<Ref, 2> others = it->second;
      return std::any_of(others.begin(), others.end(), [&](Ref other) { return RefsMayAlias(r, other, true); });
    };
    if (o.container && hit(ObjectOf(r))) return true;
    for (Ref s : sets.Refs(o.storage)) {
      if (hit(ObjectOf(s))) return true;
    }
  }
  return false;
}

// A long chain is not followed to its start.
ValueId AliasDb::State::Unrefined(ValueId v) {
  constexpr int kLongChain = 64;
  for (int k = 0; k < kLongChain; ++k) {
    const Node& n = g.node(g.value(v).def);
    const std::string& name = n.op.name();
    if (name != op::kPrimUncheckedCast && name != op::kPrimUncheckedUnwrapOptional &&
        name != op::kPrivateUnwrapOptional) {
      return v;
    }
    ++steps;
    v = n.inputs[0];
  }
  return v;
}

bool AliasDb::State::MayBeNothing(ValueId v) {
  if (v.index >= nothing.size()) nothing.resize(std::max<size_t>(v.index + 1, values.size()));
  MaybeNothing& known = nothing[v.index];
  if (known.edits != edits || known.generation != v.generation) known = {edits, v.generation, FindNothing(v)};
  return known.may_be;
}

// Follows branches, loops and refinements back from v.
bool AliasDb::State::FindNothing(ValueId v) {
  constexpr size_t kMany = 64;
  absl::InlinedVector<ValueId, 8> todo = {v};
  absl::flat_hash_set<uint32_t> seen = {v.index};
  for (size_t at = 0; at < todo.size(); ++at) {
    ++steps;
    if (at == kMany) return true;
    const auto comes_from = [&](ValueId x) {
      x = Unrefined(x);
      if (seen.insert(x.index).second) todo.push_back(x);
      return PointsTo(x) != 0;
    };
    const ValueId x = todo[at];
    const Value& value = g.value(x);
    const NodeId owner = g.IsParam(value.def) ? g.block(g.node(value.def).parent).owner : value.def;
    if (!owner.valid()) continue;  // the caller's: nothing is what it is then
    const Node& n = g.node(owner);
    const EffectKind kind = GetOpEffects(n.op).kind;
    if (kind == EffectKind::kIf || kind == EffectKind::kCond) {
      if (owner != value.def) return true;
      for (BlockId b : n.blocks) {
        if (value.def_index >= g.results(b).size() || !comes_from(g.results(b)[value.def_index])) return true;
      }
    } else if (alias_internal::IsLoopKind(kind)) {
      if (kind == EffectKind::kWhile || n.blocks.empty()) return true;
      const size_t k = value.def_index - (owner != value.def ? 1 : 0);
      const absl::Span<const ValueId> results = g.results(n.blocks[0]);
      if (k + 2 >= n.inputs.size() || k + 1 >= results.size()) return true;
      if (!comes_from(n.inputs[k + 2]) || !comes_from(results[k + 1])) return true;
    } else {
      // A container that holds more than what was put there may have no such element.
      const auto is_blurred = [&](Ref r) {
        const alias_internal::Contents* const c = FindContents(Find(ObjectOf(r)));
        return c != nullptr && c->blurred;
      };
      for (ValueId from : n.inputs) {
        if (!alias_internal::MayBeContainer(g.value(from).type)) continue;
        const absl::InlinedVector<Ref, 8> holders = sets.Refs(PointsTo(from));
        if (std::any_of(holders.begin(), holders.end(), is_blurred)) return true;
      }
      const SetId p = PointsTo(x);
      const TypeKind type = value.type.kind();
      const bool open = type == TypeKind::kOptional || type == TypeKind::kAny || type == TypeKind::kUnion;
      const uint32_t own = x.index < values.size() ? values[x.index].own : 0;
      if (open && !(own != 0 && p == SetPool::Single(MakeRef(own)))) return true;
    }
  }
  return false;
}

// --- the interface ---

AliasDb::AliasDb(std::unique_ptr<State> state) : state_(std::move(state)) {}

AliasDb::~AliasDb() { state_->g.RemoveListener(this); }

std::unique_ptr<AliasDb> AliasDb::Build(Graph& graph, Options options) {
  auto state = std::make_unique<State>(graph, options);
  state->Build();
  std::unique_ptr<AliasDb> db(new AliasDb(std::move(state)));
  graph.AddListener(db.get());
  return db;
}

AliasDb::State& AliasDb::Flushed() const {
  State& s = *state_;
  const bool pending = !s.queue.empty() || s.needs_rebuild || s.stale || !s.resolve_loops.empty() ||
                       !s.pending_free.empty() || !s.joined_containers.empty();
  if (pending || s.dirty) {
    s.Flush();
    if (s.dirty) s.DropCaches();
    if (pending && s.options.verify_edits) {
      absl::Status status = Verify();
      SMELT_CHECK(status.ok()) << status.ToString();
    }
  }
  return s;
}

const Graph& AliasDb::graph() const { return state_->g; }
const AliasDb::Options& AliasDb::options() const { return state_->options; }

bool AliasDb::MayAlias(ValueId a, ValueId b) const {
  State& s = Flushed();
  const State::SetId p = s.PointsTo(a), q = s.PointsTo(b);
  if (p == 0 || q == 0) {
    // Stale ids are detected here too.
    SMELT_CHECK(s.g.IsLive(a) && s.g.IsLive(b)) << "stale value id";
    return false;
  }
  if (!s.SetsMayAlias(p, q, false)) return false;
  if (!s.InScopeTogether(a, b)) return false;
  if (a == b || (s.TypeOf(a) == State::kMayBeTensor && s.TypeOf(b) == State::kMayBeTensor)) return true;
  return TypesMeet(s.g.value(a).type, s.g.value(b).type);
}

bool AliasDb::MustAlias(ValueId a, ValueId b) const {
  State& s = Flushed();
  const State::SetId p = s.PointsTo(a), q = s.PointsTo(b);
  if (p == 0 || q == 0) return false;
  if (a == b) return true;
  if (!s.InScopeTogether(a, b)) return false;
  int left = alias_internal::kManyComparisons;
  if (s.SameView(a, b, 0, &left)) return true;
  if (!SetPool::IsSingle(p) || !SetPool::IsSingle(q)) return false;
  const State::Ref x = SetPool::SingleRef(p), y = SetPool::SingleRef(q);
  if (IsOld(x) || IsOld(y)) return false;
  const uint32_t i = ObjectOf(x), j = ObjectOf(y);
  if (!s.IsOneHandle(i) || !s.IsOneHandle(j)) return false;
  // Most pairs are not the same for another reason, which is found sooner.
  const auto both_exist = [&] {
    const ValueId u = s.Unrefined(a), w = s.Unrefined(b);
    return u == w || !(s.MayBeNothing(u) || s.MayBeNothing(w));
  };
  if (i == j) return both_exist();
  const State::Object o = s.objects[i], other = s.objects[j];
  if (!o.tensor || !other.tensor) return false;
  if (s.GeometryChanges(i) || s.GeometryChanges(j)) return false;
  if (!SetPool::IsSingle(o.storage) || o.storage != other.storage) return false;
  const uint32_t storage = ObjectOf(SetPool::SingleRef(o.storage));
  if (IsOld(SetPool::SingleRef(o.storage)) ||
      !(s.IsOneHandle(storage) || s.objects[storage].kind == State::Kind::kWeight))
    return false;
  s.GeomOf(i);
  s.GeomOf(j);
  const alias_internal::Geom &p_geom = s.GeomOf(i), &q_geom = s.GeomOf(j);
  if (p_geom.exact && p_geom.Frame() == q_geom.Frame() && p_geom.geometry.sizes == q_geom.geometry.sizes &&
      ItemSize(p_geom.geometry.dtype) == ItemSize(q_geom.geometry.dtype) &&
      s.CompareObjects(i, j, /*same_time=*/true) == Overlap::kSame) {
    return !s.MayBeCopy(i) && !s.MayBeCopy(j) && both_exist();
  }
  // In a chain of such views most pairs that are asked about are a few apart.
  constexpr int kNear = 4;
  uint32_t bi = i, bj = j;
  for (int k = 0; k < kNear && bi != j && bj != i; ++k) {
    int one = 1, other_one = 1;
    bi = s.SameHandle(bi, &one);
    bj = s.SameHandle(bj, &other_one);
    left -= 2;
  }
  if (bi == j || bj == i) return both_exist();
  bi = s.SameHandle(bi, &left);
  bj = s.SameHandle(bj, &left);
  return (bi == bj || s.SameByStructure(bi, bj, 0, &left)) && both_exist();
}

AliasAnswer AliasDb::Alias(ValueId a, ValueId b) const {
  if (MustAlias(a, b)) return AliasAnswer::kMust;
  return MayAlias(a, b) ? AliasAnswer::kMay : AliasAnswer::kNo;
}

bool AliasDb::MayContainAlias(ValueId a, ValueId b) const {
  State& s = Flushed();
  if (!s.InScopeTogether(a, b)) return false;
  const State::SetId p = s.PointsTo(a), q = s.PointsTo(b);
  if (p == 0 || q == 0) return false;
  if (IsTensorType(s.g.value(a).type) && IsTensorType(s.g.value(b).type)) return MayAlias(a, b);
  if (!ReachableTypesMeet(s.g.value(a).type, s.g.value(b).type)) return false;
  const std::optional<State::SetId> p_reach = s.ReachAtAnyTime(p), q_reach = s.ReachAtAnyTime(q);
  return !p_reach || !q_reach || s.SetsMayAlias(*p_reach, *q_reach, false);
}

bool AliasDb::MayContainAlias(absl::Span<const ValueId> a, absl::Span<const ValueId> b) const {
  for (ValueId x : a) {
    for (ValueId y : b) {
      if (MayContainAlias(x, y)) return true;
    }
  }
  return false;
}

ValueMemory AliasDb::Memory(ValueId v) const {
  State& s = Flushed();
  ValueMemory m;
  const State::SetId p = s.PointsTo(v);
  State::SetId storages = 0;
  bool changes = false;
  for (State::Ref r : s.sets.Refs(p)) {
    const State::Object& o = s.objects[ObjectOf(r)];
    storages = s.Join(storages, o.tensor ? s.Storages(r) : SetPool::Single(r));
    changes |= s.GeometryChanges(ObjectOf(r));
  }
  m.geometry_changes = changes;
  std::vector<uint32_t> seen;
  s.sets.ForEach(storages, [&](State::Ref r) {
    uint32_t o = s.Find(ObjectOf(r));
    if (std::find(seen.begin(), seen.end(), o) == seen.end()) seen.push_back(o);
  });
  std::sort(seen.begin(), seen.end());
  for (uint32_t o : seen) m.locations.push_back(LocationId(o));
  if (SetPool::IsSingle(p) && !changes) {
    const uint32_t o = ObjectOf(SetPool::SingleRef(p));
    if (s.objects[o].tensor) {
      const alias_internal::Geom& geom = s.GeomOf(o);
      if (geom.exact && geom.item_known && !geom.absolute) {
        m.region = Region::Strided(geom.geometry.offset, geom.geometry.sizes, geom.geometry.strides,
                                   ItemSize(geom.geometry.dtype));
      }
    }
  }
  return m;
}

Location AliasDb::Describe(LocationId l) const {
  State& s = Flushed();
  Location out;
  if (l.index >= s.objects.size()) return out;
  const State::Object& o = s.objects[l.index];
  out.value = o.def;
  out.caller_owned = o.external;
  out.escaped = o.escaped;
  out.name = s.ObjectName(l.index);
  switch (o.kind) {
    case State::Kind::kInput:
      out.kind = o.tensor ? Location::Kind::kInput : Location::Kind::kContainer;
      break;
    case State::Kind::kElement:
      out.kind = Location::Kind::kElement;
      break;
    case State::Kind::kWeight:
      out.kind = Location::Kind::kWeight;
      out.weight_storage = o.slot;
      break;
    case State::Kind::kConstant:
      out.kind = Location::Kind::kConstant;
      break;
    case State::Kind::kContainer:
      out.kind = Location::Kind::kContainer;
      break;
    case State::Kind::kUnknown:
      out.kind = Location::Kind::kUnknown;
      break;
    case State::Kind::kSummary:
      out.kind = Location::Kind::kSummary;
      break;
    default:
      out.kind = Location::Kind::kFresh;
  }
  return out;
}

Overlap AliasDb::CompareRegions(ValueId a, ValueId b) const {
  State& s = Flushed();
  const State::SetId p = s.PointsTo(a), q = s.PointsTo(b);
  if (!SetPool::IsSingle(p) || !SetPool::IsSingle(q)) return Overlap::kUnknown;
  const State::Ref x = SetPool::SingleRef(p), y = SetPool::SingleRef(q);
  return s.CompareObjects(ObjectOf(x), ObjectOf(y), !IsOld(x) && !IsOld(y));
}

bool AliasDb::ReachableByCaller(ValueId v) const { return Flushed().ReachableByCaller(v); }

bool AliasDb::HasWriters(ValueId v) const { return Flushed().Written(v, true); }
bool AliasDb::IsEverWritten(ValueId v) const { return Flushed().Written(v, false); }

bool AliasDb::WritesTo(NodeId n, ValueId v) const { return Flushed().WritesTo(n, v); }

std::vector<Writer> AliasDb::Writers(ValueId v, bool geometry_too) const {
  State& s = Flushed();
  std::vector<Writer> out;
  absl::flat_hash_set<NodeId> nodes;
  for (State::Ref r : s.sets.Refs(s.PointsTo(v))) {
    const State::Object o = s.objects[ObjectOf(r)];
    const State::SetId storages = o.tensor ? s.Storages(r) : SetPool::Single(r);
    absl::InlinedVector<uint32_t, 4> lists;
    s.sets.ForEach(storages, [&](State::Ref x) { s.AddListsOf(ObjectOf(x), &lists); });
    if (o.container) s.AddListsOf(ObjectOf(r), &lists);
    for (uint32_t list : lists) {
      for (uint32_t i = s.writes.Head(list); i != 0; i = s.writes.Next(i)) {
        const State::Access w = s.writes.at(i);
        const bool data = w.bits & kWrite;
        if (!data && !geometry_too) continue;
        if (data ? !s.AccessHitsValue(w, v, r, true) : !s.AnyMayBeSame(SetPool::Single(r), w.handles, true)) continue;
        if (!nodes.insert(w.node).second) continue;
        Writer writer;
        writer.node = w.node;
        writer.geometry_only = !data;
        const Node& n = s.g.node(w.node);
        if (w.arg < n.inputs.size()) writer.through = n.inputs[w.arg];
        out.push_back(writer);
      }
    }
  }
  std::sort(out.begin(), out.end(), [&](const Writer& a, const Writer& b) { return s.tree.IsBefore(a.node, b.node); });
  return out;
}

NodeId AliasDb::LastWriterBefore(ValueId v, NodeId n) const {
  State& s = Flushed();
  const BlockId block = s.g.node(n).parent;
  alias_internal::Looks looks;
  NodeId best;
  for (State::Ref r : s.sets.Refs(s.PointsTo(v))) {
    const State::Object o = s.objects[ObjectOf(r)];
    const State::SetId storages = o.tensor ? s.Storages(r) : SetPool::Single(r);
    absl::InlinedVector<uint32_t, 4> lists;
    s.sets.ForEach(storages, [&](State::Ref x) { s.AddListsOf(ObjectOf(x), &lists); });
    for (uint32_t list : lists) {
      for (uint32_t i = s.writes.LastBefore(list, n); i != 0; i = s.writes.Prev(i)) {
        const State::Access w = s.writes.at(i);
        if (!(w.bits & kWrite)) continue;
        const NodeId x = s.AncestorIn(block, w.node);
        if (!x.valid()) break;
        if (best.valid() && s.g.node(x).order <= s.g.node(best).order) break;
        if (looks.Tired(w.node, s.sets.Size(w.handles)) || s.AccessHitsValue(w, v, r, true)) best = x;
      }
    }
  }
  return best;
}

bool AliasDb::OwnsItsMemory(ValueId v) const {
  State& s = Flushed();
  const State::SetId p = s.PointsTo(v);
  if (!SetPool::IsSingle(p) || p != s.objects[ObjectOf(SetPool::SingleRef(p))].storage) return false;
  const State::Object& o = s.objects[ObjectOf(SetPool::SingleRef(p))];
  return o.kind == State::Kind::kTensor && !o.container && !o.external && !o.escaped && o.group == 0 && o.def == v &&
         !s.GeometryChanges(ObjectOf(SetPool::SingleRef(p)));
}

NodeId AliasDb::FirstWriterAfter(ValueId v, NodeId n) const {
  State& s = Flushed();
  if (!OwnsItsMemory(v)) return NodeId();
  const uint32_t list = s.ListOf(ObjectOf(SetPool::SingleRef(s.PointsTo(v))));
  const uint32_t first = s.writes.FirstAfter(list, n);
  const NodeId found = first != 0 ? s.writes.at(first).node : NodeId();
  const uint32_t of_sets = s.SetListOf(list);
  if (of_sets == 0) return found;
  // Those to many come before it, if at all.
  alias_internal::Looks looks;
  for (uint32_t i = s.writes.FirstAfter(of_sets, n); i != 0; i = s.writes.Next(i)) {
    const State::Access& w = s.writes.at(i);
    if (found.valid() && !s.tree.IsBefore(w.node, found)) break;
    ++s.steps;
    if (looks.Tired(w.node, 1) || s.AnyStoragesMayOverlap(s.PointsTo(v), w.storages, true)) return w.node;
  }
  return found;
}

std::vector<NodeId> AliasDb::ReadersAfter(ValueId v, NodeId n) const {
  State& s = Flushed();
  s.ActivateReads();
  const BlockId block = s.g.node(n).parent;
  std::vector<NodeId> out;
  for (State::Ref r : s.sets.Refs(s.PointsTo(v))) {
    const State::Object o = s.objects[ObjectOf(r)];
    const State::SetId storages = o.tensor ? s.Storages(r) : SetPool::Single(r);
    absl::InlinedVector<uint32_t, 4> lists;
    s.sets.ForEach(storages, [&](State::Ref x) { s.AddListsOf(ObjectOf(x), &lists); });
    for (uint32_t list : lists) {
      for (uint32_t i = s.reads.FirstAfter(State::ReadList(list, false), n); i != 0; i = s.reads.Next(i)) {
        const State::Access w = s.reads.at(i);
        if (!(w.bits & kRead)) continue;
        const NodeId x = s.AncestorIn(block, w.node);
        if (!x.valid() || s.g.node(x).order <= s.g.node(n).order) continue;
        if (s.AccessHitsValue(w, v, r, true)) out.push_back(x);
      }
    }
  }
  std::sort(out.begin(), out.end(), [&](NodeId a, NodeId b) { return s.g.node(a).order < s.g.node(b).order; });
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool AliasDb::SafeToChangeAliasing(ValueId a, ValueId b) const {
  State& s = Flushed();
  auto changes = [&](ValueId v) {
    bool any = s.Written(v, false);
    s.sets.ForEach(s.PointsTo(v), [&](State::Ref r) { any |= s.GeometryChanges(ObjectOf(r)); });
    return any;
  };
  if (changes(a) || changes(b)) return false;
  return !(s.ReachableByCaller(a) && s.ReachableByCaller(b));
}

AliasDb::Stats AliasDb::GetStats() const {
  State& s = Flushed();
  Stats out;
  out.objects = static_cast<int64_t>(s.objects.size());
  out.write_records = s.writes.live();
  out.sets = s.sets.size();
  out.summarised = s.summarised;
  out.rebuilds = s.rebuilds;
  out.evaluations = s.evaluations;
  out.steps = s.AllSteps();
  out.bytes = s.Bytes();
  return out;
}

}  // namespace smelt
