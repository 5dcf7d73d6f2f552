#include "smelt/alias/reachability.h"

#include <algorithm>
#include <vector>

#include "smelt/alias/state.h"

namespace smelt::alias_internal {

void Reachability::Drop() {
  reached_.clear();
  outputs_known_ = false;
  output_refs_.clear();
}

uint32_t Reachability::OutputKey(uint32_t storage) const {
  const uint32_t f = s_.objects.Find(storage);
  return s_.objects[f].kind == ObjectKind::kPiece ? s_.objects[f].parent | uint32_t{1} << 31 : f;
}

std::optional<SetId> Reachability::ReachAtAnyTime(SetId s) {
  constexpr size_t kGreatDeal = 64;
  if (SetPool::IsSingle(s) && !s_.objects[ObjectOf(SetPool::SingleRef(s))].container) return s;
  if (auto it = reached_.find(s); it != reached_.end()) return it->second;
  SmallSet<Ref, 8> done;
  std::vector<Ref> all;
  s_.sets.ForEach(s, [&](Ref r) { all.push_back(r); });
  for (Ref r : all) done.Insert(r);
  std::optional<SetId> out;
  size_t at = 0;
  // A query summarises nothing of its own: other queries must not depend on it. Where what a container holds joins a
  // summary only now, the summary holds that too before it is looked into.
  for (; at < all.size() && all.size() <= kGreatDeal; ++at) {
    ++s_.steps;
    if (!s_.containers.joined_containers.empty()) s_.containers.FollowJoined();
    if (!s_.objects[ObjectOf(all[at])].container || ObjectOf(all[at]) == kUnknown) continue;
    s_.sets.ForEach(s_.containers.ContentOf(all[at], kAnySlot, NodeId()), [&](Ref e) {
      if (done.Insert(e)) all.push_back(e);
    });
  }
  if (at == all.size()) out = s_.sets.Make(absl::MakeSpan(all));
  return reached_[s] = out;
}

void Reachability::FillOutputs() {
  constexpr size_t kMany = 32;
  if (outputs_known_) return;
  output_refs_.clear();
  // Many outputs are looked at again only when edits have paid for it, and for what each of them reaches. Building pays
  // for the first time.
  constexpr int64_t kStepsOfOutput = 8;
  const bool many = s_.g.outputs().size() > kMany && s_.changes.edits > 1;
  const int64_t cost = kStepsOfOutput * static_cast<int64_t>(s_.g.outputs().size()), before = s_.AllSteps();
  outputs_reach_all_ = many && !s_.budget.Affords(cost);
  if (outputs_reach_all_) {
    outputs_known_ = true;
    return;
  }
  s_.steps += static_cast<int64_t>(s_.g.outputs().size());
  for (ValueId out : s_.g.outputs()) {
    const std::optional<SetId> reach = ReachAtAnyTime(s_.records.PointsTo(out));
    if (!reach) {
      outputs_reach_all_ = true;
      break;
    }
    for (Ref r : s_.sets.Refs(*reach)) {
      const Object& o = s_.objects[ObjectOf(r)];
      const auto add = [&](uint32_t key) {
        absl::InlinedVector<Ref, 2>& list = output_refs_[OutputKey(key)];
        // Beyond that number every query about the location is answered with yes.
        if (list.size() <= kMany && std::find(list.begin(), list.end(), r) == list.end()) list.push_back(r);
      };
      if (o.container) add(ObjectOf(r));
      s_.sets.ForEach(o.storage, [&](Ref s) { add(ObjectOf(s)); });
    }
  }
  if (many) s_.budget.Take(std::max(cost, s_.AllSteps() - before));
  outputs_known_ = true;
}

bool Reachability::ReachableByCaller(ValueId v) {
  constexpr size_t kMany = 32;
  if (s_.records.PointsTo(v) == 0) return false;
  const std::optional<SetId> reach = ReachAtAnyTime(s_.records.PointsTo(v));
  if (!reach) return true;
  FillOutputs();
  if (outputs_reach_all_) return true;
  for (Ref r : s_.sets.Refs(*reach)) {
    const Object o = s_.objects[ObjectOf(r)];
    if (o.external || o.escaped) return true;
    const auto hit = [&](uint32_t storage) {
      const Object& s = s_.objects[s_.objects.Find(storage)];
      if (s.external || s.escaped) return true;
      const auto it = output_refs_.find(OutputKey(storage));
      if (it == output_refs_.end()) return false;
      // A tensor without elements has no bytes to reach, so its memory decides.
      if (it->second.size() > kMany || (o.tensor && s_.geometries.IsEmpty(ObjectOf(r)))) return true;
      const absl::InlinedVector<Ref, 2> others = it->second;
      return std::any_of(others.begin(), others.end(),
                         [&](Ref other) { return s_.queries.overlaps.RefsMayAlias(r, other, true); });
    };
    if (o.container && hit(ObjectOf(r))) return true;
    for (Ref s : s_.sets.Refs(o.storage)) {
      if (hit(ObjectOf(s))) return true;
    }
  }
  return false;
}

}  // namespace smelt::alias_internal
