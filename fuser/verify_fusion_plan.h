// Checks of a graph with fusion groups (fuse.h).
#ifndef SMELT_FUSER_VERIFY_FUSION_PLAN_H_
#define SMELT_FUSER_VERIFY_FUSION_PLAN_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Checks that every smelt::FusionGroup fits its subgraph, is pure, has a kernel, and does not read memory that it
// writes at other indices.
absl::Status VerifyFusionPlan(const Graph& g);
// Counts over the whole graph the memories that are read after a region write has taken them over (a plan copies those
// first). Fusing may not add to them.
int CountLateReads(const Graph& g);
// Checks both; `late_reads` is the number before fusing.
absl::Status VerifyFusionPlan(const Graph& g, int late_reads);

}  // namespace smelt

#endif  // SMELT_FUSER_VERIFY_FUSION_PLAN_H_
