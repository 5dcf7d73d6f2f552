// Matrix products with a few rows. They are bound by reading the matrix, so plain vector loops suffice, without a
// library.
#ifndef SMELT_RUNTIME_LIBRARY_GEMV_H_
#define SMELT_RUNTIME_LIBRARY_GEMV_H_

#include <cstdint>

#include "smelt/core/tensor/dtype.h"

namespace smelt {

inline constexpr int kGemvRows = 4;  // at a time, in one pass over the matrix
// The number of columns of a plain matrix that are computed together, if there are as many.
inline constexpr int64_t kGemvColumns = 1024;

// y[m, n] = sum over k of x[m, k] * w(k, n) for n in [begin, end), in float32; x and y are dense ([m, k] and rows of
// `ldy`), w is float32, bfloat16 or float16. Transposed: w(k, n) is at w + n * ldw + k (a Linear layer's weight).
void GemvTransposed(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                    int64_t end, float* y, int64_t ldy);
// Plain: w(k, n) is at w + k * ldw + n.
void GemvPlain(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin, int64_t end,
               float* y, int64_t ldy);

// w lies in blocks of kBlockColumns columns of bfloat16: for each pair of rows, the two elements of each column. `pairs` is
// the number of pairs in a block, of which those from k / 2 on are padding. k is even and `columns` a multiple of
// kBlockColumns.
inline constexpr int64_t kBlockColumns = 64;
void GemvBlocks(int m, int64_t k, const float* x, const uint16_t* w, int64_t pairs, int64_t columns, float* y,
                int64_t ldy);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_GEMV_H_
