// Simplifies the use of maxima in a kernel: a softmax subtracts the largest element of a row before it takes
// exponentials.
#ifndef SMELT_CODEGEN_MAXIMA_H_
#define SMELT_CODEGEN_MAXIMA_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

struct Maxima {
  // For each instruction: true for a maximum of floating-point numbers that need not be NaN if one of them is, because
  // everything computed from it is NaN anyway: a sum over values computed from all of them goes into it.
  std::vector<bool> may_ignore_nan;
  // For each instruction: true for a number less the maximum of such numbers, so at most 0, or NaN.
  std::vector<bool> at_most_zero;
};

Maxima FindMaxima(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_MAXIMA_H_
