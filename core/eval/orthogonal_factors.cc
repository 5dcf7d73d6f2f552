#include "smelt/core/eval/orthogonal_factors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace smelt::eval_internal {
namespace {

// Returns x^H y.
Cx Dot(const std::vector<Cx>& x, const std::vector<Cx>& y) {
  Cx sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::conj(x[i]) * y[i];
  return sum;
}
double SquaredNorm(const std::vector<Cx>& x) {
  double sum = 0;
  for (const Cx& v : x) sum += std::norm(v);
  return sum;
}

// y -= factor * x, from element `first`.
void SubtractTimes(const std::vector<Cx>& x, Cx factor, size_t first, std::vector<Cx>& y) {
  for (size_t i = first; i < x.size(); ++i) y[i] -= factor * x[i];
}

// x becomes c x - s f y and y becomes s conj(f) x + c y, with |f| = 1.
void Rotate(double c, double s, Cx f, std::vector<Cx>& x, std::vector<Cx>& y) {
  const Cx sf = s * f, sg = std::conj(sf);
  for (size_t i = 0; i < x.size(); ++i) {
    const Cx a = x[i], b = y[i];
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

Columns Identity(size_t n) {
  Columns one(n, std::vector<Cx>(n, Cx(0)));
  for (size_t i = 0; i < n; ++i) one[i][i] = 1;
  return one;
}

// Appends columns that are orthonormal to the present ones and to each other, until there are `count`.
void Complete(size_t rows, size_t count, Columns& u) {
  for (size_t axis = 0; u.size() < count && axis < rows; ++axis) {
    std::vector<Cx> x(rows, Cx(0));
    x[axis] = 1;
    // Twice is enough: the second pass removes the rounding errors of the first.
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<Cx>& have : u) SubtractTimes(have, Dot(have, x), 0, x);
    }
    const double size = std::sqrt(SquaredNorm(x));
    // The squared distances of all axes from the span add up to the number of missing columns, so not all can be below
    // this.
    if (size * size * static_cast<double>(rows) < .5) continue;
    for (Cx& v : x) v /= size;
    u.push_back(std::move(x));
  }
}

// Returns whether no element is a NaN or an infinity.
bool IsFinite(const Columns& a) {
  for (const std::vector<Cx>& column : a) {
    for (const Cx& v : column) {
      if (!std::isfinite(std::real(v)) || !std::isfinite(std::imag(v))) return false;
    }
  }
  return true;
}

// Divides by a power of 2, so that no square over- or underflows that matters, and returns it.
double Normalize(Columns& a) {
  double largest = 0;
  for (const std::vector<Cx>& column : a) {
    for (const Cx& v : column) largest = std::max({largest, std::abs(std::real(v)), std::abs(std::imag(v))});
  }
  if (!std::isfinite(largest) || largest < std::numeric_limits<double>::min()) return 1;
  const double scale = std::ldexp(1, std::ilogb(largest));
  for (std::vector<Cx>& column : a) {
    for (Cx& v : column) v /= scale;
  }
  return scale;
}

}  // namespace

QrFactors FactorQr(Columns a, size_t m, bool complete) {
  const size_t n = a.size(), steps = std::min(m, n), width = complete ? m : steps;
  const double scale = Normalize(a);
  std::vector<std::vector<Cx>> reflectors(steps);
  std::vector<Cx> taus(steps, Cx(0));
  const auto reflect = [&](size_t k, Cx tau, std::vector<Cx>& x) {
    Cx dot = 0;
    for (size_t i = k; i < m; ++i) dot += std::conj(reflectors[k][i]) * x[i];
    SubtractTimes(reflectors[k], tau * dot, k, x);
  };
  for (size_t k = 0; k < steps; ++k) {
    std::vector<Cx>& x = a[k];
    double rest = 0;
    for (size_t i = k + 1; i < m; ++i) rest += std::norm(x[i]);
    const Cx alpha = x[k];
    reflectors[k].assign(m, Cx(0));
    reflectors[k][k] = 1;
    if (rest == 0 && std::imag(alpha) == 0) continue;
    const double beta = -std::copysign(std::sqrt(std::norm(alpha) + rest), std::real(alpha));
    taus[k] = (beta - alpha) / beta;
    for (size_t i = k + 1; i < m; ++i) reflectors[k][i] = x[i] / (alpha - beta);
    x[k] = beta;
    for (size_t j = k + 1; j < n; ++j) reflect(k, std::conj(taus[k]), a[j]);
  }
  QrFactors out;
  for (size_t j = 0; j < n; ++j) {
    std::vector<Cx> r(width, Cx(0));
    std::copy(a[j].begin(), a[j].begin() + static_cast<ptrdiff_t>(std::min(width, j + 1)), r.begin());
    for (Cx& v : r) v *= scale;
    out.r.push_back(std::move(r));
  }
  for (size_t j = 0; j < width; ++j) {
    std::vector<Cx> q(m, Cx(0));
    q[j] = 1;
    for (size_t k = steps; k-- > 0;) reflect(k, taus[k], q);
    out.q.push_back(std::move(q));
  }
  return out;
}

