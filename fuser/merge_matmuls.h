// Joins matmuls with the same right operand.
//
// An unrolled recurrence multiplies x[0], x[1], ... by one weight. Their rows lie one after the other in x, so that one
// matmul over some of them gives the same rows, and each step sees its own rows through a view.
//
// Applies to aten::mm and aten::addmm (factors 1, a bias that is the same for each row) whose left operands are views
// of one value that follow each other without gaps, until 128 rows are together: a matmul of that many runs at full
// speed, and its result is still in a cache when it is read. Linear in the number of nodes.
#ifndef SMELT_FUSER_MERGE_MATMULS_H_
#define SMELT_FUSER_MERGE_MATMULS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Returns the number of removed matmuls.
int MergeMatmuls(Graph& g);

// The number of matmuls that the pass removed.
struct MergedMatmuls {
  int count = 0;
};
// "merge-matmuls". Leaves MergedMatmuls.
Pass MergeMatmulsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_MERGE_MATMULS_H_
