// Factors with orthonormal columns, in double: A = Q R, A = U diag(s) V^H, and A = V diag(w) V^H of a Hermitian A. Q R
// is LAPACK's (Householder's reflections, whose signs are fixed). Singular vectors and eigenvectors are defined up to a
// factor of magnitude 1, which PyTorch leaves open. Those here come from Jacobi's rotations (Golub and Van Loan,
// "Matrix Computations", 8.5 and 8.6) and, for larger symmetric matrices, from a tridiagonal one. Cost: O(m n^2) for Q
// R, some ten times as much in all for a tridiagonal matrix, and as much per sweep of Jacobi's.
#ifndef SMELT_RUNTIME_LIBRARY_ORTHOGONAL_FACTORS_H_
#define SMELT_RUNTIME_LIBRARY_ORTHOGONAL_FACTORS_H_

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

namespace smelt {

// In column-major order; T is double or std::complex<double>.
template <typename T>
using Columns = std::vector<std::vector<T>>;

namespace orthogonal_internal {

inline double Conj(double x) { return x; }
inline std::complex<double> Conj(const std::complex<double>& x) { return std::conj(x); }

// Returns x^H y.
template <typename T>
T Dot(const std::vector<T>& x, const std::vector<T>& y) {
  T sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += Conj(x[i]) * y[i];
  return sum;
}
template <typename T>
double SquaredNorm(const std::vector<T>& x) {
  double sum = 0;
  for (const T& v : x) sum += std::norm(v);
  return sum;
}

// y -= factor * x, from element `first`.
template <typename T>
void SubtractTimes(const std::vector<T>& x, T factor, size_t first, std::vector<T>& y) {
  for (size_t i = first; i < x.size(); ++i) y[i] -= factor * x[i];
}

// x becomes c x - s f y and y becomes s conj(f) x + c y, with |f| = 1.
template <typename T>
void Rotate(double c, double s, T f, std::vector<T>& x, std::vector<T>& y) {
  const T sf = s * f, sg = Conj(sf);
  for (size_t i = 0; i < x.size(); ++i) {
    const T a = x[i], b = y[i];
    x[i] = c * a - sf * b;
    y[i] = sg * a + c * b;
  }
}

// The rotation that makes [[alpha, gamma], [conj(gamma), beta]] diagonal.
struct Rotation {
  double c, s;
  Rotation(double alpha, double beta, double gamma) {
    const double zeta = (beta - alpha) / (2 * gamma);
    const double t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::hypot(1, zeta));
    c = 1 / std::hypot(1, t);
    s = c * t;
  }
};

constexpr int kMaxSweeps = 60;

template <typename T>
Columns<T> Identity(size_t n) {
  Columns<T> one(n, std::vector<T>(n, T(0)));
  for (size_t i = 0; i < n; ++i) one[i][i] = 1;
  return one;
}

// Appends columns that are orthonormal to the present ones and to each other, until there are `count`.
template <typename T>
void Complete(size_t rows, size_t count, Columns<T>& u) {
  for (size_t axis = 0; u.size() < count && axis < rows; ++axis) {
    std::vector<T> x(rows, T(0));
    x[axis] = 1;
    // Twice is enough: the second pass removes the rounding errors of the first.
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<T>& have : u) SubtractTimes(have, Dot(have, x), 0, x);
    }
    const double size = std::sqrt(SquaredNorm(x));
    // The squared distances of all axes from the span add up to the number of missing columns, so not all can be below
    // this.
    if (size * size * static_cast<double>(rows) < .5) continue;
    for (T& v : x) v /= size;
    u.push_back(std::move(x));
  }
}

// Returns whether `x` has a NaN or an infinity.
template <typename T>
bool IsFinite(const Columns<T>& a) {
  for (const std::vector<T>& column : a) {
    for (const T& v : column) {
      if (!std::isfinite(std::real(v)) || !std::isfinite(std::imag(v))) return false;
    }
  }
  return true;
}

