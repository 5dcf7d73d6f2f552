#include "smelt/fuser/pull_groups.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "smelt/core/op/cost.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/join_groups.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

// A launch takes as long as so many additions: with few launches less than that may be repeated in all.
constexpr int kLaunchCost = 1 << 13;

// Returns whether the rows of a view begin anywhere in its base's: each element would have to compute its own place.
bool CutsAcrossRows(const Graph& g, const Node& view) {
  if (view.op != op::kSmeltView) return false;
  const std::vector<Expr>& sizes = *g.value(view.inputs[0]).type.tensor().sizes;
  const std::optional<int64_t> row = sizes.empty() ? std::nullopt : sizes.back().Constant();
  if (!row || *row < 2) return false;
  const SymbolicGeometry shown = RegionGeometry(view);
  const std::optional<int64_t> offset = shown.offset.Constant();
  if (!offset) return false;
  int64_t reach = *offset % *row;
  bool uneven = false;
  for (size_t d = 0; d < shown.sizes.size(); ++d) {
    const std::optional<int64_t> size = shown.sizes[d].Constant(), stride = shown.strides[d].Constant();
    if (!size || !stride) return false;
    if (*size < 2 || *stride < 1 || *stride % *row == 0) continue;
    int64_t length;
    if (__builtin_mul_overflow(*size - 1, *stride, &length) || __builtin_add_overflow(reach, length, &reach))
      return false;
    uneven = uneven || *row % *stride != 0;
  }
  return uneven && reach >= *row;
}

Expr Evaluations(const BlockGroups& block, ValueId v, int i, const Frame& frame) {
  Expr rows = 1, points = 1;
  for (size_t d = 0; d < frame.sizes.size(); ++d) {
    points = points * frame.sizes[d];
    if (!frame.reduced[d]) rows = rows * frame.sizes[d];
  }
  auto label = block.labels.find(block.N(i).outputs[0]);
  if (label == block.labels.end() || GetOpInfo(block.N(i).op).kind != OpKind::kPointwise) return points;
  // The consumer itself may run over fewer dims than its kernel.
  bool reduced = false;
  for (int d : label->second) reduced = reduced || (d >= 0 && frame.reduced[d]);
  if (!reduced) return rows;
  if (!block.IsTensor(v)) return rows;
  const std::vector<Expr>& own = *block.T(v).sizes;
  if (std::find(block.N(i).inputs.begin(), block.N(i).inputs.end(), v) == block.N(i).inputs.end()) return points;
  const size_t lead = label->second.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d) {
    const int at = label->second[lead + d];
    if (own[d] != Expr(1) && at >= 0 && frame.reduced[at]) return points;
  }
  return rows;
}

}  // namespace

Work RepeatedWork(const BlockGroups& block, int a, int b) {
  const auto inside = [&](int p) {
    return p >= 0 && block.group_of[p] >= 0 && (block.group_of[p] == a || block.group_of[p] == b);
  };
  std::vector<std::pair<int, double>> reads;  // producer, share
  for (int k : {a, b}) {
    for (int m : block.groups[k].members) {
      const auto it = block.elsewhere.find(m);
      if (it == block.elsewhere.end()) continue;
      for (const auto& read : it->second) {
        if (inside(read.first)) reads.push_back(read);
      }
    }
  }
  // Producers come first: then a producer that is taken holds the values that it reads elsewhere itself.
  std::sort(reads.begin(), reads.end());
  absl::flat_hash_map<int, Work> known;
  const auto work_of = [&](int p) {
    if (const auto it = known.find(p); it != known.end()) return it->second;
    Work work;
    absl::flat_hash_set<int> seen = {p};
    std::vector<int> todo = {p};
    while (!todo.empty()) {
      const int m = todo.back();
      todo.pop_back();
      work.cost += block.CostOf(m);
      work.code += IsLeaf(block.N(m)) ? 0 : 1;
      absl::flat_hash_set<int> not_here;
      if (const auto it = block.elsewhere.find(m); it != block.elsewhere.end()) {
        for (auto [q, share] : it->second) {
          not_here.insert(q);
          if (const auto more = known.find(q); more != known.end()) {
            work.cost += share * more->second.cost;
            work.code += more->second.code;
          }
        }
      }
      block.ForOperands(m, [&](ValueId v) {
        const int q = block.DefPlace(block.IsTensor(v) ? StorageOf(block.graph, v) : v);
        if (inside(q) && !not_here.contains(q) && seen.insert(q).second) todo.push_back(q);
      });
    }
    return known[p] = work;
  };
  Work sum;
  for (auto [p, share] : reads) {
    const Work work = work_of(p);
    sum.cost += share * work.cost;
    sum.code += work.code;
  }
  return sum;
}

