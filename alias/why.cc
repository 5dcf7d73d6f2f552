#include "smelt/alias/why.h"

#include "absl/strings/str_cat.h"
#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

class Tracer {
 public:
  explicit Tracer(AliasDb::State& s) : s_(s) {}
  void TraceBack(ValueId v, Ref target, Ref storage, std::vector<std::string>* out);

 private:
  bool Holds(ValueId v, Ref target);
  // Goes one edge back from `v`, which holds `target`: appends the edge to `out` and returns the value that it comes
  // from; invalid at the end of the path. A view's edge replaces `target` by the object that it is a view of, in
  // `storage`.
  ValueId StepBack(ValueId v, Ref* target, Ref storage, const absl::flat_hash_set<ValueId>& seen,
                   std::vector<std::string>* out);

  AliasDb::State& s_;
};

bool Tracer::Holds(ValueId v, Ref target) {
  bool found = false;
  s_.sets.ForEach(s_.records.PointsTo(v), [&](Ref r) { found |= ObjectOf(r) == ObjectOf(target); });
  return found;
}

ValueId Tracer::StepBack(ValueId v, Ref* target, Ref storage, const absl::flat_hash_set<ValueId>& seen,
                         std::vector<std::string>* out) {
  const std::string name = absl::StrCat("%", s_.g.value(v).name);
  const NodeId def = s_.g.value(v).def;
  const Node& node = s_.g.node(def);
  if (s_.g.IsParam(def)) {
    const NodeId owner = s_.g.block(node.parent).owner;
    if (!owner.valid()) {
      out->push_back(absl::StrCat(name, " is an input"));
      return ValueId();
    }
    ValueId from;
    const char* edge = "enters the block as";
    for (ValueId x : s_.g.node(owner).inputs) {
      if (Holds(x, *target)) from = x;
    }
    if (!from.valid()) {
      for (BlockId block : s_.g.node(owner).blocks) {
        for (ValueId x : s_.g.results(block)) {
          if (!Holds(x, *target) || seen.contains(x)) continue;
          from = x;
          edge = "comes around the loop as";
        }
      }
    }
    if (from.valid()) out->push_back(absl::StrCat("%", s_.g.value(from).name, " ", edge, " ", name));
    return from;
  }
  if (s_.records.values[v.index].own == ObjectOf(*target)) {
    const Object& o = s_.objects[ObjectOf(*target)];
    bool own_storage = false;
    s_.sets.ForEach(o.storage, [&](Ref r) { own_storage |= ObjectOf(r) == ObjectOf(*target); });
    ValueId base;
    if (ObjectOf(storage) != ObjectOf(*target) && !(own_storage && o.kind != ObjectKind::kTensor) && o.tensor) {
      for (ValueId x : node.inputs) {
        for (Ref r : s_.sets.Refs(s_.records.PointsTo(x))) {
          s_.sets.ForEach(s_.objects[ObjectOf(r)].storage, [&](Ref y) {
            if (base.valid() || s_.objects.Find(ObjectOf(y)) != s_.objects.Find(ObjectOf(storage))) return;
            base = x;
            *target = r;
          });
        }
      }
    }
    out->push_back(base.valid() ? absl::StrCat(name, " is a view of %", s_.g.value(base).name, " by ", node.op.name())
                                : absl::StrCat(name, " is made by ", s_.words.DescribeNode(def)));
    return base;
  }
  for (size_t i = node.inputs.size(); i-- > 0;) {
    const ValueId x = node.inputs[i];
    if (!Holds(x, *target)) continue;
    out->push_back(absl::StrCat(name, " is %", s_.g.value(x).name, ", returned by ", node.op.name()));
    return x;
  }
  for (BlockId block : node.blocks) {
    for (ValueId x : s_.g.results(block)) {
      if (!Holds(x, *target)) continue;
      out->push_back(absl::StrCat(name, " is %", s_.g.value(x).name, ", a result of ", node.op.name(), "'s block"));
      return x;
    }
  }
  out->push_back(
      absl::StrCat(name, " is taken out of memory by ", s_.words.DescribeNode(def), ": ", s_.words.RefName(*target)));
  return ValueId();
}

// Explains how v comes to hold the object, then where the object lives.
void Tracer::TraceBack(ValueId v, Ref target, Ref storage, std::vector<std::string>* out) {
  constexpr int kMostEdges = 100;
  absl::flat_hash_set<ValueId> seen;
  for (int i = 0; i < kMostEdges && v.valid() && seen.insert(v).second; ++i) {
    v = StepBack(v, &target, storage, seen, out);
  }
}

}  // namespace

std::vector<std::string> ExplainAlias(AliasDb::State& s, ValueId a, ValueId b) {
  std::vector<std::string> out;
  SetId p = s.records.PointsTo(a), q = s.records.PointsTo(b);
  if (!s.queries.overlaps.SetsMayAlias(p, q, false)) {
    p = s.containers.Reach(p);
    q = s.containers.Reach(q);
    out.push_back("by what they contain");
  }
  for (Ref x : s.sets.Refs(p)) {
    for (Ref y : s.sets.Refs(q)) {
      if (!s.queries.overlaps.RefsMayAlias(x, y, false)) continue;
      Ref sx = x, sy = y;
      for (Ref i : s.sets.Refs(s.memory.Storages(x))) {
        for (Ref j : s.sets.Refs(s.memory.Storages(y))) {
          if (s.queries.overlaps.StoragesMayOverlap(i, j, false)) {
            sx = i;
            sy = j;
          }
        }
      }
      Tracer(s).TraceBack(a, x, sx, &out);
      Tracer(s).TraceBack(b, y, sy, &out);
      if (s.objects.Find(ObjectOf(sx)) == s.objects.Find(ObjectOf(sy))) {
        out.push_back(absl::StrCat("both live in the memory of ", s.words.RefName(sx)));
      } else {
        out.push_back(
            absl::StrCat(s.words.RefName(sx), " and ", s.words.RefName(sy), " may overlap: both are the caller's"));
      }
      return out;
    }
  }
  return out;
}

}  // namespace smelt::alias_internal
