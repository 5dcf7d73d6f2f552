// Reductions over dims of which the innermost in memory is a short one.
//
//   the mean over 4 channels and all pixels of a group, channels innermost:
//     mean(x, [c, h, w])    ->  mean(mean(x, [h, w]), [c])
//
// A vector along so short a dim is mostly empty. Over the other dims alone, all groups' channels lie side by side in
// the vectors, and what is left to reduce is next to nothing. Means and sums only.
#ifndef SMELT_FUSER_SPLIT_REDUCTIONS_H_
#define SMELT_FUSER_SPLIT_REDUCTIONS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Of a graph after ExpandComposites. Returns how many reductions are two now.
int SplitReductions(Graph& g);

// "split-reductions".
Pass SplitReductionsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_SPLIT_REDUCTIONS_H_
