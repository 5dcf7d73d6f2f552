// The operators that PyTorch may refuse because of their operands' contents: an index out of range, an integer divided
// by zero, a singular matrix. They run even if nothing reads their results.
#ifndef SMELT_CORE_OP_DATA_REFUSALS_H_
#define SMELT_CORE_OP_DATA_REFUSALS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// For operators that do not write. Indices that nonzero makes, and divisors known to be nonzero, are never refused.
// Takes O(arguments).
bool MayRefuseData(const Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DATA_REFUSALS_H_
