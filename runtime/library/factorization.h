// "solve", "determinant", "cholesky" of the matrices in the last two dims, one after the other, in double, rounded once
// at the end. docs/bundle_format.md describes their operands.
#ifndef SMELT_RUNTIME_LIBRARY_FACTORIZATION_H_
#define SMELT_RUNTIME_LIBRARY_FACTORIZATION_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Makes all three; the request names one. Takes time cubic in the rows of a matrix, and scratch memory for one matrix and
// its right sides per thread. Refuses matrices of more than kLargestMatrix rows (matrices.h). A run whose request asks for
// the check returns kFailedPrecondition for a matrix that PyTorch refuses, after it has factored all others.
MakeResult MakeFactorization(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_FACTORIZATION_H_
