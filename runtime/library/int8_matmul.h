// "int8_mm": rows times a weight of int8 or float8, [columns, depth], whose columns have a scale each; and "row_sums" of
// such a weight of int8. The weight is read once, as it is. A few rows are multiplied as its elements are widened; for
// more rows some columns at a time are widened to the rows' dtype, which holds such an element exactly, and multiplied
// as other matrices are.
#ifndef SMELT_RUNTIME_LIBRARY_INT8_MATMUL_H_
#define SMELT_RUNTIME_LIBRARY_INT8_MATMUL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// For rows, scales and results of float32, bfloat16 or float16.
MakeResult MakeInt8Matmul(const LibraryRequest& r, PackedWeights* packed);
// Adds up each row in int32, modulo 2^32: of a constant weight once, for `packed`, of any other in each run.
MakeResult MakeRowSums(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_INT8_MATMUL_H_
