// Which NaNs a kernel's instructions may yield: it is cheaper to round to bfloat16 what has only short ones.
#ifndef SMELT_CODEGEN_SHORT_NANS_H_
#define SMELT_CODEGEN_SHORT_NANS_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Of each instruction, whether it is of float32 or float64 and its NaNs are short: as float32, their lower half is 0,
// so that rounding to the upper half cannot carry into the sign. Such are those of bfloat16, those that machines make
// of numbers, and what arithmetic makes of them; floating point scalars count as such, whoever reads them sees to it.
std::vector<bool> HaveShortNans(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_SHORT_NANS_H_
