// Removes what functionalization leaves without readers.
#ifndef SMELT_FUNCTIONALIZE_ERASE_DEAD_H_
#define SMELT_FUNCTIONALIZE_ERASE_DEAD_H_

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Erases nodes of the block, and of the blocks inside it, whose results nothing uses, and results of branches that
// nothing uses. Nodes in `kept` stay, and so do checks, prints and draws of random numbers. A node that PyTorch may
// refuse to compute because of its data is computed even if no one, or not everyone, reads its results: it gets a
// smelt::assert_computed. The graph must be pure.
void EraseDead(Graph& g, BlockId b, const absl::flat_hash_set<NodeId>& kept);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_ERASE_DEAD_H_