// Divides by a power of 2, so that no square over- or underflows that matters, and returns it.
template <typename T>
double Normalize(Columns<T>& a) {
  double largest = 0;
  for (const std::vector<T>& column : a) {
    for (const T& v : column) largest = std::max({largest, std::abs(std::real(v)), std::abs(std::imag(v))});
  }
  if (!std::isfinite(largest) || largest < std::numeric_limits<double>::min()) return 1;
  const double scale = std::ldexp(1, std::ilogb(largest));
  for (std::vector<T>& column : a) {
    for (T& v : column) v /= scale;
  }
  return scale;
}

// A = Q T Q^T of a symmetric A with a tridiagonal T, by Householder's reflections (Golub and Van Loan, 8.3.1).
struct Tridiagonal {
  std::vector<double> diagonal, beside;  // beside[i] is left of and below diagonal[i + 1]
  Columns<double> q;

  explicit Tridiagonal(Columns<double> a) : diagonal(a.size()), beside(a.size(), 0), q(Identity<double>(a.size())) {
    const size_t n = a.size();
    Columns<double> reflectors(n);
    std::vector<double> taus(n, 0), w(n);
    for (size_t k = 0; k + 2 < n; ++k) {
      std::vector<double>& v = reflectors[k];
      v = a[k];
      std::fill(v.begin(), v.begin() + static_cast<ptrdiff_t>(k) + 1, 0.0);
      const double first = std::exchange(v[k + 1], 0.0), rest = SquaredNorm(v);
      if (!(rest > 0)) continue;
      const double alpha = -std::copysign(std::sqrt(first * first + rest), first);
      v[k + 1] = first - alpha;
      taus[k] = 2 / SquaredNorm(v);
      // A <- H A H = A - v w^T - w v^T, where w = tau A v - (tau^2 v^T A v / 2) v.
      std::fill(w.begin(), w.end(), 0.0);
      for (size_t j = k + 1; j < n; ++j) SubtractTimes(a[j], -taus[k] * v[j], k + 1, w);
      SubtractTimes(v, taus[k] / 2 * Dot(w, v), k + 1, w);
      for (size_t j = k + 1; j < n; ++j) {
        SubtractTimes(v, w[j], k + 1, a[j]);
        SubtractTimes(w, v[j], k + 1, a[j]);
      }
      a[k][k + 1] = alpha;
    }
    for (size_t j = 0; j < n; ++j) {
      diagonal[j] = a[j][j];
      if (j + 1 < n) beside[j] = a[j][j + 1];
    }
    for (size_t k = n; k-- > 0;) {
      if (taus[k] == 0) continue;
      for (size_t j = k + 1; j < n; ++j) SubtractTimes(reflectors[k], taus[k] * Dot(reflectors[k], q[j]), k + 1, q[j]);
    }
  }

  // Makes T diagonal, so that A = Q diag(diagonal) Q^T: by rotations from its end to its beginning, each sweep shifted
  // by an eigenvalue of its upper corner (8.3.3, mirrored). Returns false if it did not converge.
  bool Diagonalize() {
    const size_t n = diagonal.size();
    for (size_t l = 0; l < n; ++l) {
      for (int sweep = 0;; ++sweep) {
        size_t m = l;
        while (m + 1 < n && std::abs(beside[m]) > std::numeric_limits<double>::epsilon() *
                                                      (std::abs(diagonal[m]) + std::abs(diagonal[m + 1]))) {
          ++m;
        }
        if (m == l) break;
        if (sweep == kMaxSweeps) return false;
        const double half = (diagonal[l + 1] - diagonal[l]) / (2 * beside[l]);
        double g = diagonal[m] - diagonal[l] + beside[l] / (half + std::copysign(std::hypot(half, 1), half));
        double c = 1, s = 1, moved = 0;
        bool whole = true;
        for (size_t i = m; i-- > l;) {
          const double f = s * beside[i], b = c * beside[i], r = std::hypot(f, g);
          beside[i + 1] = r;
          if (r == 0) {  // the matrix splits here
            diagonal[i + 1] -= moved;
            beside[m] = 0;
            whole = false;
            break;
          }
          s = f / r, c = g / r;
          g = diagonal[i + 1] - moved;
          const double t = (diagonal[i] - g) * s + 2 * c * b;
          moved = s * t;
          diagonal[i + 1] = g + moved;
          g = c * t - b;
          Rotate(c, s, 1.0, q[i], q[i + 1]);
        }
        if (!whole) continue;
        diagonal[l] -= moved;
        beside[l] = g;
        beside[m] = 0;
      }
    }
    return true;
  }
};

