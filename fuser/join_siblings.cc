// Groups that read one operand over one loop and nothing of each other: one kernel with several results.
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/op/op_info.h"
#include "smelt/fuser/block_fuser.h"

namespace smelt {

void BlockFuser::JoinSiblings() {
  absl::flat_hash_map<ValueId, int> reader;  // by operand: the last group that reads all of it in its loop's order
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (group_of_[i] < 0 || GetOpInfo(N(i).op).kind != OpKind::kPointwise) continue;
    for (ValueId v : N(i).inputs) {
      if (!IsTensor(v) || *T(v).sizes != *T(N(i).outputs[0]).sizes) continue;
      const int k = group_of_[i];
      const int p = DefPlace(Root(v));
      if (p >= 0 && group_of_[p] == k) continue;
      auto [it, first] = reader.try_emplace(v, i);
      if (first || group_of_[it->second] == k || JoinSibling(it->second, i)) continue;
      it->second = i;
    }
  }
}

bool BlockFuser::JoinSibling(int i, int j) {
  const int a = group_of_[j], b = group_of_[i];
  Group& ga = groups_[a];
  Group& gb = groups_[b];
  if (!ga.open || !gb.open || ga.pulled || gb.pulled || !ga.pullable || !gb.pullable ||
      ga.frame.sizes != gb.frame.sizes)
    return false;
  if (ga.frame.HasReduction() || gb.frame.HasReduction()) return false;
  if (labels_.at(N(i).outputs[0]) != labels_.at(N(j).outputs[0])) return false;
  if (static_cast<int>(ga.members.size() + gb.members.size()) > options_.max_group_nodes) return false;
  absl::flat_hash_set<ValueId> streams;
  for (int k : {a, b}) {
    for (int m : groups_[k].members) {
      for (ValueId v : N(m).inputs) {
        if (!IsTensor(v)) continue;
        const int p = DefPlace(Root(v));
        if (p >= 0 && (group_of_[p] == a || group_of_[p] == b)) continue;
        // Each lies in the order of the loop: a transposed operand would make both walk in tiles.
        const std::vector<Expr>& strides = *T(v).strides;
        if (!strides.empty() && strides.back() != Expr(1) && T(v).sizes->back() != Expr(1)) return false;
        streams.insert(v);
      }
      for (ValueId v : N(m).outputs) {
        for (const Use& u : g_.value(v).uses) {
          const int q = PlaceOf(u.user);
          if (q < 0 || (group_of_[q] != a && group_of_[q] != b)) streams.insert(v);
        }
      }
    }
  }
  // What one of them reads of the other at other indices.
  if (const Work again = RepeatedWork(a, b); again.cost > kRepeated || again.code > kRepeatedCode) return false;
  std::string reason;
  int at;
  if (streams.size() > kStreams || !CanStand(a, b, &at, &reason) || !MemoryAllows(a, b, false, &reason)) return false;
  Absorb(a, b, at);
  return true;
}

}  // namespace smelt
