// Composite operators in terms of simpler ones.
//
//   bool changed = *Decompose(graph, node);   // aten::linear -> aten::t, aten::addmm; the node is erased
//
// One step: what comes out may decompose further. Results have the types PyTorch's own operator gives, and values round
// where its kernel rounds: a bfloat16 softmax converts to float32 first and back at its end.
#ifndef SMELT_CORE_OP_DECOMPOSE_H_
#define SMELT_CORE_OP_DECOMPOSE_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Whether Decompose knows the operator (for some arguments at least).
bool HasDecomposition(OpName op);

// Whether PyTorch's kernel pairs the elements of its operands by their place in memory, whatever their strides say, so
// that the decomposition is right for contiguous operands only.
bool PairsElementsByPlace(OpName op);

// Replaces `n` by what it means, inserted at its place; uses of its outputs are redirected. False: it has no
// decomposition (or none for these arguments), nothing was changed. The types of n's tensor arguments must be complete.
absl::StatusOr<bool> Decompose(Graph& g, NodeId n);

// Whether an operand or a result is of complex numbers. Such operators are rewritten by DecomposeComplex, to operators
// on real and imaginary parts; false from it: not this one.
bool HasComplexNumbers(const Graph& g, NodeId n);
absl::StatusOr<bool> DecomposeComplex(Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DECOMPOSE_H_
