// Factors with orthonormal columns, in complex double: A = Q R, A = U diag(s) V^H, and A = V diag(w) V^H of a Hermitian
// A. Q R is LAPACK's (Householder's reflections, whose signs are fixed). Singular vectors and eigenvectors are defined
// up to a factor of magnitude 1, which PyTorch leaves open. Those here come from Jacobi's rotations (Golub and Van Loan,
// "Matrix Computations", 8.5 and 8.6).
#ifndef SMELT_CORE_EVAL_ORTHOGONAL_FACTORS_H_
#define SMELT_CORE_EVAL_ORTHOGONAL_FACTORS_H_

#include <complex>
#include <cstddef>
#include <vector>

namespace smelt::eval_internal {

using Cx = std::complex<double>;
// In column-major order.
using Columns = std::vector<std::vector<Cx>>;

struct QrFactors {
  Columns q, r;
};

// Factors `a`, columns of m rows each. Q has min(m, n) columns or, if `complete`, m; R has as many rows.
QrFactors FactorQr(Columns a, size_t m, bool complete);

struct SingularFactors {
  Columns u, v;
  std::vector<double> s;  // from the largest on
  bool ok = true;         // false for a matrix with a NaN or an infinity
};

// Factors `a`, columns of m rows each: U and V have min(m, n) columns or, if `full`, m and n. Without `vectors` both
// are empty.
SingularFactors FactorSingular(Columns a, size_t m, bool full, bool vectors);

struct EigenFactors {
  std::vector<double> values;  // from the smallest on
  Columns vectors;
};

// Factors a Hermitian matrix, of which only the lower or the upper triangle is read. If it has a NaN or an infinity,
// all results are NaN.
EigenFactors FactorHermitian(Columns a, bool upper);

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_ORTHOGONAL_FACTORS_H_
