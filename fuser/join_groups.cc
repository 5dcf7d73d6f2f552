// Decides which nodes become one kernel.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/block_fuser.h"

namespace smelt {

absl::Status BlockFuser::Visit(int i) {
  const NodeId n = nodes_[i];
  const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
  for (BlockId b : blocks) {
    SMELT_RETURN_IF_ERROR(BlockFuser(g_, b, options_, report_, places_).Run());
  }
  std::optional<Shape> shape = ShapeOf(i);
  if (!shape) {
    return absl::OkStatus();
  }
  const int own = static_cast<int>(groups_.size());
  Group fresh;
  fresh.members = {i};
  fresh.at = i;
  fresh.frame = shape->frame;
  fresh.pullable = shape->any_index;
  fresh.open = shape->joins;
  groups_.push_back(std::move(fresh));
  group_of_[i] = own;
  for (ValueId v : N(i).outputs) labels_[v] = shape->out;
  absl::flat_hash_set<ValueId> here;
  // Values that are read at the loop's own index, latest made first.
  struct Candidate {
    int producer;
    ValueId value;  // without views
    Label label;
  };
  std::vector<Candidate> candidates;
  for (auto& [v, label] : shape->operands) {
    ValueId at = v;
    Label l = label;
    bool simple = true;
    while (simple) {
      const NodeId def = g_.value(at).def;
      if (g_.IsParam(def) || g_.node(def).op != op::kSmeltView) break;
      Label next;
      simple = ThroughView(def, l, &next);
      if (simple) {
        at = g_.node(def).inputs[0];
        l = std::move(next);
      }
    }
    if (simple) here.insert(v);
    const int p = DefPlace(Root(at));
    if (p < 0 || group_of_[p] < 0) continue;
    if (!simple) {
      Explain(p, i, "it is read through a view that slices or reshapes it");
      continue;
    }
    candidates.push_back({p, at, std::move(l)});
  }
  ForOperands(i, [&](ValueId v) {
    if (!IsTensor(v) || here.contains(v) || (IsRegionOp(N(i)) && v == N(i).inputs[0])) return;
    const int p = DefPlace(Root(v));
    if (p < 0 || group_of_[p] < 0 || GetOpInfo(N(p).op).kind == OpKind::kReduction) return;
    // Only one part of the list is read at each point.
    const std::optional<int64_t> part = Product(*T(v).sizes).Constant();
    const std::optional<int64_t> all = Product(*T(N(i).outputs[0]).sizes).Constant();
    const double share = part && all && *part < *all ? static_cast<double>(*part) / static_cast<double>(*all) : 1;
    elsewhere_[i].push_back({p, share});
  });
  if (!shape->joins) return absl::OkStatus();
  // The value of a region comes before the value under it: it reads that, and would stand between.
  if (N(i).op == op::kSmeltOverlay) {
    if (const int p = DefPlace(Root(N(i).inputs[1])); p >= 0 && group_of_[p] >= 0) Pull(group_of_[p]);
  }
  // A region written after others of the same fresh memory may share their loop.
  if (N(i).op == op::kSmeltWriteRegion) {
    const int p = DefPlace(N(i).inputs[0]);
    if (p >= 0 && group_of_[p] >= 0 && N(p).op == op::kSmeltWriteRegion)
      candidates.push_back({p, N(i).inputs[0], shape->out});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return At(a.producer) > At(b.producer); });
  for (const Candidate& c : candidates) {
    if (group_of_[c.producer] == group_of_[i]) continue;
    std::string reason;
    Join(group_of_[i], group_of_[c.producer], c.value, c.label, i, &reason);
    Explain(c.producer, i, reason);
  }
  return absl::OkStatus();
}

bool BlockFuser::WalksAlone(const Frame& frame) const {
  if (!frame.HasReduction()) return false;
  Expr outer = 1, inner = 1;
  for (size_t d = 0; d < frame.sizes.size(); ++d)
    (frame.reduced[d] ? inner : outer) = (frame.reduced[d] ? inner : outer) * frame.sizes[d];
  // If only a call decides the size, the exported example counts: a longer row is still one tile's work, and right.
  const bool small = inner.Evaluate(g_.symbol_hints).value_or(kRowLimit + 1) <= kRowLimit;
  return outer.IsConstant() && *outer.Constant() < 8 && !small;
}

