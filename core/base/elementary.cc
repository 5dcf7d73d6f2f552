#include "smelt/core/base/elementary.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "smelt/core/base/check.h"

namespace smelt {
namespace {

// The sum of two doubles, of which the second is at most half a unit in the last place of the first. Operations are exact
// to some 2^-100 of the result.
struct Pair {
  double high = 0, low = 0;
};

constexpr Pair kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// Requires |a| >= |b|, or a = 0.
Pair FastSum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}

Pair Sum(double a, double b) {
  const double s = a + b, part = s - a;
  return {s, (a - (s - part)) + (b - part)};
}

Pair operator+(Pair a, Pair b) {
  const Pair high = Sum(a.high, b.high), low = Sum(a.low, b.low);
  const Pair most = FastSum(high.high, high.low + low.high);
  return FastSum(most.high, most.low + low.low);
}

Pair operator-(Pair a) { return {-a.high, -a.low}; }

// std::fma rounds once on every machine: without an instruction for it, it is a function.
Pair operator*(Pair a, Pair b) {
  const double p = a.high * b.high;
  return FastSum(p, std::fma(a.high, b.high, -p) + (a.high * b.low + a.low * b.high));
}

Pair operator/(Pair a, Pair b) {
  const double first = a.high / b.high;
  const Pair rest = a + -(b * Pair{first});
  const double second = rest.high / b.high;
  const Pair last = rest + -(b * Pair{second});
  return FastSum(first, second) + Pair{last.high / b.high};
}

// Returns the logarithm of a positive finite number.
Pair Log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) m *= 2, --exponent;
  // log m = 2 atanh((m - 1) / (m + 1)), whose argument is at most 0.172.
  const Pair s = Pair{m - 1} / Sum(m, 1), z = s * s;
  constexpr int kTerms = 24;
  Pair series;
  for (int i = kTerms - 1; i >= 0; --i) series = series * z + Pair{1} / Pair{2.0 * i + 1};
  return s * series * Pair{2} + kLn2 * Pair{static_cast<double>(exponent)};
}

// Returns e to the power of x, |x| < 800.
double Exp(Pair x) {
  const double n = std::nearbyint(x.high / kLn2.high);
  const Pair r = x + -(kLn2 * Pair{n});
  constexpr int kTerms = 28;
  Pair series{1};
  for (int i = kTerms; i > 0; --i) series = series * r / Pair{static_cast<double>(i)} + Pair{1};
  return std::ldexp(series.high, static_cast<int>(n));
}

}  // namespace

double Power(double base, double exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (std::isnan(base) || std::isnan(exponent)) return std::numeric_limits<double>::quiet_NaN();
  SMELT_CHECK(base > 0) << base;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool grows = (base > 1) == (exponent > 0);
  if (std::isinf(base) || std::isinf(exponent)) return grows ? kInfinity : 0;
  const Pair log = Log(base);
  // The smallest and the largest double are e^-744.5 and e^709.8.
  if (std::fabs(log.high * exponent) >= 800) return grows ? kInfinity : 0;
  return Exp(log * Pair{exponent});
}

double Log1p(double x) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  SMELT_CHECK(x > -1) << x;
  // log(h + l) = log h + l / h - ..., where the terms that follow are below 2^-107 of the result.
  const Pair sum = Sum(1, x);
  return (Log(sum.high) + Pair{sum.low} / Pair{sum.high}).high;
}

}  // namespace smelt