// Up to this many rows Jacobi's rotations are not slower.
constexpr size_t kFewRows = 16;

}  // namespace orthogonal_internal

template <typename T>
struct QrFactors {
  Columns<T> q, r;
};

// Factors `a`, columns of m rows each. Q has min(m, n) columns or, if `complete`, m; R has as many rows.
template <typename T>
QrFactors<T> FactorQr(Columns<T> a, size_t m, bool complete) {
  namespace in = orthogonal_internal;
  const size_t n = a.size(), steps = std::min(m, n), width = complete ? m : steps;
  const double scale = in::Normalize(a);
  std::vector<std::vector<T>> reflectors(steps);
  std::vector<T> taus(steps, T(0));
  const auto reflect = [&](size_t k, T tau, std::vector<T>& x) {
    T dot = 0;
    for (size_t i = k; i < m; ++i) dot += in::Conj(reflectors[k][i]) * x[i];
    in::SubtractTimes(reflectors[k], tau * dot, k, x);
  };
  for (size_t k = 0; k < steps; ++k) {
    std::vector<T>& x = a[k];
    double rest = 0;
    for (size_t i = k + 1; i < m; ++i) rest += std::norm(x[i]);
    const T alpha = x[k];
    reflectors[k].assign(m, T(0));
    reflectors[k][k] = 1;
    if (rest == 0 && std::imag(alpha) == 0) continue;
    const double beta = -std::copysign(std::sqrt(std::norm(alpha) + rest), std::real(alpha));
    taus[k] = (beta - alpha) / beta;
    for (size_t i = k + 1; i < m; ++i) reflectors[k][i] = x[i] / (alpha - beta);
    x[k] = beta;
    for (size_t j = k + 1; j < n; ++j) reflect(k, in::Conj(taus[k]), a[j]);
  }
  QrFactors<T> out;
  for (size_t j = 0; j < n; ++j) {
    std::vector<T> r(width, T(0));
    std::copy(a[j].begin(), a[j].begin() + static_cast<ptrdiff_t>(std::min(width, j + 1)), r.begin());
    for (T& v : r) v *= scale;
    out.r.push_back(std::move(r));
  }
  for (size_t j = 0; j < width; ++j) {
    std::vector<T> q(m, T(0));
    q[j] = 1;
    for (size_t k = steps; k-- > 0;) reflect(k, taus[k], q);
    out.q.push_back(std::move(q));
  }
  return out;
}

template <typename T>
struct SingularFactors {
  Columns<T> u, v;
  std::vector<double> s;  // from the largest on
  bool ok = true;         // false for a matrix with a NaN or an infinity
};

