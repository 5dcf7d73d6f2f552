// Groups of dtypes that products of matrices, attention and factorizations treat alike.
#ifndef SMELT_CORE_TENSOR_PRODUCT_DTYPES_H_
#define SMELT_CORE_TENSOR_PRODUCT_DTYPES_H_

#include "smelt/core/tensor/dtype.h"

namespace smelt {

// Returns whether products are added up in float32, and so are the sums of attention: float32 itself, and halves, whose
// results are rounded once.
inline bool AddsInFloat32(DType t) { return t == DType::kFloat32 || IsHalf(t); }

// Returns whether the numbers are float32 or float64, or complex with parts of these: those that factorizations and
// Fourier transforms take.
inline bool IsSingleOrDouble(DType t) { return (IsFloating(t) || IsComplex(t)) && !IsHalf(t); }

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_PRODUCT_DTYPES_H_
