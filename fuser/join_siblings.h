// Joins groups that read one operand over one loop and nothing of each other: one kernel with several results, which
// reads the operand once. Internal to the fuser.
#ifndef SMELT_FUSER_JOIN_SIBLINGS_H_
#define SMELT_FUSER_JOIN_SIBLINGS_H_

#include "smelt/fuser/block_groups.h"

namespace smelt {

void JoinSiblings(BlockGroups& block);

}  // namespace smelt

#endif  // SMELT_FUSER_JOIN_SIBLINGS_H_
