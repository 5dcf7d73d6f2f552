// Compares inline functions with the C library in higher precision: every k-th of the 2^32 floats, for each target that
// this machine runs. SMELT_MATH_STRIDE=1 tests all of them (minutes per function); SMELT_MATH_OP=sin tests one function
// alone.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "absl/base/casts.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

using Real = long double;

Real Digamma(Real x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0) {
    if (x == std::floor(x)) return NAN;
    const Real f = x - std::nearbyint(x);
    return Digamma(1 - x) - static_cast<Real>(M_PIl) / std::tan(static_cast<Real>(M_PIl) * f);
  }
  Real r = 0;
  for (; x < 20; x += 1) r -= 1 / x;
  const Real z = 1 / (x * x);
  return r + std::log(x) - 1 / (2 * x) -
         z * (1.0L / 12 -
              z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * 691.0L / 32760)))));
}

Real Erfinv(Real x) {
  const Real a = std::fabs(x);
  if (!(a <= 1)) return NAN;
  if (a == 1) return std::copysign(static_cast<Real>(INFINITY), x);
  Real y = a < 0.5 ? a * std::sqrt(static_cast<Real>(M_PIl)) / 2 : std::sqrt(-std::log(1 - a));
  for (int i = 0; i < 60; ++i) {
    const Real error = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const Real step = error * std::sqrt(static_cast<Real>(M_PIl)) / 2 * std::exp(y * y);
    const Real next = y - step / (1 + y * step);
    if (next == y) break;
    y = next;
  }
  return std::copysign(y, x);
}

// Computes in the precision of x, which is much higher than that of the tested function.
template <typename F>
F ReferenceOf(ScalarOp op, F x) {
  switch (op) {
    case ScalarOp::kSqrt:
      return std::sqrt(x);
    case ScalarOp::kRsqrt:
      return 1 / std::sqrt(x);
    case ScalarOp::kExp:
      return std::exp(x);
    case ScalarOp::kExp2:
      return std::exp2(x);
    case ScalarOp::kExpm1:
      return std::expm1(x);
    case ScalarOp::kLog:
      return std::log(x);
    case ScalarOp::kLog2:
      return std::log2(x);
    case ScalarOp::kLog10:
      return std::log10(x);
    case ScalarOp::kLog1p:
      return std::log1p(x);
    case ScalarOp::kSin:
      return std::sin(x);
    case ScalarOp::kCos:
      return std::cos(x);
    case ScalarOp::kTan:
      return std::tan(x);
    case ScalarOp::kAsin:
      return std::asin(x);
    case ScalarOp::kAcos:
      return std::acos(x);
    case ScalarOp::kAtan:
      return std::atan(x);
    case ScalarOp::kSinh:
      return std::sinh(x);
    case ScalarOp::kCosh:
      return std::cosh(x);
    case ScalarOp::kTanh:
      return std::tanh(x);
    case ScalarOp::kAsinh:
      return std::asinh(x);
    case ScalarOp::kAcosh:
      return std::acosh(x);
    case ScalarOp::kAtanh:
      return std::atanh(x);
    case ScalarOp::kErf:
      return std::erf(x);
    case ScalarOp::kErfc:
      return std::erfc(x);
    case ScalarOp::kErfinv:
      return Erfinv(x);
    case ScalarOp::kLgamma:
      return std::lgamma(x);
    case ScalarOp::kDigamma:
      return Digamma(x);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return NAN;
  }
}

