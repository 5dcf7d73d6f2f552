#include "smelt/fuser/fuse.h"

#include "smelt/fuser/lower_group.h"

namespace smelt {

absl::StatusOr<FusionReport> Fuse(Graph& g, const FuseOptions&) {
  FusionReport report;
  for (NodeId n : g.AllNodes()) report.single_kernels += IsKernelNode(g, n);
  return report;
}

absl::Status VerifyFusionPlan(const Graph&) { return absl::OkStatus(); }

}  // namespace smelt
