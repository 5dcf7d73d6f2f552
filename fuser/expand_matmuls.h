// Matrix products that kernels compute better than the library, in part or as a whole. Internal to the fuser.
#ifndef SMELT_FUSER_EXPAND_MATMULS_H_
#define SMELT_FUSER_EXPAND_MATMULS_H_

#include "absl/status/statusor.h"
#include "smelt/fuser/expansion.h"

namespace smelt {

// A column times a row is a multiplication, points times a matrix of a few numbers are sums of products, and many rows
// times a column each, or many small matrices times a column each, are sums: kernels, which fuse. Returns whether it was
// one.
absl::StatusOr<bool> ExpandThinMatmul(Expansion& edit, NodeId n);

// beta * self + alpha * (a @ b) with factors other than 1 (or integers): the library multiplies, a kernel does the rest.
absl::StatusOr<ExpansionStep> ExpandAddMatmul(Expansion& edit, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUSER_EXPAND_MATMULS_H_
