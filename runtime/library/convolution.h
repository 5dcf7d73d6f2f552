// "convolution", also transposed, in 1 to 3 spatial dims and any memory format. docs/bundle_format.md describes the
// operands.
//
// It is computed in one of several ways, chosen by estimates of the time (convolution_cost.h) of all that have code for the
// operands: by oneDNN (dnnl_convolution.h), products of matrices (gemm_convolution.h), sums (grouped_convolution.h), rows
// of a matrix (pointwise_convolution.h), each of these with converted operands, and plain loops, which compute cases that
// no other has (integers, odd paddings).
#ifndef SMELT_RUNTIME_LIBRARY_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

struct ConvParams {
  int spatial = 0;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// Parses the attributes of a request "convolution": for each spatial dim the stride, the padding, the dilation; whether
// it is transposed; for each dim the padding of the output; the groups. Returns an error if they do not fit the shapes.
absl::StatusOr<ConvParams> ParseConvParams(const LibraryRequest& r, const OperandShape& input,
                                           const OperandShape& weight, const OperandShape& output);

// Advances `at` to the next position in `sizes`, the last dim fastest; from the last position to the first.
inline void NextPlace(int spatial, const int64_t* sizes, int64_t* at) {
  for (int d = spatial - 1; d >= 0; --d) {
    if (++at[d] < sizes[d]) return;
    at[d] = 0;
  }
}

// Returns the position that tap k reads for the result's position o, in elements from the first of an input channel; -1
// if it is outside.
inline int64_t SourceOf(const ConvParams& p, const OperandShape& in, const int64_t* o, const int64_t* k) {
  int64_t at = 0;
  for (int d = 0; d < p.spatial; ++d) {
    int64_t i;
    if (!p.transposed) {
      i = o[d] * p.stride[d] - p.padding[d] + k[d] * p.dilation[d];
    } else {
      i = o[d] + p.padding[d] - k[d] * p.dilation[d];
      if (i % p.stride[d] != 0) return -1;
      i /= p.stride[d];
    }
    if (i < 0 || i >= in.sizes[2 + d]) return -1;
    at += i * in.strides[2 + d];
  }
  return at;
}

// Returns the number of zeros after the last element that the result reads, of `in` elements for `out`; negative if
// elements are left over.
int64_t PaddingAfter(const ConvParams& p, int dim, int64_t kernel, int64_t in, int64_t out);

// Checks that all operands have one dtype, and that it is real.
absl::Status SameRealDTypes(const LibraryRequest& r);

// Returns whether the places of a channel lie in one piece, in order.
bool IsPlane(const OperandShape& o);

// Chooses one of the ways. Returns kInvalidArgument for operands that do not fit each other.
MakeResult MakeConvolution(const LibraryRequest& r, PackedWeights* packed);

// One of the ways to compute a convolution.
struct MadeConvolution {
  const char* name;
  double nanoseconds;  // the estimate
  std::unique_ptr<PreparedOp> op;
};
// Makes the convolution in all ways that apply, the chosen one first: for comparing them.
absl::StatusOr<std::vector<MadeConvolution>> MakeAllConvolutions(const LibraryRequest& r, PackedWeights* packed);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_CONVOLUTION_H_
