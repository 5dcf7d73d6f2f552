// Reads at indices from data. Internal to lowering.h.
#ifndef SMELT_FUSER_LOWER_INDEXING_H_
#define SMELT_FUSER_LOWER_INDEXING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

// Returns an index from data that is in range, or the kernel's status is set. PyTorch's gather and its kin refuse
// negative indices (`wrap` is false).
int CheckedIndex(Lowering& l, int index, const Expr& size, bool wrap, int guard);

// Returns `value`, with a check of the index that operators along a dim have for a tensor without dims. Nothing else
// would use the index, and unused values are not checked.
int CheckedAlongScalar(Lowering& l, int index, bool wrap, int guard, int value);

// Returns the position in a tensor of sizes `self` to which the indices map `index` of the result.
absl::StatusOr<Index> IndexedAt(Lowering& l, const IndexList& list, const std::vector<Expr>& self, const Index& index,
                                int guard);

absl::StatusOr<int> LowerGather(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerIndexSelect(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerEmbedding(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerIndex(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerTake(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerOneHot(Lowering& l, NodeId n, const Index& index, int guard);
absl::StatusOr<int> LowerMaskedScatter(Lowering& l, NodeId n, const Index& index, int guard);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWER_INDEXING_H_
