// Views: each shows the owner of its memory by a geometry of its own. Internal to the fuser.
#ifndef SMELT_FUSER_EXPAND_VIEWS_H_
#define SMELT_FUSER_EXPAND_VIEWS_H_

#include "absl/status/statusor.h"
#include "smelt/fuser/expansion.h"

namespace smelt {

absl::StatusOr<ExpansionStep> ExpandView(Expansion& edit, NodeId n);

// A view of a view is a view of what that one shows.
absl::StatusOr<ExpansionStep> ShortenView(Expansion& edit, NodeId n);

// A view of a copy shows the same elements as some view of the copied value, if their strides allow it. In eager
// PyTorch, reshape of a transposed tensor copies even if only dims of size 1 prevent a view, and matmul's batches are
// made in this way.
void LookThroughCopy(Expansion& edit, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUSER_EXPAND_VIEWS_H_