// A kernel of one function, from params of `type` to a param of it.
class Function {
 public:
  Function(ScalarOp op, DType type, int operands, Target target) : operands_(operands) {
    KernelSpec spec;
    spec.parallel_rank = 1;
    spec.vector_dim = 0;
    spec.phases.emplace_back();
    auto add = [&](KernelInstr in) {
      in.type = type;
      spec.phases[0].instrs.push_back(static_cast<int>(spec.instrs.size()));
      spec.instrs.push_back(in);
    };
    KernelInstr compute;
    for (int k = 0; k <= operands; ++k) {
      KernelParam p;
      p.dtype = type;
      p.is_read = k < operands;
      p.is_written = k == operands;
      p.strides = {StrideClass::kUnit};
      spec.params.push_back(p);
      if (k == operands) break;
      KernelInstr load;
      load.op = KernelOp::kLoad;
      load.param = k;
      add(load);
      compute.operands.push_back(k);
    }
    compute.op = KernelOp::kScalar;
    compute.scalar = op;
    add(compute);
    KernelInstr store;
    store.op = KernelOp::kStore;
    store.param = operands;
    store.operands = {operands};
    add(store);
    absl::StatusOr<LoadedImage> image = CompileAndLoad(spec, target);
    EXPECT_TRUE(image.ok()) << image.status();
    if (image.ok()) image_ = *std::move(image);
  }
  template <typename T>
  std::vector<T> operator()(const std::vector<T>& x, const std::vector<T>& y = {}) const {
    std::vector<T> out(x.size());
    std::vector<int64_t> words = {static_cast<int64_t>(x.size()), reinterpret_cast<int64_t>(x.data())};
    if (operands_ == 2) words.push_back(reinterpret_cast<int64_t>(y.data()));
    words.push_back(reinterpret_cast<int64_t>(out.data()));
    int64_t status = 0;
    image_.entry(0)(words.data(), 0, words[0], &status);
    return out;
  }

 private:
  int operands_;
  LoadedImage image_;
};

// Returns the distance of `got` from `want`, in units of T's last place at `want`.
template <typename T>
double Ulps(T got, Real want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isnan(got)) return INFINITY;
  const T rounded = static_cast<T>(want);
  if (got == rounded) return rounded == 0 && std::signbit(got) != std::signbit(rounded) ? INFINITY : 0;
  const int digits = std::numeric_limits<T>::digits;
  const int least = std::numeric_limits<T>::min_exponent - digits;
  if (std::isinf(rounded) || std::isinf(got)) {
    // The neighbour of infinity is the largest number.
    const Real largest = std::numeric_limits<T>::max();
    const Real w = std::isinf(rounded) ? std::copysign(largest, want) : want;
    const Real g = std::isinf(got) ? std::copysign(largest, static_cast<Real>(got)) : static_cast<Real>(got);
    if (std::signbit(w) != std::signbit(g)) return INFINITY;
    return std::fabs(static_cast<double>((w - g) / std::ldexp(Real{1}, std::numeric_limits<T>::max_exponent - digits)));
  }
  int exponent;
  std::frexp(want, &exponent);
  const Real unit = std::ldexp(Real{1}, std::max(exponent - digits, least));
  return static_cast<double>(std::fabs(static_cast<Real>(got) - want) / unit);
}

const ScalarOp kUnary[] = {
    ScalarOp::kSqrt,    ScalarOp::kRsqrt,  ScalarOp::kExp,     ScalarOp::kExp2, ScalarOp::kExpm1, ScalarOp::kLog,
    ScalarOp::kLog2,    ScalarOp::kLog10,  ScalarOp::kLog1p,   ScalarOp::kSin,  ScalarOp::kCos,   ScalarOp::kTan,
    ScalarOp::kAsin,    ScalarOp::kAcos,   ScalarOp::kAtan,    ScalarOp::kSinh, ScalarOp::kCosh,  ScalarOp::kTanh,
    ScalarOp::kAsinh,   ScalarOp::kAcosh,  ScalarOp::kAtanh,   ScalarOp::kErf,  ScalarOp::kErfc,  ScalarOp::kErfinv,
    ScalarOp::kSigmoid, ScalarOp::kLgamma, ScalarOp::kDigamma,
};

class MathTest : public testing::TestWithParam<ScalarOp> {
 protected:
  void SetUp() override {
    const char* only = std::getenv("SMELT_MATH_OP");
    if (only && std::string(only) != Name(GetParam())) GTEST_SKIP();
  }
};

