// What a file says of a graph, compared with what its operators make of it. For readers: nothing behind them asks
// again.
//
//   SMELT_RETURN_IF_ERROR(VerifyGraph(*g));
//   SMELT_RETURN_IF_ERROR(FillArguments(*g));        // aten::to.dtype(%x, %t) gets its last three arguments
//   SMELT_RETURN_IF_ERROR(CheckArgumentKinds(*g));   // no None, number or string stands where a tensor is asked for
//   SMELT_RETURN_IF_ERROR(CheckDeclaredTypes(*g));   // each result is of the type that inference gives it
//
// A graph that passes holds what inference, decomposition, fusion and code generation take for granted: arguments are
// of the kinds of the operator's schema and have the ranks and sizes that it asks for, and results have the dtype, the
// rank and the sizes that follow. All errors are InvalidArgument and name the node.
#ifndef SMELT_CORE_OP_DECLARED_TYPES_H_
#define SMELT_CORE_OP_DECLARED_TYPES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The constant as what an argument of type `formal` asks for, in front of `anchor`: an int becomes a float, a list of
// one, a string a device.
ValueId InsertArgument(Graph& g, NodeId anchor, const ConstantValue& c, const Type& formal);

// Gives every node all arguments of its schema: those left out at the end take its defaults. An error names the first
// one that has none. Linear.
absl::Status FillArguments(Graph& g);

// Each argument is of a kind that its operator's schema takes there, with TorchScript's conversions among numbers; a
// number stands for a tensor where PyTorch takes it for one, beside a tensor, in an operator that computes element by
// element. Constants are of the types that they are declared with, and so are the elements of lists. Linear.
absl::Status CheckArgumentKinds(const Graph& g);

// Each declared type is one that memory can have, and is what inference makes of the operands' declared types: the same
// dtype and rank, sizes that do not contradict it by the ranges or by the example, and strides that do not where
// results share their operand's memory; fresh memory may be dense in any order of dims. What inference does not know
// passes. The branches of a condition and the rounds of a loop result in what the node is declared to. Types are left
// as they are. Costs one inference of the graph.
absl::Status CheckDeclaredTypes(Graph& g);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DECLARED_TYPES_H_
