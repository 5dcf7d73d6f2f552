// "int8_convolution": images of bytes and a weight of int8, to int32. For some places of an image at a time, what the taps
// read is laid out as rows of bytes, which are multiplied as other matrices of bytes are (matmul.h). For that an image is
// copied first: channels become the innermost dim, and the zero point surrounds it.
#ifndef SMELT_RUNTIME_LIBRARY_INT8_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_INT8_CONVOLUTION_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Sums are exact modulo 2^32. Returns kUnimplemented for an image that would not fit in an address space with its
// padding, and kInvalidArgument for operands that do not fit each other.
MakeResult MakeInt8Convolution(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_INT8_CONVOLUTION_H_
