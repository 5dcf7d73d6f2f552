// Simplifies the use of maxima in a kernel: a softmax subtracts the largest element of a row before it takes
// exponentials.
#ifndef SMELT_CODEGEN_MAXIMA_H_
#define SMELT_CODEGEN_MAXIMA_H_

#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

struct Maxima {
  // For each instruction: true for a floating-point maximum that need not be NaN if one of its elements is, because
  // everything computed from it is NaN anyway: it also depends on a sum over values computed from all elements.
  std::vector<bool> may_ignore_nan;
  // For each instruction: true for a number minus the maximum of such numbers, which is at most 0, or NaN.
  std::vector<bool> at_most_zero;
};

Maxima FindMaxima(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_MAXIMA_H_
