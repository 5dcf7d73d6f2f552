// Pooling, im2col and col2im. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_WINDOWS_H_
#define SMELT_FUSER_LOWER_WINDOWS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

// `kind` is one of the four pools. A maximum has its index as a second result, if the node does.
absl::StatusOr<std::vector<int>> LowerPool(Lowering& l, NodeId n, OpFamily kind, const Index& index, int guard);
absl::StatusOr<int> LowerIm2Col(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerCol2Im(Lowering& l, NodeId n, const Index& index, int guard);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_WINDOWS_H_
