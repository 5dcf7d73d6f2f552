// What strides of arguments decide that a caller sees. `layouts` are of the program.
#ifndef SMELT_PIPELINE_ARGUMENT_STRIDES_H_
#define SMELT_PIPELINE_ARGUMENT_STRIDES_H_

#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {

// The user arguments, by position, of which strides of dims of one element decide it. No element shows these, and
// PyTorch reads a memory format off them all the same: an image of one channel is channels-last or contiguous by the
// stride of its channels alone, and so are the results of a convolution. Costs inference of what follows from an
// argument, some times for each that has a dim of one element, or one that may be 1 at a call (of up to seven sets of
// sizes that are 1).
std::vector<int> ArgumentsWithStridesOfOnes(const Graph& g, const LayoutInference& layouts);

// The user arguments of which strides decide nothing, whatever they are: an image whose classes alone are returned.
// Found by probes of how these may lie, each of them and all together. Costs inference of what follows from
// them, some six times.
std::vector<int> ArgumentsOfAnyStrides(const Graph& g, const LayoutInference& layouts);

}  // namespace smelt

#endif  // SMELT_PIPELINE_ARGUMENT_STRIDES_H_
