#include "smelt/fuser/block_fuser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/emit_groups.h"
#include "smelt/fuser/join_groups.h"
#include "smelt/fuser/join_siblings.h"
#include "smelt/fuser/pull_groups.h"

namespace smelt {
namespace {

// Forms the group of a node, and joins it to those of its operands. The candidates are collected first and joined
// afterwards, because a join changes what is known of the others.
absl::Status Visit(BlockGroups& block, int i) {
  const NodeId n = block.nodes[i];
  const std::vector<BlockId> blocks(block.graph.node(n).blocks.begin(), block.graph.node(n).blocks.end());
  for (BlockId b : blocks) {
    SMELT_RETURN_IF_ERROR(FuseBlock(block.graph, b, block.options, block.report, block.places));
  }
  std::optional<Shape> shape = ShapeOf(block.graph, block.nodes[i]);
  if (!shape) {
    return absl::OkStatus();
  }
  const int own = static_cast<int>(block.groups.size());
  Group fresh;
  fresh.members = {i};
  fresh.at = i;
  fresh.frame = shape->frame;
  fresh.pullable = shape->any_index;
  fresh.open = shape->joins;
  block.groups.push_back(std::move(fresh));
  block.group_of[i] = own;
  for (ValueId v : block.N(i).outputs) block.labels[v] = shape->out;
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
      const NodeId view = ViewNodeOf(block.graph, at);
      if (!view.valid()) break;
      Label next;
      simple = ThroughView(block.graph, view, l, &next);
      if (simple) {
        at = block.graph.node(view).inputs[0];
        l = std::move(next);
      }
    }
    if (simple) here.insert(v);
    const int p = block.DefPlace(StorageOf(block.graph, at));
    if (p < 0 || block.group_of[p] < 0) continue;
    if (!simple) {
      block.Explain(p, i, "it is read through a view that slices or reshapes it");
      continue;
    }
    candidates.push_back({p, at, std::move(l)});
  }
  block.ForOperands(i, [&](ValueId v) {
    if (!block.IsTensor(v) || here.contains(v) || (IsRegionOp(block.N(i)) && v == block.N(i).inputs[0])) return;
    const int p = block.DefPlace(StorageOf(block.graph, v));
    if (p < 0 || block.group_of[p] < 0 || GetOpInfo(block.N(p).op).kind == OpKind::kReduction) return;
    // Only one part of the list is read at each point.
    const std::optional<int64_t> part = Product(*block.T(v).sizes).Constant();
    const std::optional<int64_t> all = Product(*block.T(block.N(i).outputs[0]).sizes).Constant();
    const double share = part && all && *part < *all ? static_cast<double>(*part) / static_cast<double>(*all) : 1;
    block.elsewhere[i].push_back({p, share});
  });
  if (!shape->joins) return absl::OkStatus();
  // The value of a region comes before the value under it: it reads that, and would stand between.
  if (block.N(i).op == op::kSmeltOverlay) {
    if (const int p = block.DefPlace(StorageOf(block.graph, block.N(i).inputs[1])); p >= 0 && block.group_of[p] >= 0)
      PullGroup(block, block.group_of[p]);
  }
  // A region written after others of the same fresh memory may share their loop.
  if (block.N(i).op == op::kSmeltWriteRegion) {
    const int p = block.DefPlace(block.N(i).inputs[0]);
    if (p >= 0 && block.group_of[p] >= 0 && block.N(p).op == op::kSmeltWriteRegion)
      candidates.push_back({p, block.N(i).inputs[0], shape->out});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return block.At(a.producer) > block.At(b.producer); });
  for (const Candidate& c : candidates) {
    if (block.group_of[c.producer] == block.group_of[i]) continue;
    std::string reason;
    JoinGroup(block, block.group_of[i], block.group_of[c.producer], c.value, c.label, i, &reason);
    block.Explain(c.producer, i, reason);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FuseBlock(Graph& g, BlockId b, const FuseOptions& options, FusionReport& report, NodePlaces& places) {
  BlockGroups block(g, b, options, report, places);
  for (int i = 0; i < static_cast<int>(block.nodes.size()); ++i) SMELT_RETURN_IF_ERROR(Visit(block, i));
  for (int k = 0; k < static_cast<int>(block.groups.size()); ++k) PullGroup(block, k);
  JoinSiblings(block);
  return EmitGroups(block);
}

}  // namespace smelt
