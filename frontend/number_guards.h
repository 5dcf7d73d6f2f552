// Numbers that sizes give and operators refuse: y.fill_(x.shape[0]) of int8 takes 127, and no 128.
#ifndef SMELT_FRONTEND_NUMBER_GUARDS_H_
#define SMELT_FRONTEND_NUMBER_GUARDS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Asks by Graph::size_guards, or of numbers that data hold by an assertion in front of it, that each number of an
// operator of the program's body fits the dtype that the operator computes in, where PyTorch asks it (a sum casts its
// number instead), and that no integer is raised to a negative one.
void AskForNumbersThatFit(Graph& g);

}  // namespace smelt

#endif  // SMELT_FRONTEND_NUMBER_GUARDS_H_
