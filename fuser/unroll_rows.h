// Rows of two to four numbers: points, colors, boxes. They fill no vector, so a point of the loops becomes the whole
// row, each of its numbers becomes an instruction of its own, and vectors run along the rows. Comparisons with a
// number's place in its row (the parts of a list) become constants. Internal to kernel_builder.h.
#ifndef SMELT_FUSER_UNROLL_ROWS_H_
#define SMELT_FUSER_UNROLL_ROWS_H_

#include <vector>

#include "smelt/fuser/kernel_builder.h"

namespace smelt::kernel {

// Returns the last of the parallel dims `dims`, if it has too few elements to fill vectors and there are many rows; else
// -1.
int ShortRow(const KernelDraft& draft, const std::vector<int>& dims);

void UnrollRow(Builder& builder, int row);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_UNROLL_ROWS_H_
