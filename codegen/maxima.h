// What a kernel does with maxima: a softmax subtracts the largest element of a row before it takes exponentials.
#ifndef SMELT_CODEGEN_MAXIMA_H_
#define SMELT_CODEGEN_MAXIMA_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

struct Maxima {
  // Of each instruction: a maximum of floating point numbers that need not be NaN where one of them is, for all that is
  // computed from it is NaN anyway: a sum of what is computed from all of them goes into it.
  std::vector<bool> may_ignore_nan;
  // Of each instruction: a number less the maximum of such numbers, so at most 0, or NaN.
  std::vector<bool> at_most_zero;
};

Maxima FindMaxima(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_MAXIMA_H_
