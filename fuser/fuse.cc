#include "smelt/fuser/fuse.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/alias/alias_pass.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/pass/written_inputs.h"
#include "smelt/fuser/block_fuser.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/verify_fusion_plan.h"

namespace smelt {

absl::StatusOr<FusionReport> FormGroups(Graph& g, const FuseOptions& options) {
  FusionReport report;
  NodePlaces places;
  SMELT_RETURN_IF_ERROR(FuseBlock(g, g.top(), options, report, places));
  return report;
}

int EraseSpentNodes(Graph& g) {
  int erased = 0;
  std::vector<NodeId> nodes = g.AllNodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& n = g.node(*it);
    if (!IsTransparent(n) && !IsLeaf(n) && !IsAllocation(n)) continue;
    if (absl::c_any_of(n.outputs, [&](ValueId v) { return !g.value(v).uses.empty(); })) continue;
    g.Erase(*it);
    ++erased;
  }
  return erased;
}

Pass FusePass() {
  return {.name = "fuse",
          .description = "forms groups that are one kernel each (--explain says of each edge why it fused or did not)",
          .prerequisites = {"build-alias-db", "expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            FuseOptions options = context.Get<FuseOptions>();
            if (options.alias_db == nullptr) options.alias_db = LiveAliasDb(context);
            options.lowered = &context.Get<LoweredGroups>();
            options.written_inputs = context.Get<WrittenInputs>().values;
            const int late_reads = options.verify ? CountLateReads(g) : 0;
            const EditCounter edits(g);
            SMELT_ASSIGN_OR_RETURN(context.Get<FusionReport>(), FormGroups(g, options));
            EraseSpentNodes(g);
            if (options.verify) SMELT_RETURN_IF_ERROR(VerifyFusionPlan(g, late_reads));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
