// Checks of numbers that depend on sizes and that operators may refuse: y.fill_(x.shape[0]) of an int8 accepts 127, but
// not 128.
#ifndef SMELT_FRONTEND_NUMBER_GUARDS_H_
#define SMELT_FRONTEND_NUMBER_GUARDS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Requires that each number of an operator in the program's body fits the dtype that the operator computes in, where
// PyTorch requires it (a sum casts its number instead), and that no integer is raised to a negative power. The checks
// are Graph::size_guards, or assertions before the operator for numbers in the data.
void AskForNumbersThatFit(Graph& g);

}  // namespace smelt

#endif  // SMELT_FRONTEND_NUMBER_GUARDS_H_
