// Turns integers that a trace represents as tensors into integers again: torch.jit.trace makes a 0-dim tensor of each
// size of a shape, computes with it and reads the number from it.
//
//   %n : Long() = prim::NumToTensor(%size); %h : Long() = aten::floor_divide(%n, %two); %i : int = aten::Int(%h)
//   ->  %i : int = aten::floordiv(%size, 2)
//
// A number that is also used as a tensor is an aten::scalar_tensor.
#ifndef SMELT_SCRIPT_RESOLVE_NUMBERS_H_
#define SMELT_SCRIPT_RESOLVE_NUMBERS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

void ResolveNumbers(Graph& g);

// Runs before any pass that uses integers. Afterwards prim::NumToTensor remains only where a tensor is needed.
Pass ResolveNumbersPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_RESOLVE_NUMBERS_H_
