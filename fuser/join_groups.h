// Decides whether two groups become one kernel: by their loops, their order and their memory. Internal to the fuser.
#ifndef SMELT_FUSER_JOIN_GROUPS_H_
#define SMELT_FUSER_JOIN_GROUPS_H_

#include <string>

#include "smelt/fuser/block_groups.h"

namespace smelt {

// Group a reads group b's value `v` at `expected`. Makes b part of a if the loop, the order and the memory allow it.
bool JoinGroup(BlockGroups& block, int a, int b, ValueId v, const Label& expected, int consumer, std::string* reason);

// Returns whether a and b can be one node, and at which position: either at the later one's, if nothing between needs
// the earlier one's results and no memory that it reads is taken over in between; or at the earlier one's, if all
// operands are ready.
bool CanStand(const BlockGroups& block, int a, int b, int* at, std::string* reason);

// Returns whether memory permits the join: a kernel may write a region and read the same memory at the same index, or
// elsewhere, but it must not read what it has written.
bool MemoryAllows(const BlockGroups& block, int a, int b, bool reduces, std::string* reason);

// Returns whether few tiles traverse a large array, which they should not do twice.
bool WalksAlone(const BlockGroups& block, const Frame& frame);

}  // namespace smelt

#endif  // SMELT_FUSER_JOIN_GROUPS_H_
