// Arguments with dims of one element, whose strides there no element shows. PyTorch reads a memory format off them all
// the same: an image of one channel is channels-last or contiguous by the stride of its channels alone, and so are the
// results of a convolution. Where a caller sees that, the plan for the exported strides is for these strides, too.
#ifndef SMELT_PIPELINE_STRIDES_OF_ONES_H_
#define SMELT_PIPELINE_STRIDES_OF_ONES_H_

#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {

// Numbers of the inputs of which that is so. Costs inference of what follows from an input, some times for each that
// has a dim of one element, or one that may be 1 at a call.
std::vector<int> InputsWithStridesOfOnes(const Graph& g);

}  // namespace smelt

#endif  // SMELT_PIPELINE_STRIDES_OF_ONES_H_
