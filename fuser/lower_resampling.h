// Upsampling. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_RESAMPLING_H_
#define SMELT_FUSER_LOWER_RESAMPLING_H_

#include "absl/status/statusor.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

absl::StatusOr<int> LowerUpsampleNearest(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerUpsampleLinear(Lowering& l, NodeId n, const Index& index, int guard);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_RESAMPLING_H_
