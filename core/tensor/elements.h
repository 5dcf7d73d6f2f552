// One element of a tensor as a number.
#ifndef SMELT_CORE_TENSOR_ELEMENTS_H_
#define SMELT_CORE_TENSOR_ELEMENTS_H_

#include <complex>
#include <cstdint>

#include "smelt/core/tensor/dtype.h"

namespace smelt {

// Returns one element as a number; for complex ones the real part.
double LoadDouble(const void* p, DType t);
// Floating point is truncated. NaN and values out of range give an unspecified number, and no trap.
int64_t LoadInt(const void* p, DType t);
std::complex<double> LoadComplex(const void* p, DType t);
// Rounds once to the dtype; integers are truncated, and bools are != 0.
void StoreDouble(void* p, DType t, double v);
void StoreInt(void* p, DType t, int64_t v);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_ELEMENTS_H_
