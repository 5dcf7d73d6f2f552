// "grouped_mm": each group of rows times a matrix of its own, as a mixture of experts multiplies. Only rows of
// the group are multiplied by its matrix, and a matrix without rows is not read.
//
// The data says how many rows a group has. A product is prepared for some numbers of rows, and shared by all calls and,
// where the matrices are not constant, by all groups; a group runs as the products that it fills best.
#ifndef SMELT_RUNTIME_LIBRARY_GROUPED_MATMUL_H_
#define SMELT_RUNTIME_LIBRARY_GROUPED_MATMUL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// The products of groups are "matmul" calls (matmul.h), whose packed matrices come from `packed`; `packed` must outlive
// the op. Making it is cheap: products are prepared in the first call that needs them.
MakeResult MakeGroupedMatmul(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_GROUPED_MATMUL_H_
