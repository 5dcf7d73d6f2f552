#include "smelt/fuser/join_groups.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/pull_groups.h"

namespace smelt {
namespace {

// Elements that one tile may traverse twice if no other tile shares the work.
constexpr int64_t kRowLimit = 32768;

// Returns whether all values computed from the elements of these nodes are reduced again, to few elements each time.
bool EndsInReductions(const BlockGroups& block, std::vector<int> nodes) {
  constexpr size_t kMostNodes = 64;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const OpKind kind = GetOpInfo(block.N(nodes[k]).op).kind;
    const bool is_view = IsTransparent(block.N(nodes[k]));
    if (k == kMostNodes || (!is_view && kind != OpKind::kPointwise && kind != OpKind::kReduction)) return false;
    for (ValueId o : block.N(nodes[k]).outputs) {
      const std::optional<int64_t> size = block.IsTensor(o) ? Product(*block.T(o).sizes).Constant() : std::nullopt;
      if (size && *size <= kRowLimit) continue;
      for (const Use& u : block.graph.value(o).uses) {
        const int user = block.graph.IsReturn(u.user) ? INT_MIN : block.PlaceOf(u.user);
        if (user == INT_MIN || block.nodes[user] != u.user) return false;
        if (std::find(nodes.begin(), nodes.end(), user) == nodes.end()) nodes.push_back(user);
      }
    }
  }
  return true;
}

// Returns the contents that a chain of region writes inside groups a and b starts from.
ValueId ChainBase(const BlockGroups& block, int w, int a, int b) {
  while (true) {
    const ValueId base = StorageOf(block.graph, block.N(w).inputs[0]);
    const int p = block.DefPlace(base);
    if (p < 0 || block.N(p).op != op::kSmeltWriteRegion || (block.group_of[p] != a && block.group_of[p] != b))
      return base;
    w = p;
  }
}

// Returns whether a member reads memory that another member, an indexed write, takes over. All of that memory would be
// copied.
bool ReadsWhatAnActionWrites(const BlockGroups& block, const std::vector<int>& members) {
  for (int w : members) {
    if (!IsAction(block.N(w))) continue;
    // A copy of memory that is no longer read is that memory.
    ValueId memory = StorageOf(block.graph, block.N(w).inputs[0]);
    if (const int p = block.DefPlace(memory); p >= 0 && block.N(p).op == op::kSmeltMaterialize)
      memory = StorageOf(block.graph, block.N(p).inputs[0]);
    for (int m : members) {
      bool reads = false;
      block.ForOperands(
          m, [&](ValueId v) { reads = reads || (block.IsTensor(v) && StorageOf(block.graph, v) == memory); });
      if (m != w && reads) return true;
    }
  }
  return false;
}

}  // namespace

bool WalksAlone(const BlockGroups& block, const Frame& frame) {
  if (!frame.HasReduction()) return false;
  Expr outer = 1, inner = 1;
  for (size_t d = 0; d < frame.sizes.size(); ++d)
    (frame.reduced[d] ? inner : outer) = (frame.reduced[d] ? inner : outer) * frame.sizes[d];
  // If only a call decides the size, the exported example counts: a longer row is still one tile's work, and right.
  const bool small = inner.Evaluate(block.graph.symbol_hints).value_or(kRowLimit + 1) <= kRowLimit;
  return outer.IsConstant() && *outer.Constant() < 8 && !small;
}

bool CanStand(const BlockGroups& block, int a, int b, int* at, std::string* reason) {
  const int early = block.groups[a].at < block.groups[b].at ? a : b;
  const int late = early == a ? b : a;
  const int first = block.groups[early].at, last = block.groups[late].at;
  bool ok = true;
  for (int m : block.groups[early].members) {
    for (ValueId o : block.N(m).outputs) ok = ok && block.Needed(o, a, b, last) > last;
    if (!ok) break;
    block.ForOperands(m, [&](ValueId v) {
      if (!block.IsTensor(v)) return;
      auto it = block.writers.find(StorageOf(block.graph, v));
      if (it == block.writers.end()) return;
      for (int w : it->second) {
        if (block.group_of[w] == a || block.group_of[w] == b) continue;
        const int p = block.At(w);
        if (p > first && p < last) ok = false;
      }
    });
    if (!ok) break;
  }
  if (ok) {
    *at = last;
    return true;
  }
  ok = true;
  int obstacle = -1;
  bool by_memory = false;
  for (int m : block.groups[late].members) {
    block.ForOperands(m, [&](ValueId v) {
      const int p = block.DefPlace(v);
      if (p >= 0 && (block.group_of[p] == a || block.group_of[p] == b)) return;
      const ValueId root = block.IsTensor(v) ? StorageOf(block.graph, v) : v;
      const int q = block.DefPlace(root);
      const bool is_inside = q >= 0 && (block.group_of[q] == a || block.group_of[q] == b);
      if ((is_inside ? block.PlaceReady(v) : block.Ready(v)) < first) return;
      ok = false;
      obstacle = q;
    });
    ok = ok && block.SizesReady(block.N(m)) < first;
    if (!ok) break;
    if (IsRegionOp(block.N(m))) {
      block.ForReaders(StorageOf(block.graph, block.N(m).inputs[0]), [&](int r) {
        if (block.group_of[r] >= 0 && (block.group_of[r] == a || block.group_of[r] == b)) return;
        const int p = block.At(r);
        if (p <= first || p >= last) return;
        ok = false;
        obstacle = r;
        by_memory = true;
      });
    }
    if (!ok) break;
  }
  if (ok) {
    *at = first;
    return true;
  }
  *reason = absl::StrCat(
      obstacle >= 0 ? block.Describe(obstacle) : "a node", ", between the two, ",
      by_memory ? "reads memory that the consumer's kernel takes over" : "needs the one and is needed by the other");
  return false;
}

