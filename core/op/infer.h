// Types of results from types of arguments: dtype, sizes and the strides eager PyTorch gives them.
//
//   InferNode(graph, node);   // sets the types of the node's outputs, and Value::expr of integers
//   InferTypes(graph);        // of every node, in order, blocks included: what a text model needs after parsing
#ifndef SMELT_CORE_OP_INFER_H_
#define SMELT_CORE_OP_INFER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

struct InferredOutput {
  Type type;
  std::optional<Expr> expr;  // of integers known from sizes
  // Of lists of tensors: each element.
  std::vector<Type> elements;
};

// With the values that an example gives symbols, by which what the ranges leave open is assumed.
SymbolRanges WithHints(SymbolRanges ranges, const absl::flat_hash_map<std::string, int64_t>& values);

// The results of a call. An error names the operator, where it comes from and what does not fit.
absl::StatusOr<std::vector<InferredOutput>> InferCall(const OpCall& call, const SymbolRanges& ranges);

// With what the ranges decide of its sizes and strides: a quotient that is 1 in every call is 1.
Type Simplified(const Type& type, const SymbolRanges& of_sizes, const SymbolRanges& of_strides);

absl::Status InferNode(Graph& g, NodeId n);
// Whether a node's results follow from its operands alone: not those of blocks, constants and sizes.
bool IsInferred(const Graph& g, NodeId n);
absl::Status InferTypes(Graph& g);

// Of which sizes of its operands a node takes it for granted that they are equal, because the hints say so and the
// symbols, of any value that a caller may pass, leave it open: of x.flatten(1) + y.flatten(1) that s0*s1 == s2*s3. Not
// of views. O(sizes) where the operands share their symbols dim by dim, else an inference.
std::vector<Assumption> AssumedEqual(const Graph& g, NodeId n);

// What PyTorch asks of a call's sizes, as far as those that a caller may pass leave it open: of a gather or scatter,
// that its indices are no more along the other dims than the elements they are for; of a copy, that what it copies
// fits, where it does in the example.
std::vector<Assumption> RequiredSizes(const Graph& g, NodeId n);

// Differences between the types the graph has and those that inference gives, a line each: empty if none. Operators
// without a rule are skipped.
std::vector<std::string> CheckTypes(const Graph& g);

// Which elements aten::slice.t takes of a list of `size`; `operands` are its own: the list, begin, end, step. As Python
// counts. nullopt where a bound is not known.
std::optional<std::vector<size_t>> SlicedIndices(const Graph& g, absl::Span<const ValueId> operands, size_t size);

}  // namespace smelt

#endif  // SMELT_CORE_OP_INFER_H_
