// What the files of convolution share.
#ifndef SMELT_RUNTIME_LIBRARY_CONVOLUTION_H_
#define SMELT_RUNTIME_LIBRARY_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/runtime/library/dnnl_util.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

struct ConvParams {
  int spatial = 0;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

std::string Show(const OperandShape& o);

// The attributes of a request "convolution": for each spatial dim the stride, the padding, the dilation; whether it is
// transposed; for each dim the padding of the output; the groups. Fails if they or the shapes do not fit.
absl::StatusOr<ConvParams> ParseConvParams(const LibraryRequest& r, const OperandShape& input,
                                           const OperandShape& weight, const OperandShape& output);

// All operands are of one dtype, and it is a real number's.
absl::Status SameRealDTypes(const LibraryRequest& r);

// As oneDNN describes it.
dnnl::memory::desc DescOf(const OperandShape& o);

// Whether a dim of several elements lies on one address, as oneDNN's may not.
bool HasZeroStride(const OperandShape& o);

// The weight with its groups as a dim of their own, and for a transposed convolution output channels before input
// channels: as oneDNN has it.
OperandShape GroupedWeight(const OperandShape& w, const ConvParams& p);

// By oneDNN; null if it cannot do it. `packed_bytes` grows by the bytes of a constant weight in oneDNN's layout.
std::unique_ptr<PreparedOp> MakeDnnlConvolution(const LibraryRequest& r, const ConvParams& p, int64_t* packed_bytes);

// Of float64, no operand empty: by products.
std::unique_ptr<PreparedOp> MakeGemmConvolution(const LibraryRequest& r, const ConvParams& p);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_CONVOLUTION_H_
