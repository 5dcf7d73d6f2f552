// The scalar function of a call in eager order (call_graph.h) that computes one element at a time.
//
//   std::optional<ScalarFn> f = FunctionOfCall(call.graph());
//   f->arg_types;   // of the graph's inputs, in order; a number is int64, float64 or bool
//
// A runtime that evaluates the function gets the bits that the call's kernel gives: every instruction of the function
// is exact, or rounds once. Functions whose last bits depend on the kernel (exp, pow) and integer divisions, which may
// fail, have none.
#ifndef SMELT_PIPELINE_CALL_FUNCTION_H_
#define SMELT_PIPELINE_CALL_FUNCTION_H_

#include <optional>

#include "smelt/core/ir/graph.h"
#include "smelt/core/op/scalar.h"

namespace smelt {

// Returns nullopt if some node is no such operator, or the tensors with dims have several shapes. Takes O(nodes).
std::optional<ScalarFn> FunctionOfCall(const Graph& g);

}  // namespace smelt

#endif  // SMELT_PIPELINE_CALL_FUNCTION_H_
