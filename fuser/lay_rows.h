// Rows that a kernel reduces, and that lie across its loop.
//
//   y = softmax(x.t())          ->  y = softmax(materialize(x.t()))
//   y = softmax(x).t() + 0      ->  y = materialize(softmax(x).t())
//
// A kernel goes along its rows element by element. An operand or a result whose neighbours along the row are far apart
// in memory, while those of other rows lie beside it, costs a cache line an element. A kernel of its own transposes
// such a one in tiles, before or behind; a result that kernels alone read simply lies along the rows. Where all that a
// kernel reads and writes lies like that, it goes across the rows itself, and nothing is done; nor for few elements.
//
// Where a kernel that reduces reads along one dim and only results that kernels alone read lie along another, the
// results lie as what is read: where they are transposed, they are so when they are less.
//
// Of all pairs of two operands' rows ((x[:, None] - y[None]).abs().sum(-1)) one operand is transposed, so that the
// kernel goes across its rows.
#ifndef SMELT_FUSER_LAY_ROWS_H_
#define SMELT_FUSER_LAY_ROWS_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/fuser/lowered_groups.h"

namespace smelt {

// After fusion and ChooseLayouts, before the plan is made. Returns how many operands and results are transposed.
// `lowered`, if not null, keeps the kernels for the plan.
absl::StatusOr<int> LayRows(Graph& g, LoweredGroups* lowered);

// "lay-rows". Leaves the kernels that it makes in LoweredGroups.
Pass LayRowsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_LAY_ROWS_H_
