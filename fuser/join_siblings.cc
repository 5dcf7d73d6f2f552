// Joins groups that read one operand over one loop and nothing of each other: one kernel with several results.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/op/op_info.h"
#include "smelt/fuser/block_fuser.h"

namespace smelt {

std::optional<Label> BlockFuser::SiblingLabel(int i, ValueId v) const {
  const Group& group = groups_[group_of_[i]];
  if (!group.open || group.pulled) return std::nullopt;
  const OpKind kind = GetOpInfo(N(i).op).kind;
  const std::vector<Expr>& sizes = *T(v).sizes;
  if (kind == OpKind::kPointwise) {
    if (sizes != *T(N(i).outputs[0]).sizes) return std::nullopt;
    return labels_.at(N(i).outputs[0]);
  }
  // The dims of a reduction are its kernel's, in order.
  if (kind != OpKind::kReduction || group.members.size() != 1 || sizes != group.frame.sizes) return std::nullopt;
  return Identity(sizes.size(), sizes);
}

void BlockFuser::JoinSiblings() {
  // For each operand, the last groups that read all of it in their loop's order. Only a few are looked at.
  constexpr size_t kReaders = 4;
  absl::flat_hash_map<ValueId, std::vector<std::pair<int, Label>>> readers;
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (group_of_[i] < 0) continue;
    for (ValueId v : N(i).inputs) {
      if (!IsTensor(v)) continue;
      std::optional<Label> label = SiblingLabel(i, v);
      if (!label) continue;
      const int p = DefPlace(Root(v));
      if (p >= 0 && group_of_[p] == group_of_[i]) continue;
      auto& known = readers[v];
      bool joined = false;
      for (const auto& [j, other] : known)
        joined = joined || group_of_[j] == group_of_[i] || (other == *label && JoinSibling(j, i));
      if (joined) continue;
      if (known.size() == kReaders) known.erase(known.begin());
      known.push_back({i, *std::move(label)});
    }
  }
  if (options_.few_launches) JoinEqualLoops();
}

void BlockFuser::JoinEqualLoops() {
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (group_of_[i] < 0) continue;
    for (int j = 0; j < i; ++j) {
      if (group_of_[j] >= 0 && group_of_[j] != group_of_[i] && JoinSibling(j, i)) break;
    }
  }
}

bool BlockFuser::JoinSibling(int i, int j) {
  const int a = group_of_[j], b = group_of_[i];
  Group& ga = groups_[a];
  Group& gb = groups_[b];
  if (!ga.open || !gb.open || ga.pulled || gb.pulled) return false;
  if (ga.frame.sizes != gb.frame.sizes) return false;
  const bool reduces = ga.frame.HasReduction() || gb.frame.HasReduction();
  const Frame& frame = ga.frame.HasReduction() ? ga.frame : gb.frame;
  if (ga.frame.reduced != gb.frame.reduced) {
    // Work on each element goes beside work on rows of elements only if there are enough rows to share it.
    if (ga.frame.HasReduction() && gb.frame.HasReduction()) return false;
    if (WalksAlone(frame)) return false;
  }
  for (int k : {a, b}) {
    if (!reduces && !groups_[k].pullable) return false;
    for (int m : groups_[k].members) {
      const OpKind kind = GetOpInfo(N(m).op).kind;
      if (reduces && kind != OpKind::kPointwise && kind != OpKind::kReduction && !IsLeaf(N(m))) return false;
    }
  }
  if (static_cast<int>(ga.members.size() + gb.members.size()) > options_.max_group_nodes) return false;
  absl::flat_hash_set<ValueId> streams;
  for (int k : {a, b}) {
    for (int m : groups_[k].members) {
      for (ValueId v : N(m).inputs) {
        if (!IsTensor(v)) continue;
        const int p = DefPlace(Root(v));
        if (p >= 0 && (group_of_[p] == a || group_of_[p] == b)) continue;
        // Each lies in the order of the loop: a transposed operand would make both run in tiles.
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
  // The values of one group that the other reads at other indices.
  if (const Work again = RepeatedWork(a, b); again.cost > kRepeated || again.code > kRepeatedCode) return false;
  std::string reason;
  int at;
  if (streams.size() > kStreams || !CanStand(a, b, &at, &reason) || !MemoryAllows(a, b, reduces, &reason)) return false;
  groups_[a].frame = Frame(frame);
  Absorb(a, b, at);
  return true;
}

}  // namespace smelt
