// PyTorch's check of an elementwise operator's operands. Internal.
#ifndef SMELT_RUNTIME_OVERLAP_H_
#define SMELT_RUNTIME_OVERLAP_H_

#include "smelt/core/tensor/tensor.h"

namespace smelt {

inline constexpr char kPartialOverlapMessage[] =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";

// Whether both reach a common byte without being the same elements. As PyTorch's assert_no_partial_overlap, it looks
// only at tensors that cover their span: false for others, whatever they share. `a_origin`: what a's offset counts
// from.
bool PartiallyOverlap(const char* a_origin, const Geometry& a, int a_item, const char* b_origin, const Geometry& b,
                      int b_item);
bool PartiallyOverlap(const Tensor& a, const Tensor& b);

}  // namespace smelt

#endif  // SMELT_RUNTIME_OVERLAP_H_
