// Finds instructions of a kernel that compute the same value: later phases repeat computations of earlier ones.
#ifndef SMELT_CODEGEN_EQUAL_VALUES_H_
#define SMELT_CODEGEN_EQUAL_VALUES_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Returns for each instruction whether its value at a point equals that of instruction `of`: the same operations on the
// same elements of params that the kernel does not write. Takes time proportional to the number of instructions times
// the number of those that `of` depends on.
std::vector<bool> EqualValues(const KernelSpec& spec, int of);

}  // namespace smelt

#endif  // SMELT_CODEGEN_EQUAL_VALUES_H_
