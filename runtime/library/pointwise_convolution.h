// Convolutions of float32 with one tap, for few result channels: each image is a matrix of channels and places, and each
// result channel is a row times that matrix. oneDNN has vectors of result channels, which few channels do not fill.
#ifndef SMELT_RUNTIME_LIBRARY_POINTWISE_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_POINTWISE_CONVOLUTION_H_

#include <memory>

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// Returns whether the convolution has one tap, and float32 images with contiguous channels.
bool IsPointwise(const LibraryRequest& r, const ConvParams& p);
// The convolution must be pointwise. Packs nothing: the weight is read as it is.
std::unique_ptr<PreparedOp> MakePointwiseConvolution(const LibraryRequest& r);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_POINTWISE_CONVOLUTION_H_