TEST_P(MathTest, FloatIsWithinFourUnitsOfTheLastPlace) {
  const ScalarOp op = GetParam();
  uint32_t stride = 8191;
  const char* text = std::getenv("SMELT_MATH_STRIDE");
  ASSERT_TRUE(!text || absl::SimpleAtoi(text, &stride));
  std::vector<Target> targets;
  std::vector<Function> functions;
  std::vector<double> worst;
  std::vector<float> where;
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    targets.push_back(t);
    functions.emplace_back(op, DType::kFloat32, 1, t);
    worst.push_back(0);
    where.push_back(0);
  }
  constexpr size_t kBatch = 1 << 16;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32;) {
    std::vector<float> x;
    std::vector<Real> want;
    for (; bits < uint64_t{1} << 32 && x.size() < kBatch; bits += stride) {
      const uint32_t b = static_cast<uint32_t>(bits);
      float f;
      std::memcpy(&f, &b, 4);
      x.push_back(f);
      // The C library's double is precise enough, except where the function has zeros that are not floats.
      want.push_back(op == ScalarOp::kLgamma || op == ScalarOp::kDigamma || op == ScalarOp::kErfinv
                         ? ReferenceOf<Real>(op, f)
                         : ReferenceOf<double>(op, f));
    }
    for (size_t t = 0; t < targets.size(); ++t) {
      const std::vector<float> got = functions[t](x);
      for (size_t i = 0; i < x.size(); ++i) {
        const double u = Ulps(got[i], want[i]);
        if (u > worst[t]) {
          worst[t] = u;
          where[t] = x[i];
        }
      }
    }
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    std::printf("%-8s float32 %-10s %6.2f ulp at %.9g\n", Name(op), Name(targets[t]), worst[t], where[t]);
    EXPECT_LE(worst[t], 4) << Name(op) << " for " << Name(targets[t]) << " at " << where[t];
  }
}

TEST_P(MathTest, BitsDoNotHangOnThePlace) {
  const ScalarOp op = GetParam();
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    const Function function(op, DType::kFloat32, 1, t);
    for (float x : {-1.7f, -0.3f, 0.0f, 0.11f, 0.9f, 2.6f, 17.0f}) {
      // Whole steps of several vectors, one vector, and a remainder.
      const std::vector<float> got = function(std::vector<float>(77, x));
      for (size_t i = 1; i < got.size(); ++i) {
        ASSERT_EQ(absl::bit_cast<uint32_t>(got[i]), absl::bit_cast<uint32_t>(got[0]))
            << Name(op) << "(" << x << ") at " << i << " " << Name(t);
      }
    }
  }
}

TEST_P(MathTest, EdgesAreAsInTheCLibrary) {
  const ScalarOp op = GetParam();
  const float kInf = INFINITY;
  std::vector<float> x = {
      0.0f,      -0.0f, kInf,   -kInf,   NAN,     1,      -1,      0.5f,           -0.5f,         2,
      -2,        3,     -3,     1e-45f,  -1e-45f, 1e-40f, -1e-40f, 1.1754944e-38f, 3.4028235e38f, -3.4028235e38f,
      88.72284f, 88.8f, -87.4f, -103.9f, -104.1f, 1e30f,  -1e30f,  1e-20f,         0.99999994f,   1.0000001f};
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    const std::vector<float> got = Function(op, DType::kFloat32, 1, t)(x);
    std::vector<double> wide(x.begin(), x.end());
    const std::vector<double> got64 = Function(op, DType::kFloat64, 1, t)(wide);
    for (size_t i = 0; i < x.size(); ++i) {
      const Real want = ReferenceOf<Real>(op, x[i]);
      EXPECT_LE(Ulps(got[i], want), 4) << Name(op) << "(" << x[i] << ") = " << got[i] << ", expected "
                                       << static_cast<double>(want) << " for " << Name(t);
      EXPECT_LE(Ulps(got64[i], want), 1e6) << Name(op) << "(" << x[i] << ") = " << got64[i] << " in double, expected "
                                           << static_cast<double>(want) << " for " << Name(t);
    }
  }
}

