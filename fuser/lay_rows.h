// Transposes operands of kernels that reduce rows, if the rows run across the kernel's loop in memory.
//
//   y = softmax(x.t())          ->  y = softmax(materialize(x.t()))
//   y = softmax(x).t() + 0      ->  y = materialize(softmax(x).t())
//
// A kernel processes its rows element by element. If the elements of a row are far apart in memory, while those of
// other rows are adjacent, an operand or a result costs a cache line per element. A kernel for a CPU transposes such an
// operand itself, some rows at a time (row_tiles.h). If the rows are too long for that, or the kernel is for another
// device, too, a separate kernel transposes the operand in tiles, before or after. A result that only kernels read gets a
// layout along the rows. If everything that a kernel reads and writes has such a layout, it vectorizes across the rows,
// and nothing is done; nor is anything done for few elements.
//
// If a kernel that reduces reads along one dim, and only results that only kernels read are laid out along another, the
// results get the operands' layout. If they must be transposed, that happens where there are fewer elements.
//
// For all pairs of two operands' rows ((x[:, None] - y[None]).abs().sum(-1)) one operand is transposed, so that the
// kernel vectorizes across its rows.
#ifndef SMELT_FUSER_LAY_ROWS_H_
#define SMELT_FUSER_LAY_ROWS_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/fuser/lowered_groups.h"

namespace smelt {

struct LayRowsOptions {
  bool in_kernels = false;  // where they have room: all targets are CPUs
};

// Runs after fusion and ChooseLayouts, before the plan is made. Returns the number of transposed operands and results.
// `lowered`, if not null, keeps the kernels for the plan.
absl::StatusOr<int> LayRows(Graph& g, const LayRowsOptions& options, LoweredGroups* lowered);

// "lay-rows". Leaves the kernels that it makes in LoweredGroups.
Pass LayRowsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_LAY_ROWS_H_