// A list of questions, each of which leaves the group where it is and notes the reason. Nothing changes before the
// last of them is answered, so they stand together.
void PullGroup(BlockGroups& block, int k) {
  if (block.groups[k].members.empty() || !block.groups[k].pullable) return;
  int into = -1;
  absl::string_view obstacle;
  Expr evaluations = 0, elements = 0;
  bool ok = true;
  std::vector<std::pair<int, int>> edges;
  auto visit = [&](auto&& self, int producer, ValueId v) -> void {
    for (const Use& u : block.graph.value(v).uses) {
      if (!ok) return;
      const int i = block.graph.IsReturn(u.user) ? INT_MIN : block.PlaceOf(u.user);
      if (i == INT_MIN || block.nodes[i] != u.user) {
        obstacle = "its result leaves the block, so it is stored anyway";
        ok = false;
        return;
      }
      if (IsTransparent(block.N(i))) {
        if (CutsAcrossRows(block.graph, block.N(i))) {
          obstacle = "it is read through a view whose rows begin anywhere in its own";
          ok = false;
          return;
        }
        for (ValueId o : block.N(i).outputs) self(self, producer, o);
        continue;
      }
      const int g = block.group_of[i];
      if (g == k) continue;
      edges.push_back({producer, i});
      if (g < 0 || (into >= 0 && g != into) || (IsRegionOp(block.N(i)) && u.index == 0)) {
        obstacle = g < 0 ? "a library call, a random draw or control flow reads it too, so it is stored anyway"
                   : g != into && into >= 0 ? "several kernels read it, so it is stored once"
                                            : "it is the memory that a region is written into";
        ok = false;
        return;
      }
      into = g;
      Expr count = block.IsTensor(v) ? Product(*block.T(v).sizes) : Expr(1);
      if (!IsAction(block.N(i)) && block.IsTensor(block.N(i).outputs[0]) && block.groups[g].open) {
        const Expr points = Evaluations(block, v, i, block.groups[g].frame);
        const std::optional<bool> fewer = block.graph.symbols.Less(count, points);
        if (!fewer || *fewer) count = points;
      }
      evaluations = evaluations + count;
    }
  };
  int cost = 0;
  for (int m : block.groups[k].members) {
    cost += block.CostOf(m);
    for (ValueId o : block.N(m).outputs) {
      const bool outside = block.Needed(o, k, k, kNever - 1) != kNever;
      visit(visit, m, o);
      if (outside) elements = elements + Product(*block.T(o).sizes);
    }
  }
  auto explain = [&](absl::string_view why) {
    for (auto [p, c] : edges) block.Explain(p, c, why);
  };
  if (!ok) return explain(obstacle);
  if (into < 0 || into == k) return;
  Group& target = block.groups[into];
  if (static_cast<int>(target.members.size() + block.groups[k].members.size()) > block.options.max_group_nodes)
    return explain("the kernel would grow too large");
  if (target.at <= block.groups[k].at) return explain("the consumer's kernel stands before it");
  std::string reason;
  const std::optional<bool> once = block.graph.symbols.LessOrEqual(evaluations, elements);
  const bool free = cost <= kFree && elements != Expr(0);
  // In the example that the hints describe: more elements take longer, and are right.
  const absl::StatusOr<int64_t> times = evaluations.Evaluate(block.graph.symbol_hints);
  const auto is_cheaper_than_a_launch = [&](double per_element) {
    return block.options.few_launches && times.ok() && static_cast<double>(*times) * per_element <= kLaunchCost;
  };
  if (!(once && *once) && !free && !is_cheaper_than_a_launch(cost))
    return explain("it would be computed again for each use, which costs more than reading it");
  // A cheap value is no longer cheap in the chain of others that are computed again.
  const Work again = RepeatedWork(block, into, k);
  const bool repeats_much = again.cost > kRepeated && !is_cheaper_than_a_launch(again.cost);
  if (again.code > kRepeatedCode || (!(once && *once) && repeats_much))
    return explain("it would be computed again for each use of what reads it, which costs more than reading it");
  // They must stand at the consumer's place, before which no memory that they read is taken over.
  for (int m : block.groups[k].members) {
    block.ForOperands(m, [&](ValueId v) {
      if (!block.IsTensor(v)) return;
      auto it = block.writers.find(StorageOf(block.graph, v));
      if (it == block.writers.end()) return;
      for (int w : it->second) {
        const int p = block.At(w);
        if (block.group_of[w] != into && p > block.groups[k].at && p < target.at) ok = false;
      }
    });
  }
  if (!ok) return explain("memory that it reads is taken over before the consumer runs");
  // Their reads are then at other indices than their writes.
  if (!MemoryAllows(block, into, k, true, &reason)) return explain(reason);
  // They are computed at other indices than the loop's.
  for (int m : block.groups[k].members) {
    for (ValueId o : block.N(m).outputs) block.labels.erase(o);
  }
  block.Absorb(into, k, target.at);
  target.pulled = true;
  explain("computed where it is read");
}

}  // namespace smelt
