// PyTorch's check of an elementwise operator's operands. Internal.
#ifndef SMELT_RUNTIME_OVERLAP_H_
#define SMELT_RUNTIME_OVERLAP_H_

#include "smelt/core/tensor/tensor.h"

namespace smelt {

inline constexpr char kPartialOverlapMessage[] =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";

// PyTorch's approximation of memory that two tensors share (at::get_overlap_status): it checks only tensors that cover
// their span without gaps, and assumes that others share nothing. kWhole means equal strides over the same bytes.
// Origins are the addresses of offset 0.
enum class Shared { kNothing, kWhole, kPart };
Shared WhatIsShared(const char* a_origin, const Geometry& a, int a_item, const char* b_origin, const Geometry& b,
                    int b_item);
Shared WhatIsShared(const Tensor& a, const Tensor& b);

}  // namespace smelt

#endif  // SMELT_RUNTIME_OVERLAP_H_
