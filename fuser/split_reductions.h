// Splits reductions over dims of which the innermost in memory is short.
//
//   the mean over 4 channels and all pixels of a group, channels innermost:
//   mean(x, [c, h, w])    ->  mean(mean(x, [h, w]), [c])
//
// A vector along so short a dim is mostly empty. Over the other dims alone, the channels of all groups are adjacent in
// the vectors, and the rest of the reduction is very small. For means and sums only, and not for half precision, whose
// parts would be rounded.
#ifndef SMELT_FUSER_SPLIT_REDUCTIONS_H_
#define SMELT_FUSER_SPLIT_REDUCTIONS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Runs on a graph after ExpandComposites. Returns the number of reductions that were split in two.
int SplitReductions(Graph& g);

// "split-reductions".
Pass SplitReductionsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_SPLIT_REDUCTIONS_H_
