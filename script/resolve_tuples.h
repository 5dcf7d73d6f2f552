// Tuples are taken apart: a branch or a loop that hands on a tuple hands on its elements, and what takes an element out
// of a tuple that is made of known ones becomes the element.
//
//   %t : (Tensor, Tensor) = prim::Loop(...)   ->   %a : Tensor, %b : Tensor = prim::Loop(...)
//   %t = prim::TupleConstruct(%a, %b); %z = prim::TupleIndex(%t, 1)   ->   %b
//
// What stays a tuple: inputs, results of calls, elements of lists.
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
