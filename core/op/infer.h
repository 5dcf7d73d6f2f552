// Types of results from types of arguments: dtype, sizes and the strides that eager PyTorch gives them.
//
//   InferNode(graph, node);   // sets the types of the node's outputs, and Value::expr of integers
//   InferTypes(graph);        // for every node, in order, blocks included: a text model needs it after parsing
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
  // The type of each element, for lists of tensors.
  std::vector<Type> elements;
};

// Adds the values that an example gives symbols. They decide the questions that the ranges leave open.
SymbolRanges WithHints(SymbolRanges ranges, const absl::flat_hash_map<std::string, int64_t>& values);

// Returns the results of a call. An error names the operator, its place in the source and the argument that does not
// fit.
absl::StatusOr<std::vector<InferredOutput>> InferCall(const OpCall& call, const SymbolRanges& ranges);

// Simplifies sizes and strides by the ranges: a quotient that is 1 in every call is 1.
Type Simplified(const Type& type, const SymbolRanges& of_sizes, const SymbolRanges& of_strides);

absl::Status InferNode(Graph& g, NodeId n);
// Returns whether a node's results follow from its operands alone: not those of blocks, constants and sizes.
bool IsInferred(const Graph& g, NodeId n);
absl::Status InferTypes(Graph& g);

// Returns the equalities of operands' sizes that a node relies on because the hints say so, while the symbols, for
// values that a caller may pass, leave them open: x.flatten(1) + y.flatten(1) relies on s0*s1 == s2*s3. Not for views.
// Takes O(sizes) if the operands share their symbols dim by dim, else an inference.
std::vector<Assumption> AssumedEqual(const Graph& g, NodeId n);

// Returns PyTorch's requirements on a call's sizes, as far as the sizes that a caller may pass leave them open. The
// indices of a gather or scatter must not be longer along the other dims than the elements. The source of a copy must
// fit, if it does in the example.
std::vector<Assumption> RequiredSizes(const Graph& g, NodeId n);

// Returns the differences between the graph's types and those that inference gives, one per line; empty if there are
// none. Operators without a rule are skipped.
std::vector<std::string> CheckTypes(const Graph& g);

// Returns the elements that aten::slice.t takes of a list of `size`; `operands` are its own: the list, begin, end,
// step, counted as in Python. nullopt if a bound is not known.
std::optional<std::vector<size_t>> SlicedIndices(const Graph& g, absl::Span<const ValueId> operands, size_t size);

}  // namespace smelt

#endif  // SMELT_CORE_OP_INFER_H_
