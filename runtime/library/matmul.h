// "matmul": c[.., M, N] = alpha * (a[.., M, K] @ b[.., K, N]) + beta * bias. c may be float32 for halves, and int32 for
// int8. docs/bundle_format.md describes the operands.
//
// The products are made by the first implementation of a list that applies (implementation.h): rows one after the other
// (direct_matmul.h) or tiles (tiled_matmul.h).
#ifndef SMELT_RUNTIME_LIBRARY_MATMUL_H_
#define SMELT_RUNTIME_LIBRARY_MATMUL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Halves are added up in float32 and rounded once; integers wrap. Returns kUnimplemented for bool, and kInvalidArgument
// for operands that do not fit each other.
MakeResult MakeMatmul(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_MATMUL_H_