bool BlockFuser::EndsInReductions(std::vector<int> nodes) const {
  constexpr size_t kMostNodes = 64;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const OpKind kind = GetOpInfo(N(nodes[k]).op).kind;
    const bool is_view = IsTransparent(N(nodes[k]));
    if (k == kMostNodes || (!is_view && kind != OpKind::kPointwise && kind != OpKind::kReduction)) return false;
    for (ValueId o : N(nodes[k]).outputs) {
      const std::optional<int64_t> size = IsTensor(o) ? Product(*T(o).sizes).Constant() : std::nullopt;
      if (size && *size <= kRowLimit) continue;
      for (const Use& u : g_.value(o).uses) {
        const int user = g_.IsReturn(u.user) ? INT_MIN : PlaceOf(u.user);
        if (user == INT_MIN || nodes_[user] != u.user) return false;
        if (std::find(nodes.begin(), nodes.end(), user) == nodes.end()) nodes.push_back(user);
      }
    }
  }
  return true;
}

bool BlockFuser::Join(int a, int b, ValueId v, const Label& expected, int consumer, std::string* reason) {
  Group& ga = groups_[a];
  Group& gb = groups_[b];
  if (!gb.open || !ga.open) {
    *reason = "the producer's kernel is closed (an indexed write or a window)";
    return false;
  }
  if (static_cast<int>(ga.members.size() + gb.members.size()) > options_.max_group_nodes) {
    *reason = "the kernel would grow too large";
    return false;
  }
  // The loops.
  Frame frame = ga.frame;
  std::vector<int> to(gb.frame.sizes.size(), -1);  // b's dims in the frame
  const Label& have = labels_.at(v);
  const bool chain = N(DefPlace(v)).op == op::kSmeltWriteRegion;
  if (chain && N(consumer).op != op::kSmeltWriteRegion) {
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
  if (b_reduces && WalksAlone(frame) && !EndsInReductions(ga.members)) {
    *reason = "a reduction over nearly everything: what follows runs in parallel as a kernel of its own";
    return false;
  }
  if (const Work again = RepeatedWork(a, b); again.cost > kRepeated || again.code > kRepeatedCode) {
    *reason = "it is read at other indices too, and would be computed again for each, which costs more than reading it";
    return false;
  }
  // Finds a place for it.
  int at;
  if (!CanStand(a, b, &at, reason) || !MemoryAllows(a, b, frame.HasReduction(), reason)) return false;
  // Joins them.
  for (int m : gb.members) {
    for (ValueId o : N(m).outputs) {
      auto it = labels_.find(o);
      if (it == labels_.end()) continue;
      for (int& d : it->second) {
        if (d >= 0) d = to[d];
      }
    }
  }
  Absorb(a, b, at);
  ga.frame = std::move(frame);
  *reason = chain ? "regions of one memory written by one loop" : b_reduces ? "one kernel a row" : "the same loop";
  return true;
}

bool BlockFuser::CanStand(int a, int b, int* at, std::string* reason) {
  const int early = groups_[a].at < groups_[b].at ? a : b;
  const int late = early == a ? b : a;
  const int first = groups_[early].at, last = groups_[late].at;
  bool ok = true;
  for (int m : groups_[early].members) {
    for (ValueId o : N(m).outputs) ok = ok && Needed(o, a, b, last) > last;
    if (!ok) break;
    ForOperands(m, [&](ValueId v) {
      if (!IsTensor(v)) return;
      auto it = writers_.find(Root(v));
      if (it == writers_.end()) return;
      for (int w : it->second) {
        if (group_of_[w] == a || group_of_[w] == b) continue;
        const int p = At(w);
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
  for (int m : groups_[late].members) {
    ForOperands(m, [&](ValueId v) {
      const int p = DefPlace(v);
      if (p >= 0 && (group_of_[p] == a || group_of_[p] == b)) return;
      const ValueId root = IsTensor(v) ? Root(v) : v;
      const int q = DefPlace(root);
      const bool is_inside = q >= 0 && (group_of_[q] == a || group_of_[q] == b);
      if ((is_inside ? PlaceReady(v) : Ready(v)) < first) return;
      ok = false;
      obstacle = q;
    });
    ok = ok && SizesReady(N(m)) < first;
    if (!ok) break;
    if (IsRegionOp(N(m))) {
      ForReaders(Root(N(m).inputs[0]), [&](int r) {
        if (group_of_[r] >= 0 && (group_of_[r] == a || group_of_[r] == b)) return;
        const int p = At(r);
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
      obstacle >= 0 ? Describe(obstacle) : "a node", ", between the two, ",
      by_memory ? "reads memory that the consumer's kernel takes over" : "needs the one and is needed by the other");
  return false;
}

ValueId BlockFuser::ChainBase(int w, int a, int b) const {
  while (true) {
    const ValueId base = Root(N(w).inputs[0]);
    const int p = DefPlace(base);
    if (p < 0 || N(p).op != op::kSmeltWriteRegion || (group_of_[p] != a && group_of_[p] != b)) return base;
    w = p;
  }
}

bool BlockFuser::ReadsWhatAnActionWrites(const std::vector<int>& members) const {
  for (int w : members) {
    if (!IsAction(N(w))) continue;
    // A copy of memory that is no longer read is that memory.
    ValueId memory = Root(N(w).inputs[0]);
    if (const int p = DefPlace(memory); p >= 0 && N(p).op == op::kSmeltMaterialize) memory = Root(N(p).inputs[0]);
    for (int m : members) {
      bool reads = false;
      ForOperands(m, [&](ValueId v) { reads = reads || (IsTensor(v) && Root(v) == memory); });
      if (m != w && reads) return true;
    }
  }
  return false;
}

bool BlockFuser::MemoryAllows(int a, int b, bool reduces, std::string* reason) const {
  std::vector<int> writes, members;
  for (int k : {a, b}) {
    for (int m : groups_[k].members) {
      members.push_back(m);
      if (N(m).op == op::kSmeltWriteRegion) writes.push_back(m);
    }
  }
  for (int w : writes) {
    const int p = DefPlace(Root(N(w).inputs[0]));
    if (p < 0 || (group_of_[p] != a && group_of_[p] != b) || N(p).op == op::kSmeltWriteRegion) continue;
    *reason = "it is the memory that a region is written into";
    return false;
  }
  if (!writes.empty()) {
    for (int m : members) {
      bool ok = true;
      const bool is_write = N(m).op == op::kSmeltWriteRegion;
      const ValueId memory = is_write ? N(m).inputs[0] : ValueId();
      ForOperands(m, [&](ValueId v) {
        if (!IsTensor(v)) return;
        const ValueId root = Root(v);
        for (int w : writes) {
          if (root == N(w).outputs[0]) {
            // It must be the next link of a chain of disjoint regions, without other readers.
            const bool link = v == memory && v == root && g_.value(root).uses.size() == 1 &&
                              CompareExtents(ExtentOf(N(m)), ExtentOf(N(w)), g_.symbols) == Overlap::kDisjoint;
            ok = ok && link;
          }
          if (root == Root(N(w).inputs[0]) && v != memory) {
            const Overlap o = CompareExtents(ExtentOf(g_, v), ExtentOf(N(w)), g_.symbols);
            // The elements of a list are chosen by index.
            const bool same =
                o == Overlap::kSame && WritesEachElementOnce(N(w)) && !reduces && absl::c_linear_search(N(m).inputs, v);
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
  if (ReadsWhatAnActionWrites(members)) {
    *reason =
        "the kernel would read memory at other indices than those at which it writes it, all of which is copied then";
    return false;
  }
  // A kernel does not know which of two writes to one element comes last.
  for (int w : writes) {
    for (int x : writes) {
      if (group_of_[w] != a || group_of_[x] != b || ChainBase(w, a, b) != ChainBase(x, a, b)) continue;
      if (CompareExtents(ExtentOf(N(w)), ExtentOf(N(x)), g_.symbols) == Overlap::kDisjoint) continue;
      *reason = "the kernel would write one region twice";
      return false;
    }
  }
  // Operands.
  absl::flat_hash_set<ValueId> operands;
  for (int m : members) {
    ForOperands(m, [&](ValueId v) {
      const int p = DefPlace(IsTensor(v) ? Root(v) : v);
      if (p < 0 || (group_of_[p] != a && group_of_[p] != b)) {
        if (p >= 0 && N(p).op == op::kPrimConstant) return;
        operands.insert(v);
      }
    });
  }
  if (static_cast<int>(operands.size()) > options_.max_group_operands) {
    *reason = "the kernel would have too many operands";
    return false;
  }
  return true;
}

void BlockFuser::Absorb(int a, int b, int at) {
  Group &ga = groups_[a], &gb = groups_[b];
  for (int m : gb.members) group_of_[m] = a;
  std::vector<int> members;
  std::merge(ga.members.begin(), ga.members.end(), gb.members.begin(), gb.members.end(), std::back_inserter(members));
  ga.members = std::move(members);
  ga.at = at;
  ga.pullable = ga.pullable && gb.pullable;
  ga.pulled = ga.pulled || gb.pulled;
  gb = Group();
  gb.open = false;
}

}  // namespace smelt
