// Why two values may alias: a path of edges from each to the memory that they share.
#include "absl/strings/str_cat.h"
#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::ObjectOf;

bool AliasDb::State::Holds(ValueId v, Ref target) {
  bool found = false;
  sets.ForEach(PointsTo(v), [&](Ref r) { found |= ObjectOf(r) == ObjectOf(target); });
  return found;
}

ValueId AliasDb::State::StepBack(ValueId v, Ref* target, Ref storage, const absl::flat_hash_set<ValueId>& seen,
                                 std::vector<std::string>* out) {
  const std::string name = absl::StrCat("%", g.value(v).name);
  const NodeId def = g.value(v).def;
  const Node& node = g.node(def);
  if (g.IsParam(def)) {
    const NodeId owner = g.block(node.parent).owner;
    if (!owner.valid()) {
      out->push_back(absl::StrCat(name, " is an input"));
      return ValueId();
    }
    ValueId from;
    const char* edge = "enters the block as";
    for (ValueId x : g.node(owner).inputs) {
      if (Holds(x, *target)) from = x;
    }
    if (!from.valid()) {
      for (BlockId block : g.node(owner).blocks) {
        for (ValueId x : g.results(block)) {
          if (!Holds(x, *target) || seen.contains(x)) continue;
          from = x;
          edge = "comes around the loop as";
        }
      }
    }
    if (from.valid()) out->push_back(absl::StrCat("%", g.value(from).name, " ", edge, " ", name));
    return from;
  }
  if (values[v.index].own == ObjectOf(*target)) {
    const Object& o = objects[ObjectOf(*target)];
    bool own_storage = false;
    sets.ForEach(o.storage, [&](Ref r) { own_storage |= ObjectOf(r) == ObjectOf(*target); });
    ValueId base;
    if (ObjectOf(storage) != ObjectOf(*target) && !(own_storage && o.kind != Kind::kTensor) && o.tensor) {
      for (ValueId x : node.inputs) {
        for (Ref r : sets.Refs(PointsTo(x))) {
          sets.ForEach(objects[ObjectOf(r)].storage, [&](Ref y) {
            if (base.valid() || Find(ObjectOf(y)) != Find(ObjectOf(storage))) return;
            base = x;
            *target = r;
          });
        }
      }
    }
    out->push_back(base.valid() ? absl::StrCat(name, " is a view of %", g.value(base).name, " by ", node.op.name())
                                : absl::StrCat(name, " is made by ", DescribeNode(def)));
    return base;
  }
  for (size_t i = node.inputs.size(); i-- > 0;) {
    const ValueId x = node.inputs[i];
    if (!Holds(x, *target)) continue;
    out->push_back(absl::StrCat(name, " is %", g.value(x).name, ", returned by ", node.op.name()));
    return x;
  }
  for (BlockId block : node.blocks) {
    for (ValueId x : g.results(block)) {
      if (!Holds(x, *target)) continue;
      out->push_back(absl::StrCat(name, " is %", g.value(x).name, ", a result of ", node.op.name(), "'s block"));
      return x;
    }
  }
  out->push_back(absl::StrCat(name, " is taken out of memory by ", DescribeNode(def), ": ", RefName(*target)));
  return ValueId();
}

// Explains how v comes to hold the object, then where the object lives.
void AliasDb::State::TraceBack(ValueId v, Ref target, Ref storage, std::vector<std::string>* out) {
  constexpr int kMostEdges = 100;
  absl::flat_hash_set<ValueId> seen;
  for (int i = 0; i < kMostEdges && v.valid() && seen.insert(v).second; ++i) {
    v = StepBack(v, &target, storage, seen, out);
  }
}

std::vector<std::string> AliasDb::Why(ValueId a, ValueId b) const {
  State& s = Flushed();
  std::vector<std::string> out;
  if (!MayContainAlias(a, b)) return out;
  State::SetId p = s.PointsTo(a), q = s.PointsTo(b);
  if (!s.SetsMayAlias(p, q, false)) {
    p = s.Reach(p);
    q = s.Reach(q);
    out.push_back("by what they contain");
  }
  for (State::Ref x : s.sets.Refs(p)) {
    for (State::Ref y : s.sets.Refs(q)) {
      if (!s.RefsMayAlias(x, y, false)) continue;
      State::Ref sx = x, sy = y;
      for (State::Ref i : s.sets.Refs(s.Storages(x))) {
        for (State::Ref j : s.sets.Refs(s.Storages(y))) {
          if (s.StoragesMayOverlap(i, j, false)) {
            sx = i;
            sy = j;
          }
        }
      }
      s.TraceBack(a, x, sx, &out);
      s.TraceBack(b, y, sy, &out);
      if (s.Find(ObjectOf(sx)) == s.Find(ObjectOf(sy))) {
        out.push_back(absl::StrCat("both live in the memory of ", s.RefName(sx)));
      } else {
        out.push_back(absl::StrCat(s.RefName(sx), " and ", s.RefName(sy), " may overlap: both are the caller's"));
      }
      return out;
    }
  }
  return out;
}

}  // namespace smelt
