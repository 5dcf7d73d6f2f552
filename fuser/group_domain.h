// The loops of a group's kernel, and the indices of the group's values in them.
#ifndef SMELT_FUSER_GROUP_DOMAIN_H_
#define SMELT_FUSER_GROUP_DOMAIN_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/fuser/group.h"
#include "smelt/fuser/kernel_builder.h"

namespace smelt::kernel {

// A loop split into loops of the given sizes, outermost first.
struct DimSplit {
  int dim = -1;
  std::vector<Expr> sizes;
};

struct Domain {
  std::vector<Expr> parallel, reduced;         // sizes of the loops, before splits
  Index parallel_index, reduced_index;         // the loops' indices
  absl::flat_hash_map<ValueId, Index> labels;  // the index of a value, if it is the loops' own
  bool ordered = false;                        // the reduced dims must run in order
};

// Sets the domain of `b`. Unimplemented if the group's results need different loops.
absl::StatusOr<Domain> ChooseDomain(Group& g, const std::vector<DimSplit>& splits, Builder& b);

// Returns the index of an operand that is broadcast to `sizes`.
Index BroadcastIndex(const Builder& b, const Index& index, const std::vector<Expr>& sizes,
                     const std::vector<Expr>& operand);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_GROUP_DOMAIN_H_
