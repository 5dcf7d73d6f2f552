// Calls of fewer rows than an export reasons about: it takes a dynamic size to be at least 2, and PyTorch runs its
// program for 1 (and 0, where the model's author allowed it) all the same. Its archive then states sizes that do not
// hold there: of `a[:2]` it says 2, of a call of one row it is 1.
#ifndef SMELT_FRONTEND_SMALL_SIZES_H_
#define SMELT_FRONTEND_SMALL_SIZES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Gives values the sizes that inference finds where these are those stated, but for small calls: min(n, 2) for 2, and
// simplifies all by the ranges. Then symbols no longer accept (SymbolRanges::Range::accepted_min) the values at which
// some operator makes other sizes of its operands than its type says, or refuses them, or where a size is no longer
// 1 that is 1 in all other calls. Costs inference of all nodes, at most three times a symbol.
void ReconcileSmallSizes(Graph& g);

// Unimplemented, naming node and sizes, where an elementwise operator broadcasts a dim whose size is 1 in the example
// and hangs on a symbol: n - 3 beside n, exported with n = 4.
absl::Status CheckBroadcasts(const Graph& g);

}  // namespace smelt

#endif  // SMELT_FRONTEND_SMALL_SIZES_H_
