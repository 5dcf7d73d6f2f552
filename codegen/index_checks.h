// The indices that operators use, and the sizes that they must be less than: a plan whose indices are arguments checks
// them before it writes anything.
#ifndef SMELT_CODEGEN_INDEX_CHECKS_H_
#define SMELT_CODEGEN_INDEX_CHECKS_H_

#include <string>
#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {

struct IndexUse {
  ValueId index;       // in the given graph: a tensor of integers
  Expr limit;          // every element is below
  bool wraps = false;  // and is at least -limit; else at least 0
  std::string source;  // of the operator
};

// Finds the operators in the top block, including those in fusion groups. Only indices that are values of the top block
// itself count, not those that are computed inside a group.
std::vector<IndexUse> FindIndexUses(const Graph& g);

}  // namespace smelt

#endif  // SMELT_CODEGEN_INDEX_CHECKS_H_
