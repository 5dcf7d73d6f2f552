// The operands of a "matmul" call. Internal to the library.
#ifndef SMELT_RUNTIME_LIBRARY_MATMUL_PROBLEM_H_
#define SMELT_RUNTIME_LIBRARY_MATMUL_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// The location of a matrix: strides in elements.
struct Matrix {
  int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;

  Matrix Transposed() const { return {cols, rows, col_stride, row_stride}; }
  // Returns whether one stride is 1 and the other is at least a whole line, as BLAS requires.
  bool RowMajor() const { return (col_stride == 1 || cols == 1) && (rows == 1 || row_stride >= cols); }
  bool ColMajor() const { return Transposed().RowMajor(); }
  // Returns the matrix with the strides of a dense one if a dim of size 1 leaves them undetermined.
  Matrix Normalized() const {
    Matrix m = *this;
    if (RowMajor()) {
      m.col_stride = 1;
      if (rows == 1) m.row_stride = cols;
    } else if (ColMajor()) {
      m.row_stride = 1;
      if (cols == 1) m.col_stride = rows;
    }
    return m;
  }
};

struct MatmulProblem {
  DType dtype = DType::kFloat32;      // of a, and of b except in products of bytes
  DType b_dtype = DType::kFloat32;    // int8 or uint8 if a is; else that of a
  DType out_dtype = DType::kFloat32;  // of c and the bias
  int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  std::vector<int64_t> batch;                      // sizes
  std::vector<int64_t> a_batch, b_batch, c_batch;  // strides
  int64_t batches = 1;
  // The strides of the bias, aligned to c; zero where it is broadcast.
  bool has_bias = false;
  std::vector<int64_t> bias_batch;
  int64_t bias_row = 0, bias_col = 0;
  double alpha = 1, beta = 1;
  const char* b_constant = nullptr;
  bool b_serves_all_rows = false;  // OperandShape::serves_all_rows
  bool swapped = false;            // a is the second input, b the first

  int64_t BatchOffset(const std::vector<int64_t>& strides, int64_t i) const {
    int64_t offset = 0;
    for (int d = static_cast<int>(batch.size()) - 1; d >= 0; --d) {
      offset += i % batch[d] * strides[d];
      i /= batch[d];
    }
    return offset;
  }
};

// Checks that the operands fit. Products that can be computed as fewer, larger ones are merged, and a column-major
// result becomes that of the transposed operands.
absl::StatusOr<MatmulProblem> UnderstandMatmul(const LibraryRequest& r);

// Returns whether the overhead of a library call exceeds the time of the multiplications.
inline bool IsSmallMatmul(const MatmulProblem& p) {
  constexpr int64_t kSmall = 16 << 10;
  return p.m <= kSmall && p.n <= kSmall && p.k <= kSmall / (p.m * p.n);
}

// Returns whether it adds products of int8 and of int8 or uint8 in int32.
inline bool MultipliesBytes(const MatmulProblem& p) { return p.out_dtype == DType::kInt32 && ItemSize(p.dtype) == 1; }

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_MATMUL_PROBLEM_H_
