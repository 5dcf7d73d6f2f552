// "convolution_backward": the gradients of a convolution's input, weight and bias, each of which the call may leave out.
// docs/bundle_format.md describes the operands.
#ifndef SMELT_RUNTIME_LIBRARY_CONVOLUTION_BACKWARD_H_
#define SMELT_RUNTIME_LIBRARY_CONVOLUTION_BACKWARD_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// The gradient of the input is a convolution, made as such (convolution.h). Returns kUnimplemented for integers, and
// kInvalidArgument for operands that do not fit each other.
MakeResult MakeConvolutionBackward(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_CONVOLUTION_BACKWARD_H_