TEST_P(MathTest, DoubleIsWithinSixteenUnitsOfTheLastPlaceOnCommonArguments) {
  const ScalarOp op = GetParam();
  std::mt19937_64 rng(7);
  std::vector<double> x;
  for (int i = 0; i < 40000; ++i) {
    const double u = static_cast<double>(rng()) * 0x1p-64;
    const double sign = rng() & 1 ? 1 : -1;
    switch (i % 4) {
      case 0:
        x.push_back(sign * u * 4);
        break;
      case 1:
        x.push_back(sign * std::exp(u * 80 - 40));
        break;
      case 2:
        x.push_back(sign * u);
        break;
      default:
        x.push_back(sign * u * 700);
        break;
    }
  }
  // Where the value passes through zero, the absolute error counts.
  const bool has_zeros = op == ScalarOp::kLgamma || op == ScalarOp::kDigamma;
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    const std::vector<double> got = Function(op, DType::kFloat64, 1, t)(x);
    double worst = 0, where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const Real want = ReferenceOf<Real>(op, x[i]);
      if (has_zeros && std::fabs(want) < 0.5) continue;
      // Near 1 the argument of erfinv has few digits: its neighbours have very different values.
      if (op == ScalarOp::kErfinv && std::fabs(x[i]) > 0.999999) continue;
      // Near the poles of the reflection the rounding of x dominates.
      if (has_zeros && x[i] < -20) continue;
      const double u = Ulps(got[i], want);
      if (u > worst) {
        worst = u;
        where = x[i];
      }
    }
    std::printf("%-8s float64 %-10s %6.2f ulp at %.17g\n", Name(op), Name(t), worst, where);
    EXPECT_LE(worst, has_zeros ? 64 : 16) << Name(op) << " for " << Name(t) << " at " << where;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, MathTest, testing::ValuesIn(kUnary), [](const auto& info) { return Name(info.param); });

// Pairs of arguments, both common and unusual.
std::vector<std::pair<float, float>> Pairs() {
  std::vector<float> special = {0.0f,
                                -0.0f,
                                1,
                                -1,
                                2,
                                -2,
                                3,
                                -3,
                                0.5f,
                                -0.5f,
                                1.5f,
                                -2.5f,
                                1e-45f,
                                -1e-40f,
                                1e-30f,
                                1e30f,
                                -1e30f,
                                3.4028235e38f,
                                -3.4028235e38f,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                16777216.0f,
                                16777215.0f,
                                1.0000001f,
                                0.99999994f,
                                -0.99999994f,
                                100,
                                1e10f};
  std::vector<std::pair<float, float>> out;
  for (float a : special) {
    for (float b : special) out.emplace_back(a, b);
  }
  std::mt19937_64 rng(3);
  for (int i = 0; i < 400000; ++i) {
    float a, b;
    if (i % 3 == 0) {
      const uint32_t x = static_cast<uint32_t>(rng()), y = static_cast<uint32_t>(rng());
      std::memcpy(&a, &x, 4);
      std::memcpy(&b, &y, 4);
    } else if (i % 3 == 1) {
      a = std::exp((static_cast<float>(rng() % 20001) - 10000) * 1e-3f);
      b = (static_cast<float>(rng() % 20001) - 10000) * 1e-3f;
    } else {
      a = (static_cast<float>(rng() % 20001) - 10000) * 1e-3f;
      b = static_cast<float>(static_cast<int>(rng() % 41) - 20);
    }
    out.emplace_back(a, b);
  }
  return out;
}

void ExpectBinary(ScalarOp op, double limit, const std::function<Real(Real, Real)>& f,
                  const std::function<double(double, double)>& exact64) {
  const auto pairs = Pairs();
  std::vector<float> x, y;
  std::vector<double> x64, y64;
  for (auto [a, b] : pairs) {
    x.push_back(a);
    y.push_back(b);
    x64.push_back(a);
    y64.push_back(b);
  }
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    const std::vector<float> got = Function(op, DType::kFloat32, 2, t)(x, y);
    const std::vector<double> got64 = Function(op, DType::kFloat64, 2, t)(x64, y64);
    double worst = 0, worst64 = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const Real want = f(x[i], y[i]);
      const double u = Ulps(got[i], want);
      worst = std::max(worst, u);
      ASSERT_LE(u, limit) << Name(op) << "(" << absl::StrFormat("%a, %a", x[i], y[i]) << ") = " << got[i]
                          << ", expected " << static_cast<double>(want) << " for " << Name(t);
      const Real want64 = exact64 ? Real{exact64(x64[i], y64[i])} : f(x64[i], y64[i]);
      const double u64 = Ulps(got64[i], want64);
      worst64 = std::max(worst64, u64);
      ASSERT_LE(u64, limit) << Name(op) << "(" << absl::StrFormat("%a, %a", x64[i], y64[i]) << ") = " << got64[i]
                            << " in double, expected " << static_cast<double>(want64) << " for " << Name(t);
    }
    std::printf("%-8s %-10s float32 %.2f float64 %.2f ulp\n", Name(op), Name(t), worst, worst64);
  }
}

