// Convolutions with few results per group, depthwise ones above all, of float64 and of float32's rows: sums over the
// taps without a matrix of the operands. Vectors run along rows of an image, or along channels if those are adjacent.
#ifndef SMELT_RUNTIME_LIBRARY_GROUPED_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_GROUPED_CONVOLUTION_H_

#include <cstdint>
#include <memory>

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// The most results per group that are computed so: with more of them a matrix of the operands pays.
constexpr int64_t kFewPerGroup = 4;

// For float64 or float32, not transposed, with no empty operand and at most kFewPerGroup results per group.
std::unique_ptr<PreparedOp> MakeGroupedConvolution(const LibraryRequest& r, const ConvParams& p);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_GROUPED_CONVOLUTION_H_
