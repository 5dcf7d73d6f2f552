#include "smelt/fuser/report_edges.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/op/traits.h"
#include "smelt/fuser/fused_nodes.h"

namespace smelt {
namespace {

// Returns whether the operator becomes a "matmul" or a "convolution" (codegen/plan_kernels.cc).
bool MayHaveEpilogue(OpName op) {
  const LibraryCall call = GetOpTraits(op).library;
  return call == LibraryCall::kMatmul || call == LibraryCall::kMatmulWithBias || call == LibraryCall::kConvolution;
}

// Returns the reason for an edge that no step of the pass considered.
std::string DefaultReason(const BlockGroups& block, int p, int i, bool fused) {
  if (fused) return "already in one kernel by another edge";
  if (IsLeaf(block.N(p))) return "a constant fill: a kernel that needs it makes it itself";
  if (IsAllocation(block.N(p))) return "memory without contents";
  if (block.group_of[i] < 0) return "the consumer is a library call, a random draw or control flow";
  if (block.group_of[p] < 0 && MayHaveEpilogue(block.N(p).op))
    return "the producer is a library call; where the two go by the same elements, the kernel is its epilogue";
  if (block.group_of[p] < 0) return "the producer is a library call, a random draw or control flow";
  if (IsRegionOp(block.N(i)) &&
      StorageOf(block.graph, block.N(i).inputs[0]) == StorageOf(block.graph, block.N(p).outputs[0]))
    return "it is the memory that a region is written into";
  if (!block.groups[block.group_of[p]].pullable)
    return "it is read at other indices than it is made, and a reduction or a write is made once";
  return "it is read at other indices than it is made";
}

}  // namespace

void ReportEdges(BlockGroups& block) {
  if (!block.options.explain) return;
  for (int i = 0; i < static_cast<int>(block.nodes.size()); ++i) {
    if (IsTransparent(block.N(i)) || IsAllocation(block.N(i))) continue;
    absl::flat_hash_set<int> seen;
    block.ForOperands(i, [&](ValueId v) {
      const int p = block.IsTensor(v) ? block.DefPlace(StorageOf(block.graph, v)) : kBefore;
      if (p < 0 || IsTransparent(block.N(p)) || !seen.insert(p).second) return;
      const bool fused = block.group_of[p] >= 0 && block.group_of[p] == block.group_of[i];
      auto it = block.reasons.find({p, i});
      std::string reason = it != block.reasons.end() ? it->second : DefaultReason(block, p, i, fused);
      block.edge_ends.push_back({p, i});
      block.report.edges.push_back({block.Describe(p), block.Describe(i), fused, std::move(reason)});
    });
  }
}

void ReportSplit(BlockGroups& block, int from, int to, absl::string_view why) {
  for (size_t e = 0; e < block.edge_ends.size(); ++e) {
    const auto [producer, consumer] = block.edge_ends[e];
    FusionEdge& edge = block.report.edges[block.first_edge + e];
    if (!edge.fused || block.group_of[producer] != from || block.group_of[consumer] != to) continue;
    edge.fused = false;
    edge.reason = std::string(why);
  }
}

}  // namespace smelt
