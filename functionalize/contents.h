// Reading and writing tensors: views of a memory's contents, new versions of them. Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_CONTENTS_H_
#define SMELT_FUNCTIONALIZE_CONTENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

// Returns the current value of a tensor, for a use just before `anchor`.
ValueId ReadTensor(ProgramWalk& walk, TensorId t, NodeId anchor);
// Returns the elements in memory, neither conjugated nor negated, for checks.
ValueId ElementsInMemory(ProgramWalk& walk, TensorId t, NodeId anchor);

// The treatment of elements at the same address: PyTorch refuses to write them; or all get the same value, so that the
// order does not matter; or only some get a value, which the eager-order plan handles.
enum class SharedPlaces { kRefused, kOneValue, kInOrder };
// Replaces the tensor's contents by `v` (of its dtype and sizes, or broadcast and cast to them).
absl::Status WriteTensor(ProgramWalk& walk, TensorId t, ValueId v, NodeId anchor,
                         SharedPlaces shared = SharedPlaces::kRefused);

// Returns the same elements as contents of a separate memory, in the layout `strides`.
ValueId OwnContents(ProgramWalk& walk, NodeId anchor, ValueId v, const std::vector<Expr>& strides);

ValueId CastContents(ProgramWalk& walk, NodeId anchor, ValueId v, DType to);

// Returns new contents that nothing has written yet: zeros, so that runs repeat.
ValueId FreshContents(ProgramWalk& walk, NodeId anchor, const SymbolicGeometry& g);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_CONTENTS_H_
