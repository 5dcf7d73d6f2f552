// The indices that operators use, and the sizes that they must stay below: what a plan checks before it writes
// anything, where the indices are arguments.
#ifndef SMELT_CODEGEN_INDEX_CHECKS_H_
#define SMELT_CODEGEN_INDEX_CHECKS_H_

#include <string>
#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {

struct IndexUse {
  ValueId index;       // in the graph that was given: a tensor of integers
  Expr limit;          // every element is below
  bool wraps = false;  // and not below -limit; else not below 0
  std::string source;  // of the operator
};

// Finds the operators in the top block, including those in fusion groups. Only indices that are values of the top block
// themselves count, not those that are computed inside a group.
std::vector<IndexUse> FindIndexUses(const Graph& g);

}  // namespace smelt

#endif  // SMELT_CODEGEN_INDEX_CHECKS_H_
