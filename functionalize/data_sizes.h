// Operators whose results' sizes depend on data: nonzero, masks as indices, masked_select, unique, bincount. Each
// becomes an operator that counts, a read of the count (the symbol that the type's size names), and an operator that
// fills a result of that size. Nothing of that size is allocated before the read. If the model's types state the size
// otherwise, as a number or by a symbol that has a value already, it is not read: the count is checked against it.
#ifndef SMELT_FUNCTIONALIZE_DATA_SIZES_H_
#define SMELT_FUNCTIONALIZE_DATA_SIZES_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns whether node `n` was such an operator; then it has been erased, or it now indexes by position. Unimplemented
// means that it is such an operator, but not with these arguments.
absl::StatusOr<bool> OpenDataSizes(Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_DATA_SIZES_H_