// Factors `a`, columns of m rows each: U and V have min(m, n) columns or, if `full`, m and n. Without `vectors` both
// are empty.
template <typename T>
SingularFactors<T> FactorSingular(Columns<T> a, size_t m, bool full, bool vectors) {
  namespace in = orthogonal_internal;
  const size_t n = a.size();
  SingularFactors<T> out;
  if (!in::IsFinite(a)) {
    out.ok = false;
    return out;
  }
  if (m < n) {
    Columns<T> adjoint(m, std::vector<T>(n));
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) adjoint[i][j] = in::Conj(a[j][i]);
    }
    out = FactorSingular(std::move(adjoint), n, full, vectors);
    std::swap(out.u, out.v);
    return out;
  }
  const double scale = in::Normalize(a);
  // The columns are rotated until they are orthogonal: then a V = U diag(s).
  Columns<T> v = in::Identity<T>(vectors ? n : 0);
  bool turned = n > 1;
  for (int sweep = 0; turned && sweep < in::kMaxSweeps; ++sweep) {
    turned = false;
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        const double alpha = in::SquaredNorm(a[p]), beta = in::SquaredNorm(a[q]);
        const T gamma = in::Dot(a[p], a[q]);
        const double size = std::abs(gamma);
        if (!(size > 4 * std::numeric_limits<double>::epsilon() * std::sqrt(alpha) * std::sqrt(beta))) continue;
        turned = true;
        const in::Rotation r(alpha, beta, size);
        const T phase = in::Conj(gamma) / size;
        in::Rotate(r.c, r.s, phase, a[p], a[q]);
        if (vectors) in::Rotate(r.c, r.s, phase, v[p], v[q]);
      }
    }
  }
  std::vector<double> s(n);
  for (size_t j = 0; j < n; ++j) s[j] = std::sqrt(in::SquaredNorm(a[j]));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return s[x] > s[y]; });
  for (size_t j : order) {
    out.s.push_back(s[j] * scale);
    if (!vectors) continue;
    out.v.push_back(v[j]);
    if (s[j] == 0) continue;  // and so are all after it: any columns that complete the others are correct
    for (T& x : a[j]) x /= s[j];
    out.u.push_back(std::move(a[j]));
  }
  if (vectors) in::Complete(m, full ? m : n, out.u);
  return out;
}

template <typename T>
struct EigenFactors {
  std::vector<double> values;  // from the smallest on
  Columns<T> vectors;
};

// Factors a Hermitian matrix, of which only the lower or the upper triangle is read. If it has a NaN or an infinity,
// all results are NaN.
template <typename T>
EigenFactors<T> FactorHermitian(Columns<T> a, bool upper) {
  namespace in = orthogonal_internal;
  const size_t n = a.size();
  for (size_t j = 0; j < n; ++j) {
    a[j][j] = std::real(a[j][j]);
    for (size_t i = j + 1; i < n; ++i) {
      if (upper) {
        a[j][i] = in::Conj(a[i][j]);
      } else {
        a[i][j] = in::Conj(a[j][i]);
      }
    }
  }
  EigenFactors<T> out;
  if (!in::IsFinite(a)) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    out.values.assign(n, nan);
    out.vectors.assign(n, std::vector<T>(n, T(nan)));
    return out;
  }
  const double scale = in::Normalize(a);
  const auto in_order = [&](const std::vector<double>& values, Columns<T>& vectors) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return values[x] < values[y]; });
    for (size_t j : order) {
      out.values.push_back(values[j] * scale);
      out.vectors.push_back(std::move(vectors[j]));
    }
    return out;
  };
  if constexpr (std::is_same_v<T, double>) {
    if (n > in::kFewRows) {
      in::Tridiagonal t(a);
      if (t.Diagonalize()) return in_order(t.diagonal, t.q);
    }
  }
  Columns<T> v = in::Identity<T>(n);
  bool turned = n > 1;
  for (int sweep = 0; turned && sweep < in::kMaxSweeps; ++sweep) {
    turned = false;
    double largest = 0;
    for (size_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(a[j][j]));
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        const T gamma = a[q][p];
        const double size = std::abs(gamma);
        if (size <= std::numeric_limits<double>::epsilon() / 16 * largest ||
            size < std::numeric_limits<double>::min()) {
          continue;
        }
        turned = true;
        const in::Rotation r(std::real(a[p][p]), std::real(a[q][q]), size);
        const T phase = in::Conj(gamma) / size;
        // From the right along the columns, then from the left along the rows.
        in::Rotate(r.c, r.s, phase, a[p], a[q]);
        const T sf = r.s * in::Conj(phase), sg = in::Conj(sf);
        for (std::vector<T>& column : a) {
          const T x = column[p], y = column[q];
          column[p] = r.c * x - sf * y;
          column[q] = sg * x + r.c * y;
        }
        in::Rotate(r.c, r.s, phase, v[p], v[q]);
      }
    }
  }
  std::vector<double> diagonal(n);
  for (size_t j = 0; j < n; ++j) diagonal[j] = std::real(a[j][j]);
  return in_order(diagonal, v);
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_ORTHOGONAL_FACTORS_H_
