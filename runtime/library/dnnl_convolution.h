// Convolutions by oneDNN.
//
// oneDNN chooses the layouts it computes in; sources and results are reordered on the way, a constant weight once. The
// batch is cut into slices of an image or, where images are large, of a band of an image's rows; each slice is computed on
// one thread.
#ifndef SMELT_RUNTIME_LIBRARY_DNNL_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_DNNL_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/dnnl_util.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Returns the dilation as oneDNN counts it: 0 for neighbouring taps.
std::vector<int64_t> DnnlDilation(const ConvParams& p);
dnnl::memory::desc DescOf(const OperandShape& o);

// Returns whether the elements of some dim have the same address, which oneDNN does not allow.
bool HasZeroStride(const OperandShape& o);

// Returns the weight in oneDNN's form: with its groups as a separate dim, and for a transposed convolution with output
// channels before input channels.
OperandShape GroupedWeight(const OperandShape& w, const ConvParams& p);

// Returns null if oneDNN is not there or does not support the convolution. A constant weight in oneDNN's layout comes
// from `packed`.
std::unique_ptr<PreparedOp> MakeDnnlConvolution(const LibraryRequest& r, const ConvParams& p, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_DNNL_CONVOLUTION_H_
