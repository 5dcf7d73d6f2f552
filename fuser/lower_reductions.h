// Reductions and scans. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_REDUCTIONS_H_
#define SMELT_FUSER_LOWER_REDUCTIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

// Returns an error where this reduction is not over the domain's reduction dims, or over a part of them: `guard` says
// where its result is used.
absl::Status CheckSite(Lowering& l, NodeId n, const std::vector<Expr>& reduced, const Index& outer, int guard);

// Makes one accumulator over the reduction dims. `index` is that of kArgMin and kArgMax, else -1.
int Reduce(Lowering& l, ReduceKind kind, int value, int index, bool scan);

absl::StatusOr<std::vector<int>> LowerReduction(Lowering& l, NodeId n, const Index& index, int guard);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_REDUCTIONS_H_
