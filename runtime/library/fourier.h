// "fourier": discrete Fourier transforms along dims of a tensor, in double, rounded once at the end.
// docs/bundle_format.md describes the operands; fourier_lines.h transforms one line.
#ifndef SMELT_RUNTIME_LIBRARY_FOURIER_H_
#define SMELT_RUNTIME_LIBRARY_FOURIER_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Takes time n log n for any size n, prime ones too; the tables for it are made here, once. Returns kUnimplemented for a
// signal of more than 2^26 elements.
MakeResult MakeFourier(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_FOURIER_H_
