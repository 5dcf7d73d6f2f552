// Which operators PyTorch may refuse for what their operands hold: an index out of range, an integer divided by zero, a
// matrix that has no inverse. They run even if nobody reads their results.
#ifndef SMELT_CORE_OP_DATA_REFUSALS_H_
#define SMELT_CORE_OP_DATA_REFUSALS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Of operators that do not write. Indices that nonzero makes, and divisors known not to be zero, are never refused.
// O(arguments).
bool MayRefuseData(const Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DATA_REFUSALS_H_
