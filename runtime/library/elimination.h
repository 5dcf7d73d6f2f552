// Solves systems of equations of dense matrices, in double: row by row and, for larger real matrices, in blocks of
// rows, which mostly take matrix products. All matrices are row-major without gaps.
#ifndef SMELT_RUNTIME_LIBRARY_ELIMINATION_H_
#define SMELT_RUNTIME_LIBRARY_ELIMINATION_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {

// The columns of a block. Matrices with up to this many rows are one block.
inline constexpr int64_t kFactorBlock = 32;

// Complex numbers have no matrix products here: all columns form one block.
template <typename T>
int64_t BlockOf(int64_t n) {
  return std::is_same_v<T, double> ? std::min(n, kFactorBlock) : n;
}

inline double Magnitude(double x) { return std::abs(x); }
inline double Magnitude(const std::complex<double>& x) { return std::abs(x.real()) + std::abs(x.imag()); }  // LAPACK's

inline double Conjugate(double x) { return x; }
inline std::complex<double> Conjugate(const std::complex<double>& x) { return std::conj(x); }

template <typename T>
SMELT_INLINE void SubtractTimes(T* a, const T* b, T factor, int64_t n) {
  for (int64_t k = 0; k < n; ++k) a[k] -= factor * b[k];
}

// c[m, n] -= a[m, k] @ b[k, n]: the rows of a have the distance `a_row`, those of c `c_row`.
SMELT_INLINE void SubtractProduct(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, const double* b,
                                  int64_t b_row, int64_t b_column, double* c, int64_t c_row) {
  constexpr int64_t kRows = 32;
  if (n == 0 || k == 0) return;
  double* product = reinterpret_cast<double*>(
      Scratch::Get(ScratchUse::kC, std::min(m, kRows) * n * static_cast<int64_t>(sizeof(double))));
  for (int64_t i0 = 0; i0 < m; i0 += kRows) {
    const int64_t rows = std::min(kRows, m - i0);
    Gemm(rows, n, k, a + i0 * a_row, a_row, 1, b, b_row, b_column, product, n);
    for (int64_t i = 0; i < rows; ++i) {
      double* to = c + (i0 + i) * c_row;
      for (int64_t j = 0; j < n; ++j) to[j] -= product[i * n + j];
    }
  }
}

// Factors columns [begin, end) of `a`, rows from `begin` on. Rows are exchanged, with all their elements in `a` and in
// `b` of k columns, so that the pivot is the largest of its column. The factors are stored below the diagonal. To the
// right of the columns, and in b, rows are only exchanged. Returns LAPACK's info: the first pivot that is 0, counted
// from 1, else 0.
template <typename T>
SMELT_INLINE int64_t EliminateColumns(T* a, T* b, int64_t n, int64_t k, int64_t begin, int64_t end, bool* odd) {
  int64_t info = 0;
  for (int64_t j = begin; j < end; ++j) {
    int64_t pivot = j;
    for (int64_t i = j + 1; i < n; ++i) {
      if (Magnitude(a[i * n + j]) > Magnitude(a[pivot * n + j])) pivot = i;
    }
    if (pivot != j) {
      std::swap_ranges(a + j * n + begin, a + j * n + n, a + pivot * n + begin);
      std::swap_ranges(b + j * k, b + j * k + k, b + pivot * k);
      *odd = !*odd;
    }
    if (a[j * n + j] == T(0)) {
      if (info == 0) info = j + 1;
      continue;
    }
    for (int64_t i = j + 1; i < n; ++i) {
      const T factor = a[i * n + j] /= a[j * n + j];
      SubtractTimes(a + i * n + j + 1, a + j * n + j + 1, factor, end - j - 1);
    }
  }
  return info;
}

// Applies the factors below the diagonal of columns [begin, end) of `a` to the same rows of `c`, of `columns` columns,
// whose rows are `c_row` apart.
template <typename T>
SMELT_INLINE void ApplyFactors(const T* a, int64_t n, int64_t begin, int64_t end, T* c, int64_t c_row,
                               int64_t columns) {
  for (int64_t j = begin; j < end; ++j) {
    if (a[j * n + j] == T(0)) continue;
    for (int64_t i = j + 1; i < end; ++i) SubtractTimes(c + i * c_row, c + j * c_row, a[i * n + j], columns);
  }
}

