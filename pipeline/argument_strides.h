// Finds the arguments whose strides affect something that a caller sees. `layouts` are those of the program.
#ifndef SMELT_PIPELINE_ARGUMENT_STRIDES_H_
#define SMELT_PIPELINE_ARGUMENT_STRIDES_H_

#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {

// Returns the user arguments, by position, for which strides of dims of one element have such an effect. Those strides
// address no element, but PyTorch derives a memory format from them: whether an image of one channel is channels-last
// or contiguous depends only on the stride of its channels, and so does the format of a convolution's results.
//
// Costs inference of the nodes that depend on an argument, once per case that inference distinguishes, for each argument
// that has a dim of one element, or one that may be 1 in a call (for up to seven sets of sizes that are 1).
std::vector<int> ArgumentsWithStridesOfOnes(const Graph& g, const LayoutInference& layouts);

// Returns the user arguments whose strides never have an effect, such as an image of which only the classes are
// returned. Costs inference of the nodes that depend on them, once per case that inference distinguishes, for each of
// them and for all together.
std::vector<int> ArgumentsOfAnyStrides(const Graph& g, const LayoutInference& layouts);

}  // namespace smelt

#endif  // SMELT_PIPELINE_ARGUMENT_STRIDES_H_
