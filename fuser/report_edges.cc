// Explains in words why an edge was fused or not.
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/traits.h"
#include "smelt/fuser/block_fuser.h"

namespace smelt {
namespace {

// Returns whether the operator becomes a "matmul" or a "convolution" (codegen/plan_kernels.cc).
bool MayHaveEpilogue(OpName op) {
  const LibraryCall call = GetOpTraits(op).library;
  return call == LibraryCall::kMatmul || call == LibraryCall::kMatmulWithBias || call == LibraryCall::kConvolution;
}

}  // namespace

std::string BlockFuser::Describe(int i) const {
  return absl::StrCat(N(i).op.full(), " %", N(i).outputs.empty() ? "" : g_.value(N(i).outputs[0]).name);
}

void BlockFuser::Explain(int producer, int consumer, absl::string_view reason) {
  if (options_.explain) reasons_[{producer, consumer}] = std::string(reason);
}

void BlockFuser::ReportEdges() {
  if (!options_.explain) return;
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    if (IsTransparent(N(i)) || IsAllocation(N(i))) continue;
    absl::flat_hash_set<int> seen;
    ForOperands(i, [&](ValueId v) {
      const int p = IsTensor(v) ? DefPlace(Root(v)) : kBefore;
      if (p < 0 || IsTransparent(N(p)) || !seen.insert(p).second) return;
      const bool fused = group_of_[p] >= 0 && group_of_[p] == group_of_[i];
      auto it = reasons_.find({p, i});
      std::string reason = it != reasons_.end() ? it->second : DefaultReason(p, i, fused);
      edge_ends_.push_back({p, i});
      report_.edges.push_back({Describe(p), Describe(i), fused, std::move(reason)});
    });
  }
}

std::string BlockFuser::DefaultReason(int p, int i, bool fused) const {
  if (fused) return "already in one kernel by another edge";
  if (IsLeaf(N(p))) return "a constant fill: a kernel that needs it makes it itself";
  if (IsAllocation(N(p))) return "memory without contents";
  if (group_of_[i] < 0) return "the consumer is a library call, a random draw or control flow";
  if (group_of_[p] < 0 && MayHaveEpilogue(N(p).op))
    return "the producer is a library call; where the two go by the same elements, the kernel is its epilogue";
  if (group_of_[p] < 0) return "the producer is a library call, a random draw or control flow";
  if (IsRegionOp(N(i)) && Root(N(i).inputs[0]) == Root(N(p).outputs[0]))
    return "it is the memory that a region is written into";
  if (!groups_[group_of_[p]].pullable)
    return "it is read at other indices than it is made, and a reduction or a write is made once";
  return "it is read at other indices than it is made";
}

void BlockFuser::ReportSplit(int from, int to, absl::string_view why) {
  for (size_t e = 0; e < edge_ends_.size(); ++e) {
    const auto [producer, consumer] = edge_ends_[e];
    FusionEdge& edge = report_.edges[first_edge_ + e];
    if (!edge.fused || group_of_[producer] != from || group_of_[consumer] != to) continue;
    edge.fused = false;
    edge.reason = std::string(why);
  }
}

}  // namespace smelt
