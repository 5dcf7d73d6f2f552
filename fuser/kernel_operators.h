// Classifies the operators that kernels compute by index, besides pointwise operators and reductions, and those that
// write at indices from data.
#ifndef SMELT_FUSER_KERNEL_OPERATORS_H_
#define SMELT_FUSER_KERNEL_OPERATORS_H_

#include <optional>

#include "smelt/core/ir/graph.h"
#include "smelt/core/op/traits.h"

namespace smelt::kernel {

// Returns the family of an operator that is neither pointwise nor a plain reduction, but that kernels compute.
std::optional<OpFamily> SpecialOf(const Node& n);

// Returns whether it writes elements at indices from data into memory that already holds its first argument's contents.
// In the graph such an operator is pure: `smelt::inplace_X` is aten::X.
bool IsInplaceOp(const Node& n);

// Returns whether it reads or writes complex numbers.
bool HasComplex(const Graph& g, NodeId n);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_KERNEL_OPERATORS_H_
