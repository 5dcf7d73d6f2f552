// Products of matrices of bfloat16 and int8 by the instructions of AArch64 that multiply two rows by two columns.
#ifndef SMELT_RUNTIME_LIBRARY_PAIRED_GEMM_H_
#define SMELT_RUNTIME_LIBRARY_PAIRED_GEMM_H_

#include <cstdint>

#include "smelt/core/tensor/dtype.h"

namespace smelt {

// Returns whether this machine has such instructions for the dtype: the features bf16 and i8mm of AArch64.
bool HasPairedGemm(DType t);

// c[m, n] = a[m, k] @ b[k, n], as Gemm. Products of bfloat16 are added in float32, at most 256 of a sum together. The
// instruction rounds such sums in a mode of its own, and takes subnormal numbers for 0. Those of int8 are exact modulo
// 2^32. May be called only if HasPairedGemm.
void PairedGemm(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t a_row, int64_t a_col, const uint16_t* b,
                int64_t b_row, int64_t b_col, float* c, int64_t c_row);
void PairedGemm(int64_t m, int64_t n, int64_t k, const int8_t* a, int64_t a_row, int64_t a_col, const int8_t* b,
                int64_t b_row, int64_t b_col, int32_t* c, int64_t c_row);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_PAIRED_GEMM_H_
