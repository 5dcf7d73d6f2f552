// Copies, and tensors that are assembled in fresh memory: cat, stack, scatters of views. Internal to the fuser.
#ifndef SMELT_FUSER_EXPAND_COPIES_H_
#define SMELT_FUSER_EXPAND_COPIES_H_

#include "absl/status/statusor.h"
#include "smelt/fuser/expansion.h"

namespace smelt {

// Contents are immutable: a copy in the same layout is the value itself.
absl::StatusOr<ExpansionStep> ExpandCopy(Expansion& edit, NodeId n);

// Handles a roll without dims, which rolls all elements in a row: rolls that dim instead of computing each element's
// index. Returns whether it was one.
absl::StatusOr<bool> ExpandFlatRoll(Expansion& edit, NodeId n);

// Fills with one number: the result does not depend on the value that it replaces.
absl::StatusOr<ExpansionStep> ExpandFill(Expansion& edit, NodeId n);

// Returns whether kernels alone read the result of a cat, and it has few enough parts that each element may choose among
// them. Then no memory holds it. (In a stack along the innermost dim no two neighbours come from one part.)
bool IsReadByKernels(const Graph& g, NodeId n);

// Writes the parts of a cat or a stack to regions of one memory.
absl::StatusOr<ExpansionStep> ExpandCat(Expansion& edit, NodeId n);

// select_scatter and similar operators: writes `src` over the region of self that the view with the same arguments
// shows.
absl::StatusOr<ExpansionStep> ExpandViewScatter(Expansion& edit, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUSER_EXPAND_COPIES_H_