SingularFactors FactorSingular(Columns a, size_t m, bool full, bool vectors) {
  const size_t n = a.size();
  SingularFactors out;
  if (!IsFinite(a)) {
    out.ok = false;
    return out;
  }
  if (m < n) {
    Columns adjoint(m, std::vector<Cx>(n));
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) adjoint[i][j] = std::conj(a[j][i]);
    }
    out = FactorSingular(std::move(adjoint), n, full, vectors);
    std::swap(out.u, out.v);
    return out;
  }
  const double scale = Normalize(a);
  // The columns are rotated until they are orthogonal: then a V = U diag(s).
  Columns v = Identity(vectors ? n : 0);
  bool turned = n > 1;
  for (int sweep = 0; turned && sweep < kMaxSweeps; ++sweep) {
    turned = false;
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        const double alpha = SquaredNorm(a[p]), beta = SquaredNorm(a[q]);
        const Cx gamma = Dot(a[p], a[q]);
        const double size = std::abs(gamma);
        if (!(size > 4 * std::numeric_limits<double>::epsilon() * std::sqrt(alpha) * std::sqrt(beta))) continue;
        turned = true;
        const Rotation r(alpha, beta, size);
        const Cx phase = std::conj(gamma) / size;
        Rotate(r.c, r.s, phase, a[p], a[q]);
        if (vectors) Rotate(r.c, r.s, phase, v[p], v[q]);
      }
    }
  }
  std::vector<double> s(n);
  for (size_t j = 0; j < n; ++j) s[j] = std::sqrt(SquaredNorm(a[j]));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return s[x] > s[y]; });
  for (size_t j : order) {
    out.s.push_back(s[j] * scale);
    if (!vectors) continue;
    out.v.push_back(v[j]);
    if (s[j] == 0) continue;  // and so are all after it: any columns that complete the others are correct
    for (Cx& x : a[j]) x /= s[j];
    out.u.push_back(std::move(a[j]));
  }
  if (vectors) Complete(m, full ? m : n, out.u);
  return out;
}

EigenFactors FactorHermitian(Columns a, bool upper) {
  const size_t n = a.size();
  for (size_t j = 0; j < n; ++j) {
    a[j][j] = std::real(a[j][j]);
    for (size_t i = j + 1; i < n; ++i) {
      if (upper) {
        a[j][i] = std::conj(a[i][j]);
      } else {
        a[i][j] = std::conj(a[j][i]);
      }
    }
  }
  EigenFactors out;
  if (!IsFinite(a)) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    out.values.assign(n, nan);
    out.vectors.assign(n, std::vector<Cx>(n, Cx(nan)));
    return out;
  }
  const double scale = Normalize(a);
  Columns v = Identity(n);
  bool turned = n > 1;
  for (int sweep = 0; turned && sweep < kMaxSweeps; ++sweep) {
    turned = false;
    double largest = 0;
    for (size_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(a[j][j]));
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        const Cx gamma = a[q][p];
        const double size = std::abs(gamma);
        if (size <= std::numeric_limits<double>::epsilon() / 16 * largest ||
            size < std::numeric_limits<double>::min()) {
          continue;
        }
        turned = true;
        const Rotation r(std::real(a[p][p]), std::real(a[q][q]), size);
        const Cx phase = std::conj(gamma) / size;
        // From the right along the columns, then from the left along the rows.
        Rotate(r.c, r.s, phase, a[p], a[q]);
        const Cx sf = r.s * std::conj(phase), sg = std::conj(sf);
        for (std::vector<Cx>& column : a) {
          const Cx x = column[p], y = column[q];
          column[p] = r.c * x - sf * y;
          column[q] = sg * x + r.c * y;
        }
        Rotate(r.c, r.s, phase, v[p], v[q]);
      }
    }
  }
  std::vector<double> diagonal(n);
  for (size_t j = 0; j < n; ++j) diagonal[j] = std::real(a[j][j]);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return diagonal[x] < diagonal[y]; });
  for (size_t j : order) {
    out.values.push_back(diagonal[j] * scale);
    out.vectors.push_back(std::move(v[j]));
  }
  return out;
}

}  // namespace smelt::eval_internal
