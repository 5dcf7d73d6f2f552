// Replaces tuples by their elements. A branch or a loop that returns a tuple returns its elements, and an operator that
// takes an element out of a tuple of known elements becomes that element.
//
//   %t : (Tensor, Tensor) = prim::Loop(...)   ->   %a : Tensor, %b : Tensor = prim::Loop(...)
//   %t = prim::TupleConstruct(%a, %b); %z = prim::TupleIndex(%t, 1)   ->   %b
//
// A slice of a known tuple is a tuple of its elements.
//
// Inputs, results of calls and elements of lists stay tuples.
#ifndef SMELT_SCRIPT_RESOLVE_TUPLES_H_
#define SMELT_SCRIPT_RESOLVE_TUPLES_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

void ResolveTuples(Graph& g);

// "resolve-tuples".
Pass ResolveTuplesPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_RESOLVE_TUPLES_H_