TEST(BinaryMathTest, Pow) {
  ExpectBinary(ScalarOp::kPow, 4, [](Real a, Real b) { return std::pow(a, b); }, nullptr);
}
TEST(BinaryMathTest, Atan2) {
  ExpectBinary(ScalarOp::kAtan2, 4, [](Real a, Real b) { return std::atan2(a, b); }, nullptr);
}
TEST(BinaryMathTest, Hypot) {
  ExpectBinary(ScalarOp::kHypot, 4, [](Real a, Real b) { return std::hypot(a, b); }, nullptr);
}
TEST(BinaryMathTest, FmodIsExact) {
  ExpectBinary(ScalarOp::kRemTrunc, 0, [](Real a, Real b) { return std::fmod(a, b); }, nullptr);
}
TEST(BinaryMathTest, NextAfterIsExact) {
  ExpectBinary(
      ScalarOp::kNextAfter, 0,
      [](Real a, Real b) { return std::nextafter(static_cast<float>(a), static_cast<float>(b)); },
      [](double a, double b) { return std::nextafter(a, b); });
}

TEST(BinaryMathTest, FmodOfDoublesIsExactOverAllExponents) {
  std::mt19937_64 rng(11);
  std::vector<double> x, y;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t a = rng(), b = rng();
    x.emplace_back();
    y.emplace_back();
    std::memcpy(&x.back(), &a, 8);
    std::memcpy(&y.back(), &b, 8);
  }
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    const std::vector<double> got = Function(ScalarOp::kRemTrunc, DType::kFloat64, 2, t)(x, y);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(Ulps(got[i], std::fmod(x[i], y[i])), 0) << absl::StrFormat("%a %a", x[i], y[i]) << " " << Name(t);
    }
  }
}

// A kernel that applies a function of one argument repeatedly.
absl::StatusOr<KernelSpec> Repeated(ScalarOp op, DType type, int times) {
  const std::string t(Name(type));
  std::string text = absl::StrFormat(
      "kernel parallel=1 reduction=0 vector=0 sequential=0\nparam %1$s r [unit] alias=-1\nparam %1$s w [unit] "
      "alias=-1\n%%0 = load.p0 %1$s\n",
      t);
  for (int k = 1; k <= times; ++k) absl::StrAppendFormat(&text, "%%%d = %s %s %%%d\n", k, Name(op), t, k - 1);
  absl::StrAppendFormat(&text, "%%%d = store.p1 %s %%%d\nouter", times + 1, t, times);
  for (int k = 0; k <= times + 1; ++k) absl::StrAppend(&text, " ", k);
  return ParseKernelSpec(absl::StrCat(text, "\n"));
}

template <typename T>
void ExpectRepetitionIsTheSame(ScalarOp op, DType type, int times) {
  absl::StatusOr<KernelSpec> spec = Repeated(op, type, times);
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::vector<T> x;
  for (int i = 0; i < 77; ++i) x.push_back(static_cast<T>(i * i * 0.37 - 40));
  x.push_back(static_cast<T>(1e30));  // one lane of a vector leaves it
  for (Target t : kHostTargets) {
    if (!RunsHere(t)) continue;
    absl::StatusOr<LoadedImage> image = CompileAndLoad(*spec, t);
    ASSERT_TRUE(image.ok()) << image.status();
    std::vector<T> want = x, got(x.size());
    const Function once(op, type, 1, t);
    for (int k = 0; k < times; ++k) want = once(want);
    const int64_t words[] = {static_cast<int64_t>(x.size()), reinterpret_cast<int64_t>(x.data()),
                             reinterpret_cast<int64_t>(got.data())};
    int64_t status = 0;
    image->entry(0)(words, 0, words[0], &status);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(Ulps(got[i], want[i]), 0) << Name(op) << " of " << x[i] << Name(t);
  }
}

