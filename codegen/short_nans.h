// Finds which NaNs a kernel's instructions may yield: values with only short NaNs are cheaper to round to bfloat16.
#ifndef SMELT_CODEGEN_SHORT_NANS_H_
#define SMELT_CODEGEN_SHORT_NANS_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Returns for each instruction whether it is of float32 or float64 and its NaNs are short: as float32, their lower half
// is 0, so that rounding to the upper half cannot carry into the sign. This holds for the NaNs of bfloat16, for those
// that processors generate, and for results of arithmetic on such NaNs. Floating-point scalars are treated as such;
// their reader guarantees it.
std::vector<bool> HaveShortNans(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_SHORT_NANS_H_