bool MemoryAllows(const BlockGroups& block, int a, int b, bool reduces, std::string* reason) {
  std::vector<int> writes, members;
  for (int k : {a, b}) {
    for (int m : block.groups[k].members) {
      members.push_back(m);
      if (block.N(m).op == op::kSmeltWriteRegion) writes.push_back(m);
    }
  }
  for (int w : writes) {
    const int p = block.DefPlace(StorageOf(block.graph, block.N(w).inputs[0]));
    if (p < 0 || (block.group_of[p] != a && block.group_of[p] != b) || block.N(p).op == op::kSmeltWriteRegion) continue;
    *reason = "it is the memory that a region is written into";
    return false;
  }
  if (!writes.empty()) {
    for (int m : members) {
      bool ok = true;
      const bool is_write = block.N(m).op == op::kSmeltWriteRegion;
      const ValueId memory = is_write ? block.N(m).inputs[0] : ValueId();
      block.ForOperands(m, [&](ValueId v) {
        if (!block.IsTensor(v)) return;
        const ValueId root = StorageOf(block.graph, v);
        for (int w : writes) {
          if (root == block.N(w).outputs[0]) {
            // It must be the next link of a chain of disjoint regions, without other readers.
            const bool link =
                v == memory && v == root && block.graph.value(root).uses.size() == 1 &&
                CompareExtents(ExtentOf(block.N(m)), ExtentOf(block.N(w)), block.graph.symbols) == Overlap::kDisjoint;
            ok = ok && link;
          }
          if (root == StorageOf(block.graph, block.N(w).inputs[0]) && v != memory) {
            const Overlap o = CompareExtents(ExtentOf(block.graph, v), ExtentOf(block.N(w)), block.graph.symbols);
            // The elements of a list are chosen by index.
            const bool same = o == Overlap::kSame && WritesEachElementOnce(block.N(w)) && !reduces &&
                              absl::c_linear_search(block.N(m).inputs, v);
            ok = ok && (o == Overlap::kDisjoint || same);
          }
        }
      });
      if (!ok) {
        *reason = "the kernel would write memory that it reads at other indices";
        return false;
      }
    }
  }
  if (ReadsWhatAnActionWrites(block, members)) {
    *reason =
        "the kernel would read memory at other indices than those at which it writes it, all of which is copied then";
    return false;
  }
  // A kernel does not know which of two writes to one element comes last.
  for (int w : writes) {
    for (int x : writes) {
      if (block.group_of[w] != a || block.group_of[x] != b || ChainBase(block, w, a, b) != ChainBase(block, x, a, b))
        continue;
      if (CompareExtents(ExtentOf(block.N(w)), ExtentOf(block.N(x)), block.graph.symbols) == Overlap::kDisjoint)
        continue;
      *reason = "the kernel would write one region twice";
      return false;
    }
  }
  // Operands.
  absl::flat_hash_set<ValueId> operands;
  for (int m : members) {
    block.ForOperands(m, [&](ValueId v) {
      const int p = block.DefPlace(block.IsTensor(v) ? StorageOf(block.graph, v) : v);
      if (p < 0 || (block.group_of[p] != a && block.group_of[p] != b)) {
        if (p >= 0 && block.N(p).op == op::kPrimConstant) return;
        operands.insert(v);
      }
    });
  }
  if (static_cast<int>(operands.size()) > block.options.max_group_operands) {
    *reason = "the kernel would have too many operands";
    return false;
  }
  return true;
}

