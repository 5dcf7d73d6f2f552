// Which instructions of a kernel compute the same: later phases compute anew what earlier ones had.
#ifndef SMELT_CODEGEN_EQUAL_VALUES_H_
#define SMELT_CODEGEN_EQUAL_VALUES_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Of each instruction, whether its value at a point is that of instruction `of`: the same operations on the same
// elements of params that the kernel does not write. Takes time in the number of instructions times that of those which
// `of` is made from.
std::vector<bool> EqualValues(const KernelSpec& spec, int of);

}  // namespace smelt

#endif  // SMELT_CODEGEN_EQUAL_VALUES_H_
