// The memory of a value in a graph that was just read.
#ifndef SMELT_FRONTEND_PT2_MEMORY_H_
#define SMELT_FRONTEND_PT2_MEMORY_H_

#include "smelt/core/ir/graph.h"

namespace smelt {
namespace pt2_internal {

// Returns the value that `v` is, or is a view of: a result in memory of its own, or a parameter. Invalid if that is not
// known. This follows core/op/storage_of.h one step further: the results of torch.cond and while_loop have memory of
// their own, because PyTorch refuses to export a model where they share it with an input.
ValueId OwnerOfMemory(const Graph& g, ValueId v);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_MEMORY_H_
