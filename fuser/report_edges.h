// Explains in words why an edge was fused or not. Internal to the fuser.
#ifndef SMELT_FUSER_REPORT_EDGES_H_
#define SMELT_FUSER_REPORT_EDGES_H_

#include "absl/strings/string_view.h"
#include "smelt/fuser/block_groups.h"

namespace smelt {

// Reports each edge between two nodes that are not just views, numbers or lists, once, in the order of consumers.
void ReportEdges(BlockGroups& block);

// Reports that two groups are not one after all, or that one is no group.
void ReportSplit(BlockGroups& block, int from, int to, absl::string_view why);

}  // namespace smelt

#endif  // SMELT_FUSER_REPORT_EDGES_H_
