// Matrix products without a library: float64, integers, float32 too small for a library call to pay, and float32 with
// few rows and a packed right operand.
#ifndef SMELT_RUNTIME_LIBRARY_GEMM_H_
#define SMELT_RUNTIME_LIBRARY_GEMM_H_

#include <cstdint>

#include "smelt/core/tensor/dtype.h"

namespace smelt {

// c[m, n] = a[m, k] @ b[k, n]. Strides are in elements, of any value; the elements of a row of c are adjacent. An
// element's sum runs over blocks of 256 in order, regardless of its position in c and of m and n. Costs m * n * k
// multiplications at the machine's vector width, and a packed copy of 256 rows of some columns of b at a time.
void Gemm(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_col, const double* b,
          int64_t b_row, int64_t b_col, double* c, int64_t c_row);
void Gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b, int64_t b_row,
          int64_t b_col, float* c, int64_t c_row);
// Modulo 2^64 and 2^32, as for all integer products.
void Gemm(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t a_row, int64_t a_col, const uint64_t* b,
          int64_t b_row, int64_t b_col, uint64_t* c, int64_t c_row);
void Gemm(int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t a_row, int64_t a_col, const uint32_t* b,
          int64_t b_row, int64_t b_col, uint32_t* c, int64_t c_row);

// A right operand in the order in which GemmPacked reads it on this machine: panels of columns, padded with zeros to a
// multiple of kPanelColumns.
inline constexpr int64_t kPanelColumns = 64;
// Returns the columns of a panel on this machine: a divisor of kPanelColumns.
int64_t PanelWidth();
int64_t PackedElements(int64_t k, int64_t n);
void PackRight(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col, float* packed);
// The same for the bits of float16 or bfloat16, which the panels keep.
void PackRight(int64_t k, int64_t n, const uint16_t* b, int64_t b_row, int64_t b_col, uint16_t* packed);

// Computes the same product with the same bits for columns [begin, end) of c. `begin` is a multiple of kPanelColumns,
// and so is `end` unless it is n. `c` is its first column, not that of `begin`. While one panel is multiplied, the next
// is loaded from memory, which takes as long with few rows.
void GemmPacked(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* packed,
                float* c, int64_t c_row, int64_t begin, int64_t end);
// The same by packed halves of dtype `t`, which become float32 some at a time. `a` is dense, and `c` is column `begin`.
void GemmPackedHalves(int64_t m, int64_t n, int64_t k, const float* a, DType t, const uint16_t* packed, float* c,
                      int64_t c_row, int64_t begin, int64_t end);

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_GEMM_H_
