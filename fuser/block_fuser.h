// Fusion of one block and of the blocks inside it (fuse.h): nodes are visited in order, and each joins the groups of its
// operands, or begins a group (join_groups.h). Then groups are joined to their readers (pull_groups.h) and to each other
// (join_siblings.h), and become nodes (emit_groups.h). Internal to the fuser.
#ifndef SMELT_FUSER_BLOCK_FUSER_H_
#define SMELT_FUSER_BLOCK_FUSER_H_

#include "absl/status/status.h"
#include "smelt/fuser/block_groups.h"

namespace smelt {

absl::Status FuseBlock(Graph& g, BlockId b, const FuseOptions& options, FusionReport& report, NodePlaces& places);

}  // namespace smelt

#endif  // SMELT_FUSER_BLOCK_FUSER_H_
