// Handles calls with fewer rows than an export assumes. An export assumes that a dynamic size is at least 2, but
// PyTorch runs its program for 1 (and 0, if the model's author allowed it) nevertheless. The archive then states sizes
// that do not hold in such a call: 2 for `a[:2]`, which has 1 row in a call with one row.
#ifndef SMELT_FRONTEND_SMALL_SIZES_H_
#define SMELT_FRONTEND_SMALL_SIZES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Gives values the sizes that inference finds, if these equal the stated ones except in small calls: min(n, 2) for 2.
// Simplifies all sizes by the ranges. Symbols then no longer accept (SymbolRanges::Range::accepted_min) values for
// which some operator makes other sizes of its operands than its type says, or refuses them, or for which a size is not
// 1 that is 1 in all other calls. Costs inference of all nodes, at most three times per symbol.
void ReconcileSmallSizes(Graph& g);

// Returns Unimplemented, with node and sizes, if an elementwise operator broadcasts a dim whose size is 1 in the
// example but depends on a symbol: n - 3 with n, exported with n = 4.
absl::Status CheckBroadcasts(const Graph& g);

}  // namespace smelt

#endif  // SMELT_FRONTEND_SMALL_SIZES_H_