// Gaussian elimination, with the same row operations on `b`, of k columns. U remains above the diagonal and on it.
// Returns LAPACK's info. `odd` is set if an odd number of rows was exchanged.
template <typename T>
SMELT_INLINE int64_t Eliminate(T* a, T* b, int64_t n, int64_t k, bool* odd) {
  *odd = false;
  const int64_t block = BlockOf<T>(n);
  int64_t info = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(n, begin + block);
    const int64_t found = EliminateColumns(a, b, n, k, begin, end, odd);
    if (info == 0) info = found;
    ApplyFactors(a, n, begin, end, a + end, n, n - end);
    ApplyFactors(a, n, begin, end, b, k, k);
    if constexpr (std::is_same_v<T, double>) {
      const double* factors = a + end * n + begin;
      const int64_t below = n - end, across = end - begin;
      SubtractProduct(below, below, across, factors, n, a + begin * n + end, n, 1, a + end * n + end, n);
      SubtractProduct(below, k, across, factors, n, b + begin * k, k, 1, b + end * k, k);
    }
  }
  return info;
}

// Solves rows [begin, end) of b; the equations of the other rows are solved.
template <typename T>
SMELT_INLINE void SubstituteRows(const T* a, T* b, int64_t n, int64_t k, int64_t begin, int64_t end, bool upper,
                                 bool unit) {
  for (int64_t step = begin; step < end; ++step) {
    const int64_t j = upper ? begin + end - 1 - step : step;
    if (!unit) {
      for (int64_t c = 0; c < k; ++c) b[j * k + c] /= a[j * n + j];
    }
    for (int64_t i = upper ? begin : j + 1; i < (upper ? j : end); ++i)
      SubtractTimes(b + i * k, b + j * k, a[i * n + j], k);
  }
}

// Replaces b by the x of A x = b. The other triangle of A is not read.
template <typename T>
SMELT_INLINE void Substitute(const T* a, T* b, int64_t n, int64_t k, bool upper, bool unit) {
  if constexpr (std::is_same_v<T, double>) {
    for (int64_t done = 0; done < n; done += kFactorBlock) {
      const int64_t rows = std::min(kFactorBlock, n - done), begin = upper ? n - done - rows : done;
      // Subtracts the contribution of the solved rows.
      const int64_t solved = upper ? begin + rows : 0;
      SubtractProduct(rows, k, done, a + begin * n + solved, n, b + solved * k, k, 1, b + begin * k, k);
      SubstituteRows(a, b, n, k, begin, begin + rows, upper, unit);
    }
  } else {
    SubstituteRows(a, b, n, k, 0, n, upper, unit);
  }
}

// Computes the lower triangle of columns [begin, end) of `a`, from which the contribution of the earlier columns has
// been subtracted.
template <typename T>
SMELT_INLINE int64_t FactorColumns(T* a, int64_t n, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) {
    double d = std::real(a[j * n + j]);
    for (int64_t k = begin; k < j; ++k) d -= std::norm(a[j * n + k]);
    a[j * n + j] = d;
    if (!(d > 0)) return j + 1;
    const double root = std::sqrt(d);
    a[j * n + j] = root;
    for (int64_t i = j + 1; i < n; ++i) {
      T sum = a[i * n + j];
      for (int64_t k = begin; k < j; ++k) sum -= a[i * n + k] * Conjugate(a[j * n + k]);
      a[i * n + j] = sum / root;
    }
  }
  return 0;
}

// Replaces the lower triangle of `a` by L. Returns the order of the first leading minor that is not positive, else 0.
template <typename T>
SMELT_INLINE int64_t FactorPositive(T* a, int64_t n) {
  const int64_t block = BlockOf<T>(n);
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(n, begin + block);
    if (const int64_t info = FactorColumns(a, n, begin, end); info != 0) return info;
    if constexpr (std::is_same_v<T, double>) {
      // Computes the rest in bands of rows up to the diagonal.
      for (int64_t row = end; row < n; row += block) {
        const int64_t rows = std::min(block, n - row);
        SubtractProduct(rows, row + rows - end, end - begin, a + row * n + begin, n, a + end * n + begin, 1, n,
                        a + row * n + end, n);
      }
    }
  }
  return 0;
}

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_ELIMINATION_H_