TEST(RepeatedMathTest, CalledFunctionsGiveTheBitsOfInlinedOnes) {
  ExpectRepetitionIsTheSame<float>(ScalarOp::kCos, DType::kFloat32, 60);
  ExpectRepetitionIsTheSame<double>(ScalarOp::kCos, DType::kFloat64, 60);
  ExpectRepetitionIsTheSame<float>(ScalarOp::kLgamma, DType::kFloat32, 9);
  ExpectRepetitionIsTheSame<float>(ScalarOp::kAsinh, DType::kFloat32, 40);
}

TEST(RepeatedMathTest, CodeOfAHundredIsNotAHundredTimesThatOfOne) {
  auto bytes = [](int times) {
    absl::StatusOr<KernelSpec> spec = Repeated(ScalarOp::kLgamma, DType::kFloat32, times);
    EXPECT_TRUE(spec.ok()) << spec.status();
    absl::StatusOr<KernelObject> object = CompileKernel(*spec, Target::kX86_64_V3);
    EXPECT_TRUE(object.ok()) << object.status();
    return object.ok() ? object->bytes.size() : 0;
  };
  EXPECT_LT(bytes(100), 20 * bytes(1));
}

TEST(FmaTest, RoundsOnceOnEveryTarget) {
  KernelSpec spec;
  for (DType type : {DType::kFloat32, DType::kFloat64}) {
    absl::StatusOr<KernelSpec> parsed = ParseKernelSpec(absl::StrFormat(
        "kernel parallel=1 reduction=0 vector=0 sequential=0\nparam %1$s r [unit] alias=-1\nparam %1$s r [unit] "
        "alias=-1\n"
        "param %1$s r [unit] alias=-1\nparam %1$s w [unit] alias=-1\n%%0 = load.p0 %1$s\n%%1 = load.p1 %1$s\n"
        "%%2 = load.p2 %1$s\n%%3 = fma %1$s %%0 %%1 %%2\n%%4 = store.p3 %1$s %%3\nouter 0 1 2 3 4\n",
        std::string(Name(type))));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    std::mt19937_64 rng(5);
    auto run = [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> a, b, c;
      for (int i = 0; i < 20000; ++i) {
        // Sums that nearly cancel, so that the low half of the product counts.
        const T x = static_cast<T>(static_cast<double>(rng()) * 0x1p-60 - 8);
        const T y = static_cast<T>(static_cast<double>(rng()) * 0x1p-60 - 8);
        a.push_back(x);
        b.push_back(y);
        c.push_back(i % 2 ? -x * y : static_cast<T>(static_cast<double>(rng()) * 0x1p-62));
      }
      for (Target t : kHostTargets) {
        if (!RunsHere(t)) continue;
        absl::StatusOr<LoadedImage> image = CompileAndLoad(*parsed, t);
        ASSERT_TRUE(image.ok()) << image.status();
        std::vector<T> out(a.size());
        const int64_t words[] = {static_cast<int64_t>(a.size()), reinterpret_cast<int64_t>(a.data()),
                                 reinterpret_cast<int64_t>(b.data()), reinterpret_cast<int64_t>(c.data()),
                                 reinterpret_cast<int64_t>(out.data())};
        int64_t status = 0;
        image->entry(0)(words, 0, words[0], &status);
        for (size_t i = 0; i < a.size(); ++i)
          ASSERT_EQ(out[i], std::fma(a[i], b[i], c[i])) << a[i] << " " << b[i] << " " << c[i] << Name(t);
      }
    };
    if (type == DType::kFloat32) run(0.0f);
    if (type == DType::kFloat64) run(0.0);
  }
}

}  // namespace
}  // namespace smelt
