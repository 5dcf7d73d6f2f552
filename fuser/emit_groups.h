// Turns groups of nodes into nodes that hold them. Internal to the fuser.
#ifndef SMELT_FUSER_EMIT_GROUPS_H_
#define SMELT_FUSER_EMIT_GROUPS_H_

#include "absl/status/status.h"
#include "smelt/fuser/block_groups.h"

namespace smelt {

absl::Status EmitGroups(BlockGroups& block);

}  // namespace smelt

#endif  // SMELT_FUSER_EMIT_GROUPS_H_
