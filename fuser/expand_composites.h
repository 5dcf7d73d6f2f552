// The last step before fusion groups form: every operator becomes one that a kernel or a library call computes.
//
//   SMELT_RETURN_IF_ERROR(ExpandComposites(graph));   // graph is pure (functionalize/)
//
// Afterwards a node is one of: a kernel by itself (IsKernelNode of lower_group.h), smelt::view, a library call, control
// flow, a random draw, a number's node, a constant or a list. Composites are decomposed in their compute dtype
// (core/op/decompose.h), and views become smelt::view. Copies become smelt::materialize or nothing. cat and stack
// become smelt::write_region into fresh memory, so that an input's node can write it in place. Writes at indices from
// data (index_put, scatter...) become `smelt::inplace_X`, which means aten::X on a first argument whose memory the
// result takes over.
#ifndef SMELT_FUSER_EXPAND_COMPOSITES_H_
#define SMELT_FUSER_EXPAND_COMPOSITES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Linear in the number of nodes before and after. Unimplemented lists all unsupported operators in one message, each
// with its count and places.
absl::Status ExpandComposites(Graph& g);

// Erases nodes without effects whose results nothing uses, blocks included.
void EraseDeadNodes(Graph& g);

// "expand-composites".
Pass ExpandCompositesPass();

}  // namespace smelt

#endif  // SMELT_FUSER_EXPAND_COMPOSITES_H_
