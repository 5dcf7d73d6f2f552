// Composite operators in terms of simpler ones.
//
//   bool changed = *Decompose(graph, node);   // aten::linear -> aten::t, aten::addmm; the node is erased
//
// This is one step: the result may decompose further. Results have the types of PyTorch's own operator, and values
// round where its kernel rounds: a bfloat16 softmax converts to float32 first and back at its end.
#ifndef SMELT_CORE_OP_DECOMPOSE_H_
#define SMELT_CORE_OP_DECOMPOSE_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns whether Decompose knows the operator (for some arguments at least).
bool HasDecomposition(OpName op);

// Returns whether PyTorch's kernel pairs the elements of its operands by their position in memory, regardless of
// strides, so that the decomposition is correct only for contiguous operands.
bool PairsElementsByPlace(OpName op);

// Replaces `n` by its decomposition, inserted at its place, and redirects the uses of its outputs. Returns false if it
// has no decomposition (or none for these arguments); then nothing was changed. The types of n's tensor arguments must
// be complete.
absl::StatusOr<bool> Decompose(Graph& g, NodeId n);

// Returns whether an operand or a result is complex. DecomposeComplex rewrites such operators to operators on real and
// imaginary parts; it returns false for one that it does not handle.
bool HasComplexNumbers(const Graph& g, NodeId n);
absl::StatusOr<bool> DecomposeComplex(Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DECOMPOSE_H_
