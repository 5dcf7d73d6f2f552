// Convolutions of float64, which oneDNN does not have, and of float32, by products of matrices (gemm.h). For some places
// of the result at a time, the elements that they read are laid out as a matrix (convolution_rows.h), and a product does
// the rest. If the channels are last, each place is a row of that matrix, otherwise a column.
#ifndef SMELT_RUNTIME_LIBRARY_GEMM_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_GEMM_CONVOLUTION_H_

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// For float64 and float32, with no empty operand. A constant weight is packed once, in `packed`. A call needs memory for
// the matrix of one block of places per thread.
MakeResult MakeGemmConvolution(const LibraryRequest& r, const ConvParams& p, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_GEMM_CONVOLUTION_H_
