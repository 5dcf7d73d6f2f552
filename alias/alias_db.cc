#include "smelt/alias/alias_db.h"

#include <algorithm>

#include "smelt/alias/follower.h"
#include "smelt/alias/picture.h"
#include "smelt/alias/print.h"
#include "smelt/alias/state.h"
#include "smelt/alias/verify.h"
#include "smelt/alias/why.h"

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
using alias_internal::TypesMeet;
using alias_internal::UnwrapOptional;

namespace {

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

// --- the interface ---

AliasDb::AliasDb(std::unique_ptr<State> state) : state_(std::move(state)) {}

AliasDb::~AliasDb() { state_->g.RemoveListener(this); }

std::unique_ptr<AliasDb> AliasDb::Build(Graph& graph, Options options) {
  auto state = std::make_unique<State>(graph, options);
  state->solver.Build();
  std::unique_ptr<AliasDb> db(new AliasDb(std::move(state)));
  graph.AddListener(db.get());
  return db;
}

AliasDb::State& AliasDb::Flushed() const {
  State& s = *state_;
  const bool pending = !s.work.queue.empty() || s.solver.needs_rebuild || s.budget.stale ||
                       !s.work.resolve_loops.empty() || !s.memory.pending_free.empty() ||
                       !s.containers.joined_containers.empty();
  if (pending || s.changes.dirty) {
    s.solver.Flush();
    if (s.changes.dirty) s.DropCaches();
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
  const State::SetId p = s.records.PointsTo(a), q = s.records.PointsTo(b);
  if (p == 0 || q == 0) {
    // Stale ids are detected here too.
    SMELT_CHECK(s.g.IsLive(a) && s.g.IsLive(b)) << "stale value id";
    return false;
  }
  if (!s.queries.overlaps.SetsMayAlias(p, q, false)) return false;
  if (!s.records.InScopeTogether(a, b)) return false;
  if (a == b ||
      (s.records.TypeOf(a) == alias_internal::kMayBeTensor && s.records.TypeOf(b) == alias_internal::kMayBeTensor))
    return true;
  return TypesMeet(s.g.value(a).type, s.g.value(b).type);
}

bool AliasDb::MustAlias(ValueId a, ValueId b) const {
  State& s = Flushed();
  const State::SetId p = s.records.PointsTo(a), q = s.records.PointsTo(b);
  if (p == 0 || q == 0) return false;
  if (a == b) return true;
  if (!s.records.InScopeTogether(a, b)) return false;
  int left = alias_internal::kManyComparisons;
  if (s.same.SameView(a, b, 0, &left)) return true;
  if (!SetPool::IsSingle(p) || !SetPool::IsSingle(q)) return false;
  const State::Ref x = SetPool::SingleRef(p), y = SetPool::SingleRef(q);
  if (IsOld(x) || IsOld(y)) return false;
  const uint32_t i = ObjectOf(x), j = ObjectOf(y);
  if (!s.same.IsOneHandle(i) || !s.same.IsOneHandle(j)) return false;
  // Most pairs are not the same for another reason, which is found sooner.
  const auto both_exist = [&] {
    const ValueId u = s.queries.absence.Unrefined(a), w = s.queries.absence.Unrefined(b);
    return u == w || !(s.queries.absence.MayBeNothing(u) || s.queries.absence.MayBeNothing(w));
  };
  if (i == j) return both_exist();
  const State::Object o = s.objects[i], other = s.objects[j];
  if (!o.tensor || !other.tensor) return false;
  if (s.reshapes.GeometryChanges(i) || s.reshapes.GeometryChanges(j)) return false;
  if (!SetPool::IsSingle(o.storage) || o.storage != other.storage) return false;
  const uint32_t storage = ObjectOf(SetPool::SingleRef(o.storage));
  if (IsOld(SetPool::SingleRef(o.storage)) ||
      !(s.same.IsOneHandle(storage) || s.objects[storage].kind == State::Kind::kWeight))
    return false;
  s.geometries.GeomOf(i);
  s.geometries.GeomOf(j);
  const alias_internal::Geom &p_geom = s.geometries.GeomOf(i), &q_geom = s.geometries.GeomOf(j);
  if (p_geom.exact && p_geom.Frame() == q_geom.Frame() && p_geom.geometry.sizes == q_geom.geometry.sizes &&
      ItemSize(p_geom.geometry.dtype) == ItemSize(q_geom.geometry.dtype) &&
      s.geometries.CompareObjects(i, j, /*same_time=*/true) == Overlap::kSame) {
    return !s.same.MayBeCopy(i) && !s.same.MayBeCopy(j) && both_exist();
  }
  // In a chain of such views most pairs that are asked about are a few apart.
  constexpr int kNear = 4;
  uint32_t bi = i, bj = j;
  for (int k = 0; k < kNear && bi != j && bj != i; ++k) {
    int one = 1, other_one = 1;
    bi = s.same.SameHandle(bi, &one);
    bj = s.same.SameHandle(bj, &other_one);
    left -= 2;
  }
  if (bi == j || bj == i) return both_exist();
  bi = s.same.SameHandle(bi, &left);
  bj = s.same.SameHandle(bj, &left);
  return (bi == bj || s.same.SameByStructure(bi, bj, 0, &left)) && both_exist();
}

AliasAnswer AliasDb::Alias(ValueId a, ValueId b) const {
  if (MustAlias(a, b)) return AliasAnswer::kMust;
  return MayAlias(a, b) ? AliasAnswer::kMay : AliasAnswer::kNo;
}

bool AliasDb::MayContainAlias(ValueId a, ValueId b) const {
  State& s = Flushed();
  if (!s.records.InScopeTogether(a, b)) return false;
  const State::SetId p = s.records.PointsTo(a), q = s.records.PointsTo(b);
  if (p == 0 || q == 0) return false;
  if (IsTensorType(s.g.value(a).type) && IsTensorType(s.g.value(b).type)) return MayAlias(a, b);
  if (!ReachableTypesMeet(s.g.value(a).type, s.g.value(b).type)) return false;
  const std::optional<State::SetId> p_reach = s.queries.reachability.ReachAtAnyTime(p),
                                    q_reach = s.queries.reachability.ReachAtAnyTime(q);
  return !p_reach || !q_reach || s.queries.overlaps.SetsMayAlias(*p_reach, *q_reach, false);
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
  const State::SetId p = s.records.PointsTo(v);
  State::SetId storages = 0;
  bool changes = false;
  for (State::Ref r : s.sets.Refs(p)) {
    const State::Object& o = s.objects[ObjectOf(r)];
    storages = s.memory.Join(storages, o.tensor ? s.memory.Storages(r) : SetPool::Single(r));
    changes |= s.reshapes.GeometryChanges(ObjectOf(r));
  }
  m.geometry_changes = changes;
  std::vector<uint32_t> seen;
  s.sets.ForEach(storages, [&](State::Ref r) {
    uint32_t o = s.objects.Find(ObjectOf(r));
    if (std::find(seen.begin(), seen.end(), o) == seen.end()) seen.push_back(o);
  });
  std::sort(seen.begin(), seen.end());
  for (uint32_t o : seen) m.locations.push_back(LocationId(o));
  if (SetPool::IsSingle(p) && !changes) {
    const uint32_t o = ObjectOf(SetPool::SingleRef(p));
    if (s.objects[o].tensor) {
      const alias_internal::Geom& geom = s.geometries.GeomOf(o);
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
  out.name = s.words.ObjectName(l.index);
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
  const State::SetId p = s.records.PointsTo(a), q = s.records.PointsTo(b);
  if (!SetPool::IsSingle(p) || !SetPool::IsSingle(q)) return Overlap::kUnknown;
  const State::Ref x = SetPool::SingleRef(p), y = SetPool::SingleRef(q);
  return s.geometries.CompareObjects(ObjectOf(x), ObjectOf(y), !IsOld(x) && !IsOld(y));
}

bool AliasDb::ReachableByCaller(ValueId v) const { return Flushed().queries.reachability.ReachableByCaller(v); }

bool AliasDb::HasWriters(ValueId v) const { return Flushed().queries.written.Written(v, true); }
bool AliasDb::IsEverWritten(ValueId v) const { return Flushed().queries.written.Written(v, false); }

bool AliasDb::WritesTo(NodeId n, ValueId v) const { return Flushed().queries.written.WritesTo(n, v); }

std::vector<Writer> AliasDb::Writers(ValueId v, bool geometry_too) const {
  State& s = Flushed();
  std::vector<Writer> out;
  absl::flat_hash_set<NodeId> nodes;
  for (State::Ref r : s.sets.Refs(s.records.PointsTo(v))) {
    const State::Object o = s.objects[ObjectOf(r)];
    const State::SetId storages = o.tensor ? s.memory.Storages(r) : SetPool::Single(r);
    absl::InlinedVector<uint32_t, 4> lists;
    s.sets.ForEach(storages, [&](State::Ref x) { s.accesses.AddListsOf(ObjectOf(x), &lists); });
    if (o.container) s.accesses.AddListsOf(ObjectOf(r), &lists);
    for (uint32_t list : lists) {
      for (uint32_t i = s.accesses.writes.Head(list); i != 0; i = s.accesses.writes.Next(i)) {
        const State::Access w = s.accesses.writes.at(i);
        const bool data = w.bits & kWrite;
        if (!data && !geometry_too) continue;
        if (data ? !s.queries.overlaps.AccessHitsValue(w, v, r, true)
                 : !s.queries.overlaps.AnyMayBeSame(SetPool::Single(r), w.handles, true))
          continue;
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
  for (State::Ref r : s.sets.Refs(s.records.PointsTo(v))) {
    const State::Object o = s.objects[ObjectOf(r)];
    const State::SetId storages = o.tensor ? s.memory.Storages(r) : SetPool::Single(r);
    absl::InlinedVector<uint32_t, 4> lists;
    s.sets.ForEach(storages, [&](State::Ref x) { s.accesses.AddListsOf(ObjectOf(x), &lists); });
    for (uint32_t list : lists) {
      for (uint32_t i = s.accesses.writes.LastBefore(list, n); i != 0; i = s.accesses.writes.Prev(i)) {
        const State::Access w = s.accesses.writes.at(i);
        if (!(w.bits & kWrite)) continue;
        const NodeId x = s.tree.AncestorIn(block, w.node);
        if (!x.valid()) break;
        if (best.valid() && s.g.node(x).order <= s.g.node(best).order) break;
        if (looks.Tired(w.node, s.sets.Size(w.handles)) || s.queries.overlaps.AccessHitsValue(w, v, r, true)) best = x;
      }
    }
  }
  return best;
}

bool AliasDb::OwnsItsMemory(ValueId v) const {
  State& s = Flushed();
  const State::SetId p = s.records.PointsTo(v);
  if (!SetPool::IsSingle(p) || p != s.objects[ObjectOf(SetPool::SingleRef(p))].storage) return false;
  const State::Object& o = s.objects[ObjectOf(SetPool::SingleRef(p))];
  return o.kind == State::Kind::kTensor && !o.container && !o.external && !o.escaped && o.group == 0 && o.def == v &&
         !s.reshapes.GeometryChanges(ObjectOf(SetPool::SingleRef(p)));
}

NodeId AliasDb::FirstWriterAfter(ValueId v, NodeId n) const {
  State& s = Flushed();
  if (!OwnsItsMemory(v)) return NodeId();
  const uint32_t list = s.accesses.ListOf(ObjectOf(SetPool::SingleRef(s.records.PointsTo(v))));
  const uint32_t first = s.accesses.writes.FirstAfter(list, n);
  const NodeId found = first != 0 ? s.accesses.writes.at(first).node : NodeId();
  const uint32_t of_sets = s.accesses.SetListOf(list);
  if (of_sets == 0) return found;
  // Those to many come before it, if at all.
  alias_internal::Looks looks;
  for (uint32_t i = s.accesses.writes.FirstAfter(of_sets, n); i != 0; i = s.accesses.writes.Next(i)) {
    const State::Access& w = s.accesses.writes.at(i);
    if (found.valid() && !s.tree.IsBefore(w.node, found)) break;
    ++s.steps;
    if (looks.Tired(w.node, 1) || s.queries.overlaps.AnyStoragesMayOverlap(s.records.PointsTo(v), w.storages, true))
      return w.node;
  }
  return found;
}

std::vector<NodeId> AliasDb::ReadersAfter(ValueId v, NodeId n) const {
  State& s = Flushed();
  s.recorder.ActivateReads();
  const BlockId block = s.g.node(n).parent;
  std::vector<NodeId> out;
  for (State::Ref r : s.sets.Refs(s.records.PointsTo(v))) {
    const State::Object o = s.objects[ObjectOf(r)];
    const State::SetId storages = o.tensor ? s.memory.Storages(r) : SetPool::Single(r);
    absl::InlinedVector<uint32_t, 4> lists;
    s.sets.ForEach(storages, [&](State::Ref x) { s.accesses.AddListsOf(ObjectOf(x), &lists); });
    for (uint32_t list : lists) {
      for (uint32_t i = s.accesses.reads.FirstAfter(alias_internal::AccessLists::ReadList(list, false), n); i != 0;
           i = s.accesses.reads.Next(i)) {
        const State::Access w = s.accesses.reads.at(i);
        if (!(w.bits & kRead)) continue;
        const NodeId x = s.tree.AncestorIn(block, w.node);
        if (!x.valid() || s.g.node(x).order <= s.g.node(n).order) continue;
        if (s.queries.overlaps.AccessHitsValue(w, v, r, true)) out.push_back(x);
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
    bool any = s.queries.written.Written(v, false);
    s.sets.ForEach(s.records.PointsTo(v), [&](State::Ref r) { any |= s.reshapes.GeometryChanges(ObjectOf(r)); });
    return any;
  };
  if (changes(a) || changes(b)) return false;
  return !(s.queries.reachability.ReachableByCaller(a) && s.queries.reachability.ReachableByCaller(b));
}

AliasDb::Stats AliasDb::GetStats() const {
  State& s = Flushed();
  Stats out;
  out.objects = static_cast<int64_t>(s.objects.size());
  out.write_records = s.accesses.writes.live();
  out.sets = s.sets.size();
  out.summarised = s.objects.summarised;
  out.rebuilds = s.solver.rebuilds;
  out.evaluations = s.evaluator.evaluations;
  out.steps = s.AllSteps();
  out.bytes = s.Bytes();
  return out;
}

// --- explaining, checking ---

std::vector<std::string> AliasDb::Why(ValueId a, ValueId b) const {
  State& s = Flushed();
  if (!MayContainAlias(a, b)) return {};
  return alias_internal::ExplainAlias(s, a, b);
}

std::string AliasDb::ToString() const { return alias_internal::PrintText(*this, Flushed()); }
std::string AliasDb::ToJson() const { return alias_internal::PrintJson(*this, Flushed()); }
std::string AliasDb::ToDot() const { return alias_internal::DrawDot(Flushed()); }
std::string AliasDb::ToHtml() const { return alias_internal::DrawHtml(Flushed()); }
absl::Status AliasDb::Verify() const { return alias_internal::CompareWithFreshBuild(*state_); }

// --- GraphListener ---

void AliasDb::OnNodeInserted(NodeId n) { alias_internal::Follower(*state_).NodeInserted(n); }
void AliasDb::OnNodeErasing(NodeId n) { alias_internal::Follower(*state_).NodeErasing(n); }
void AliasDb::OnNodeMoved(NodeId n, BlockId old_parent) { alias_internal::Follower(*state_).NodeMoved(n, old_parent); }
void AliasDb::OnInputChanged(NodeId n, uint32_t index, ValueId old) {
  alias_internal::Follower(*state_).InputChanged(n, index, old);
}
void AliasDb::OnInputRemoved(NodeId n, uint32_t, ValueId) { alias_internal::Follower(*state_).InputRemoved(n); }
void AliasDb::OnOutputAdded(NodeId n, uint32_t index) { alias_internal::Follower(*state_).OutputAdded(n, index); }
void AliasDb::OnOutputErasing(NodeId n, uint32_t index) { alias_internal::Follower(*state_).OutputErasing(n, index); }
void AliasDb::OnBlockAdded(NodeId n, BlockId) { alias_internal::Follower(*state_).BlockAdded(n); }
void AliasDb::OnTypeChanged(ValueId v) { alias_internal::Follower(*state_).TypeChanged(v); }
void AliasDb::OnAttributeChanged(NodeId n, absl::string_view) { alias_internal::Follower(*state_).AttributeChanged(n); }

}  // namespace smelt
