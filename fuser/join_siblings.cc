#include "smelt/fuser/join_siblings.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/join_groups.h"
#include "smelt/fuser/loop_shapes.h"
#include "smelt/fuser/pull_groups.h"

namespace smelt {
namespace {

// The number of memory streams in one loop beyond which the hardware does not prefetch.
constexpr size_t kMostStreams = 12;

// Returns how node i's loop traverses its operand v, if it reads all of it and its group may get siblings.
std::optional<Label> SiblingLabel(const BlockGroups& block, int i, ValueId v) {
  const Group& group = block.groups[block.group_of[i]];
  if (!group.open || group.pulled) return std::nullopt;
  const OpKind kind = GetOpInfo(block.N(i).op).kind;
  const std::vector<Expr>& sizes = *block.T(v).sizes;
  if (kind == OpKind::kPointwise) {
    if (sizes != *block.T(block.N(i).outputs[0]).sizes) return std::nullopt;
    return block.labels.at(block.N(i).outputs[0]);
  }
  // The dims of a reduction are its kernel's, in order.
  if (kind != OpKind::kReduction || group.members.size() != 1 || sizes != group.frame.sizes) return std::nullopt;
  return IdentityLabel(sizes.size(), sizes);
}

// Joins nodes i and j, of two groups, if they read one operand in the same order, in all of their loops.
bool JoinSibling(BlockGroups& block, int i, int j) {
  const int a = block.group_of[j], b = block.group_of[i];
  Group& ga = block.groups[a];
  Group& gb = block.groups[b];
  if (!ga.open || !gb.open || ga.pulled || gb.pulled) return false;
  if (ga.frame.sizes != gb.frame.sizes) return false;
  const bool reduces = ga.frame.HasReduction() || gb.frame.HasReduction();
  const Frame& frame = ga.frame.HasReduction() ? ga.frame : gb.frame;
  if (ga.frame.reduced != gb.frame.reduced) {
    // Work on each element goes beside work on rows of elements only if there are enough rows to share it.
    if (ga.frame.HasReduction() && gb.frame.HasReduction()) return false;
    if (WalksAlone(block, frame)) return false;
  }
  for (int k : {a, b}) {
    if (!reduces && !block.groups[k].pullable) return false;
    for (int m : block.groups[k].members) {
      const OpKind kind = GetOpInfo(block.N(m).op).kind;
      if (reduces && kind != OpKind::kPointwise && kind != OpKind::kReduction && !IsLeaf(block.N(m))) return false;
    }
  }
  if (static_cast<int>(ga.members.size() + gb.members.size()) > block.options.max_group_nodes) return false;
  absl::flat_hash_set<ValueId> streams;
  for (int k : {a, b}) {
    for (int m : block.groups[k].members) {
      for (ValueId v : block.N(m).inputs) {
        if (!block.IsTensor(v)) continue;
        const int p = block.DefPlace(StorageOf(block.graph, v));
        if (p >= 0 && (block.group_of[p] == a || block.group_of[p] == b)) continue;
        // Each lies in the order of the loop: a transposed operand would make both run in tiles.
        const std::vector<Expr>& strides = *block.T(v).strides;
        if (!strides.empty() && strides.back() != Expr(1) && block.T(v).sizes->back() != Expr(1)) return false;
        streams.insert(v);
      }
      for (ValueId v : block.N(m).outputs) {
        for (const Use& u : block.graph.value(v).uses) {
          const int q = block.PlaceOf(u.user);
          if (q < 0 || (block.group_of[q] != a && block.group_of[q] != b)) streams.insert(v);
        }
      }
    }
  }
  // The values of one group that the other reads at other indices.
  if (const Work again = RepeatedWork(block, a, b); again.IsTooMuch()) return false;
  std::string reason;
  int at;
  if (streams.size() > kMostStreams || !CanStand(block, a, b, &at, &reason) ||
      !MemoryAllows(block, a, b, reduces, &reason))
    return false;
  block.groups[a].frame = Frame(frame);
  block.Absorb(a, b, at);
  return true;
}

// Joins groups over equal loops that need not read one operand. Takes O(nodes squared).
void JoinEqualLoops(BlockGroups& block) {
  for (int i = 0; i < static_cast<int>(block.nodes.size()); ++i) {
    if (block.group_of[i] < 0) continue;
    for (int j = 0; j < i; ++j) {
      if (block.group_of[j] >= 0 && block.group_of[j] != block.group_of[i] && JoinSibling(block, j, i)) break;
    }
  }
}

}  // namespace

void JoinSiblings(BlockGroups& block) {
  // For each operand, the last groups that read all of it in their loop's order. Only a few are looked at.
  constexpr size_t kReaders = 4;
  absl::flat_hash_map<ValueId, std::vector<std::pair<int, Label>>> readers;
  for (int i = 0; i < static_cast<int>(block.nodes.size()); ++i) {
    if (block.group_of[i] < 0) continue;
    for (ValueId v : block.N(i).inputs) {
      if (!block.IsTensor(v)) continue;
      std::optional<Label> label = SiblingLabel(block, i, v);
      if (!label) continue;
      const int p = block.DefPlace(StorageOf(block.graph, v));
      if (p >= 0 && block.group_of[p] == block.group_of[i]) continue;
      auto& known = readers[v];
      bool joined = false;
      for (const auto& [j, other] : known)
        joined = joined || block.group_of[j] == block.group_of[i] || (other == *label && JoinSibling(block, j, i));
      if (joined) continue;
      if (known.size() == kReaders) known.erase(known.begin());
      known.push_back({i, *std::move(label)});
    }
  }
  if (block.options.few_launches) JoinEqualLoops(block);
}

}  // namespace smelt
