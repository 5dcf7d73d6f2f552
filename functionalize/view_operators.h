// Operators that give tensors other geometry: views, in-place views, set_, resize_. Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_VIEW_OPERATORS_H_
#define SMELT_FUNCTIONALIZE_VIEW_OPERATORS_H_

#include <vector>

#include "absl/status/status.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

absl::Status ProcessView(ProgramWalk& walk, NodeId n, const ProgramWalk::Operator& op);
absl::Status ProcessInPlaceView(ProgramWalk& walk, NodeId n, const ProgramWalk::Operator& op);
// set_.source_Tensor(self, source); set_.source_Tensor_storage_offset(self, source, offset, size, stride); set_(self).
absl::Status ProcessSet(ProgramWalk& walk, NodeId n);
absl::Status ProcessResize(ProgramWalk& walk, NodeId n);

// `strides` are those of the new sizes, and dense.
absl::Status ResizeTensor(ProgramWalk& walk, TensorId self, const std::vector<Expr>& sizes,
                          const std::vector<Expr>& strides, NodeId anchor);

// Returns where a tensor begins in its storage, in elements of its dtype.
Expr BeginInStorage(const ProgramWalk& walk, TensorId t);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_VIEW_OPERATORS_H_
