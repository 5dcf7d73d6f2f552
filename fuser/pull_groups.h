// Groups that every reader computes again instead of reading stored results. Internal to the fuser.
#ifndef SMELT_FUSER_PULL_GROUPS_H_
#define SMELT_FUSER_PULL_GROUPS_H_

#include "smelt/fuser/block_groups.h"

namespace smelt {

inline constexpr int kFree = 2;            // arithmetic that may be repeated rather than stored and read
inline constexpr int kRepeated = 64;       // the same per element, in all of a kernel's loop
inline constexpr int kRepeatedCode = 256;  // nodes whose code is repeated for that

// The work that a joined group would repeat because members read others at indices other than the loop's. It doubles at
// each step of a chain that reads the previous step at two indices.
struct Work {
  double cost = 0;  // per element, in additions
  double code = 0;  // in nodes: each part of a list has its own code, regardless of its share of the elements
  bool IsTooMuch() const { return cost > kRepeated || code > kRepeatedCode; }
};
Work RepeatedWork(const BlockGroups& block, int a, int b);

// Joins group k to the only group that reads its results, even if that reads slices, reshapes or broadcasts of them,
// provided that this repeats no computation, or only computations that are cheaper than reading the result.
void PullGroup(BlockGroups& block, int k);

}  // namespace smelt

#endif  // SMELT_FUSER_PULL_GROUPS_H_
