// Finds the strides of arguments that decide something that a caller sees. `layouts` are those of the program.
#ifndef SMELT_PIPELINE_ARGUMENT_STRIDES_H_
#define SMELT_PIPELINE_ARGUMENT_STRIDES_H_

#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {

// Returns the user arguments, by position, for which strides of dims of one element decide it. No element shows these
// strides, but PyTorch reads a memory format from them: an image of one channel is channels-last or contiguous by the
// stride of its channels alone, and so are the results of a convolution. Costs inference of the nodes that depend on an
// argument, some times for each argument that has a dim of one element, or one that may be 1 at a call (for up to seven
// sets of sizes that are 1).
std::vector<int> ArgumentsWithStridesOfOnes(const Graph& g, const LayoutInference& layouts);

// Returns the user arguments whose strides decide nothing, whatever they are: an image whose classes alone are
// returned. Probes find them: several layouts of each of them and of all together. Costs inference of the nodes that
// depend on them, some six times.
std::vector<int> ArgumentsOfAnyStrides(const Graph& g, const LayoutInference& layouts);

}  // namespace smelt

#endif  // SMELT_PIPELINE_ARGUMENT_STRIDES_H_
