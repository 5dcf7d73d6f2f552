// Transposes operands of kernels that reduce rows, if the rows lie across the kernel's loop.
//
//   y = softmax(x.t())          ->  y = softmax(materialize(x.t()))
//   y = softmax(x).t() + 0      ->  y = materialize(softmax(x).t())
//
// A kernel goes along its rows element by element. If the neighbours along a row are far apart in memory, while those
// of other rows are adjacent, an operand or a result costs a cache line per element. A kernel of its own transposes
// such an operand in tiles, before or behind. A result that kernels alone read gets a layout along the rows. If
// everything that a kernel reads and writes has such a layout, it goes across the rows itself, and nothing is done; nor
// is anything done for few elements.
//
// If a kernel that reduces reads along one dim, and only results that kernels alone read lie along another, the results
// get the operands' layout. If they must be transposed, that happens when there are fewer elements.
//
// For all pairs of two operands' rows ((x[:, None] - y[None]).abs().sum(-1)) one operand is transposed, so that the
// kernel goes across its rows.
#ifndef SMELT_FUSER_LAY_ROWS_H_
#define SMELT_FUSER_LAY_ROWS_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/fuser/lowered_groups.h"

namespace smelt {

// After fusion and ChooseLayouts, before the plan is made. Returns the number of transposed operands and results.
// `lowered`, if not null, keeps the kernels for the plan.
absl::StatusOr<int> LayRows(Graph& g, LoweredGroups* lowered);

// "lay-rows". Leaves the kernels that it makes in LoweredGroups.
Pass LayRowsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_LAY_ROWS_H_