// A list of questions, each of which refuses the join with a reason. Nothing changes before the last of them is
// answered, so they stand together.
bool JoinGroup(BlockGroups& block, int a, int b, ValueId v, const Label& expected, int consumer, std::string* reason) {
  Group& ga = block.groups[a];
  Group& gb = block.groups[b];
  if (!gb.open || !ga.open) {
    *reason = "the producer's kernel is closed (an indexed write or a window)";
    return false;
  }
  if (static_cast<int>(ga.members.size() + gb.members.size()) > block.options.max_group_nodes) {
    *reason = "the kernel would grow too large";
    return false;
  }
  // The loops.
  Frame frame = ga.frame;
  std::vector<int> to(gb.frame.sizes.size(), -1);  // b's dims in the frame
  const Label& have = block.labels.at(v);
  const bool chain = block.N(block.DefPlace(v)).op == op::kSmeltWriteRegion;
  if (chain && block.N(consumer).op != op::kSmeltWriteRegion) {
    *reason = "it reads memory of which the producer writes a region: that is written before";
    return false;
  }
  if (chain && have.size() != expected.size()) {
    *reason = "regions of different shape";
    return false;
  }
  for (size_t d = 0; d < have.size(); ++d) {
    if (have[d] < 0) continue;
    if (expected[d] < 0 || gb.frame.sizes[have[d]] != frame.sizes[expected[d]]) {
      *reason = "the loops differ in size";
      return false;
    }
    if (to[have[d]] >= 0 && to[have[d]] != expected[d]) {
      *reason = "the loops' dims do not correspond";
      return false;
    }
    to[have[d]] = expected[d];
  }
  std::vector<bool> hit(frame.sizes.size(), false);
  for (int t : to) {
    if (t < 0) continue;
    if (hit[t]) {
      *reason = "the loops' dims do not correspond";
      return false;
    }
    hit[t] = true;
  }
  std::vector<int> unmapped;
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] >= 0 || gb.frame.sizes[d] == Expr(1)) continue;
    if (!gb.frame.reduced[d]) {
      *reason = "the producer runs over dims that the consumer does not have";
      return false;
    }
    unmapped.push_back(static_cast<int>(d));
  }
  std::vector<int> missing;  // dims of the frame that b's value does not run over
  for (size_t d = 0; d < frame.sizes.size(); ++d) {
    if (!hit[d] && frame.sizes[d] != Expr(1)) missing.push_back(static_cast<int>(d));
  }
  const bool a_reduces = ga.frame.HasReduction(), b_reduces = gb.frame.HasReduction();
  if (!unmapped.empty()) {
    // b's value is a reduction's result. Its reduced dims are those that the consumer has and the value lacks, or new
    // ones.
    std::vector<int> targets;
    if (missing.empty()) {
      if (a_reduces) {
        *reason = "the consumer reduces over other dims";
        return false;
      }
      for (int d : unmapped) {
        targets.push_back(static_cast<int>(frame.sizes.size()));
        frame.sizes.push_back(gb.frame.sizes[d]);
        frame.reduced.push_back(true);
        hit.push_back(true);
      }
    } else {
      targets = missing;
    }
    if (targets.size() != unmapped.size()) {
      *reason = "the result of a reduction is spread over other dims than it reduced";
      return false;
    }
    for (size_t k = 0; k < unmapped.size(); ++k) {
      if (frame.sizes[targets[k]] != gb.frame.sizes[unmapped[k]]) {
        *reason = "the result of a reduction is spread over dims of another size";
        return false;
      }
      if (a_reduces && !frame.reduced[targets[k]]) {
        *reason = "the consumer reduces over other dims";
        return false;
      }
      to[unmapped[k]] = targets[k];
      frame.reduced[targets[k]] = true;
    }
    if (a_reduces) {
      for (size_t d = 0; d < frame.reduced.size(); ++d) {
        const bool is_target = std::find(targets.begin(), targets.end(), static_cast<int>(d)) != targets.end();
        if (frame.reduced[d] && !is_target && frame.sizes[d] != Expr(1)) {
          *reason = "the consumer reduces over other dims";
          return false;
        }
      }
    }
  } else {
    if (b_reduces) {
      // b's value runs over all of its loop: the dims it reduces are the consumer's too.
      for (size_t d = 0; d < to.size(); ++d) {
        if (to[d] < 0) continue;
        if (a_reduces && frame.reduced[to[d]] != gb.frame.reduced[d]) {
          *reason = "the consumer reduces over other dims";
          return false;
        }
        if (gb.frame.reduced[d]) frame.reduced[to[d]] = true;
      }
    }
    for (int d : missing) {
      if (!frame.reduced[d]) {
        *reason = "the producer's values would be computed again along a broadcast dim";
        return false;
      }
    }
  }
  if (b_reduces && WalksAlone(block, frame) && !EndsInReductions(block, ga.members)) {
    *reason = "a reduction over nearly everything: what follows runs in parallel as a kernel of its own";
    return false;
  }
  if (const Work again = RepeatedWork(block, a, b); again.IsTooMuch()) {
    *reason = "it is read at other indices too, and would be computed again for each, which costs more than reading it";
    return false;
  }
  // Finds a place for it.
  int at;
  if (!CanStand(block, a, b, &at, reason) || !MemoryAllows(block, a, b, frame.HasReduction(), reason)) return false;
  // Joins them.
  for (int m : gb.members) {
    for (ValueId o : block.N(m).outputs) {
      auto it = block.labels.find(o);
      if (it == block.labels.end()) continue;
      for (int& d : it->second) {
        if (d >= 0) d = to[d];
      }
    }
  }
  block.Absorb(a, b, at);
  ga.frame = std::move(frame);
  *reason = chain ? "regions of one memory written by one loop" : b_reduces ? "one kernel a row" : "the same loop";
  return true;
}

}  // namespace smelt
