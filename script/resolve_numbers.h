// Turns integers that a trace wrote as tensors into integers again: torch.jit.trace makes a tensor without dims of each
// size of a shape, computes with it and takes the number out.
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

// Runs before any pass that looks at integers. Afterwards prim::NumToTensor stands only where a tensor is needed.
Pass ResolveNumbersPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_RESOLVE_NUMBERS_H_
