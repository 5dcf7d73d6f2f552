// Operands that hold matrices in their last two dims.
#ifndef SMELT_RUNTIME_LIBRARY_MATRICES_H_
#define SMELT_RUNTIME_LIBRARY_MATRICES_H_

#include <cstdint>

#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// A file may claim any size. A matrix with this many rows and columns takes some gigabytes in double.
inline constexpr int64_t kLargestMatrix = 1 << 14;

// Returns whether the numbers are float32 or float64, or complex with parts of these: those that factorizations and
// Fourier transforms take.
inline bool IsSingleOrDouble(DType t) { return (IsFloating(t) || IsComplex(t)) && OpMathType(t) == t; }

// The matrices of an operand: the sizes of its last two dims and of those before them.
struct Matrices {
  OperandShape shape;
  int64_t rows = 0, columns = 0, count = 1;

  explicit Matrices(const OperandShape& o) : shape(o) {
    rows = o.sizes[o.rank() - 2];
    columns = o.sizes[o.rank() - 1];
    for (int d = 0; d + 2 < o.rank(); ++d) count *= o.sizes[d];
  }
  // Returns the offset of matrix i, in elements. The dims before the matrix are the first dims of `o`.
  static int64_t OffsetOf(const OperandShape& o, int64_t i, int dims) {
    int64_t at = 0;
    for (int d = dims; d-- > 0;) {
      at += i % o.sizes[d] * o.strides[d];
      i /= o.sizes[d];
    }
    return at;
  }
  int64_t OffsetOf(int64_t i) const { return OffsetOf(shape, i, shape.rank() - 2); }
  int64_t row_stride() const { return shape.strides[shape.rank() - 2]; }
  int64_t column_stride() const { return shape.strides[shape.rank() - 1]; }
};

template <typename M, typename T>
SMELT_INLINE void LoadMatrix(const Matrices& m, int64_t i, const char* data, T* to) {
  const M* p = reinterpret_cast<const M*>(data) + m.OffsetOf(i);
  const int64_t down = m.row_stride(), along = m.column_stride();
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.columns; ++c) to[r * m.columns + c] = static_cast<T>(p[r * down + c * along]);
  }
}
template <typename M, typename T>
SMELT_INLINE void StoreMatrix(const Matrices& m, int64_t i, const T* from, char* data) {
  M* p = reinterpret_cast<M*>(data) + m.OffsetOf(i);
  const int64_t down = m.row_stride(), along = m.column_stride();
  for (int64_t c = 0; c < m.columns; ++c) {
    for (int64_t r = 0; r < m.rows; ++r) p[r * down + c * along] = static_cast<M>(from[r * m.columns + c]);
  }
}

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_MATRICES_H_
