// Gives types to tensors whose dtype a TorchScript graph does not state: elements of lists and dictionaries that
// change, optional tensors, results of branches and loops. An eager-order program compiles its kernels for a dtype, so
// each such value gets the likeliest one, and a following node makes the run check it:
//
//   %v : Tensor = aten::__getitem__(%list, %i)   ->   %v : Float(*) = aten::__getitem__(%list, %i)
//                                                     smelt::assert_type[dtype=6, rank=-1](%v)
//
// A tensor of another dtype is therefore refused, never misread. Costs one walk.
//
// Operators that are not pointwise are compiled for a number of dims, too. With ExpectedDims::kLikeOperands a tensor of
// unknown rank is expected to have the rank of its operands (of the first element of a list, for instance). A program
// that needs no such guess is compiled without it, since it runs for tensors of any rank.
#ifndef SMELT_PIPELINE_EXPECTED_TYPES_H_
#define SMELT_PIPELINE_EXPECTED_TYPES_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

enum class ExpectedDims { kExact, kLikeOperands };

// Returns whether there was a type to expect.
bool ExpectTypes(Graph& g, ExpectedDims dims = ExpectedDims::kExact);

}  // namespace smelt

#endif  // SMELT_PIPELINE_EXPECTED_TYPES_H_
