// Compares the types that a file or a program declares for a graph with those that its operators give. Readers and the
// compiler's entry call CheckModel: later code does not check again.
//
//   SMELT_RETURN_IF_ERROR(CheckModel(*g));   // all of what follows, of a graph whose types are complete
//
//   SMELT_RETURN_IF_ERROR(VerifyGraph(*g));
//   SMELT_RETURN_IF_ERROR(FillArguments(*g));        // aten::to.dtype(%x, %t) gets its last three arguments
//   SMELT_RETURN_IF_ERROR(VerifySchemas(*g, {.check_types = false}));
//   SMELT_RETURN_IF_ERROR(CheckArgumentKinds(*g));   // no None, number or string stands where a tensor is asked for
//   SMELT_RETURN_IF_ERROR(CheckDeclaredTypes(*g));   // each result is of the type that inference gives it
//
// A graph that passes satisfies the assumptions of inference, decomposition, fusion and code generation: arguments have
// the kinds of the operator's schema and the ranks and sizes that it requires, and results have the dtype, the rank and
// the sizes that follow. All errors are InvalidArgument and name the node.
#ifndef SMELT_CORE_OP_DECLARED_TYPES_H_
#define SMELT_CORE_OP_DECLARED_TYPES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Inserts the constant before `anchor` in the form that an argument of type `formal` requires: an int becomes a float,
// a list of one, a string a device.
ValueId InsertArgument(Graph& g, NodeId anchor, const ConstantValue& c, const Type& formal);

// Gives every node all arguments of its schema: missing ones at the end get its defaults. An error names the first one
// that has no default. Linear.
absl::Status FillArguments(Graph& g);

// Checks that each argument has a kind that its operator's schema accepts there, with TorchScript's conversions among
// numbers. A number may stand for a tensor where PyTorch accepts it: together with a tensor, in an elementwise
// operator. Constants have the types that they are declared with, and so do the elements of lists. Linear.
absl::Status CheckArgumentKinds(const Graph& g);

// Checks that each declared type is one that memory can have, and agrees with the type that inference gives for the
// operands' declared types: the same dtype and rank; sizes that do not contradict it by the ranges or by the example;
// and strides that do not if results share their operand's memory. Fresh memory may be dense in any order of dims.
// Results that inference does not know pass. The branches of a condition and the rounds of a loop must return the
// declared types of the node. Types are left as they are. Costs one inference of the graph.
absl::Status CheckDeclaredTypes(Graph& g);

// All but the types: for a graph whose types are not complete yet. Trailing arguments are filled in.
absl::Status CheckArguments(Graph& g);

// All of it. The graph is as before, but for arguments that were left out.
absl::Status CheckModel(Graph& g);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DECLARED_TYPES_H_
