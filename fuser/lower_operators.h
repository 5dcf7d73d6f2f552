// The meaning of each operator of a kernel: pointwise operators and fills here, the others in the headers beside this
// one. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_OPERATORS_H_
#define SMELT_FUSER_LOWER_OPERATORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

// Returns one instruction per result of the node, at `index` of its result `output`.
absl::StatusOr<std::vector<int>> LowerNode(Lowering& l, NodeId n, uint32_t output, const Index& index, int guard);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_OPERATORS_H_
