// Which NaNs a kernel's instructions may yield: it is cheaper to round to bfloat16 what has only short ones.
#ifndef SMELT_CODEGEN_SHORT_NANS_H_
#define SMELT_CODEGEN_SHORT_NANS_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Returns for each instruction whether it is of float32 or float64 and its NaNs are short: as float32, their lower half
// is 0, so that rounding to the upper half cannot carry into the sign. This holds for the NaNs of bfloat16, those that
// machines make of numbers, and those that arithmetic makes of them. Floating-point scalars count as such; their reader
// guarantees it.
std::vector<bool> HaveShortNans(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_SHORT_NANS_H_
