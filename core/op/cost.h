// The arithmetic of an operator per element of its result, for decisions on whether to compute a value again or to
// store it.
#ifndef SMELT_CORE_OP_COST_H_
#define SMELT_CORE_OP_COST_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/op/scalar.h"

namespace smelt {

// Returns the cost of one evaluation, in additions, rounded up; at least 1. Conversions between dtypes and operations on
// booleans cost nothing beside other instructions.
int CostOf(const ScalarFn& fn);

// Returns the cost of one element of the node's first result, in additions: the sum over its scalar program for a
// pointwise operator, 0 for copies and for contents that are known without memory, a small number for index arithmetic.
int CostOf(const Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_CORE_OP_COST_H_
