// "qr", "svd", "eigh": factors with orthonormal columns for the matrices in the last two dims, one after the other, in
// double, rounded once at the end. orthogonal_factors.h computes them.
#ifndef SMELT_RUNTIME_LIBRARY_ORTHOGONAL_H_
#define SMELT_RUNTIME_LIBRARY_ORTHOGONAL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Makes all three; the request names one. Takes time cubic in the larger size of a matrix. Refuses matrices of more
// than kLargestMatrix rows or columns (matrices.h). A run of "svd" or "eigh" returns kFailedPrecondition for a matrix with
// elements that are not finite, after it has factored all others.
MakeResult MakeOrthogonal(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_ORTHOGONAL_H_
