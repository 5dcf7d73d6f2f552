#include "smelt/codegen/maxima.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"
#include "smelt/codegen/test_kernels.h"

namespace smelt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const char kExponentials[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = exp float32 %3
%5 = store.p1 float32 %4
inner 0 1
inner 2 3 4 5
)";

TEST(MaximaTest, ASoftmaxNeedsNoNanOfItsMaximum) {
  const Maxima maxima = FindMaxima(ParseOrDie(kTestSoftmaxByProducts));
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(maxima.may_ignore_nan[i], i == 2) << i;
    EXPECT_EQ(maxima.at_most_zero[i], i == 4) << i;
  }
}

TEST(MaximaTest, WhatIsComputedAnewForTheSumIsTheSameElement) {
  // log(softmax(x * s + i)), without memory between the loops.
  const Maxima maxima = FindMaxima(ParseOrDie(R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
scalar float32
%0 = scalar.s0 float32
%1 = load.p0 float32
%2 = index.d1 int64
%3 = cast float32 %2
%4 = mul float32 %1 %0
%5 = add float32 %4 %3
%6 = reduce.max float32 %5
%7 = load.p0 float32
%8 = index.d1 int64
%9 = cast float32 %8
%10 = mul float32 %7 %0
%11 = add float32 %10 %9
%12 = sub float32 %11 %6
%13 = exp float32 %12
%14 = reduce.sum float32 %13
%15 = log float32 %14
%16 = load.p0 float32
%17 = index.d1 int64
%18 = cast float32 %17
%19 = mul float32 %16 %0
%20 = add float32 %19 %18
%21 = sub float32 %20 %6
%22 = sub float32 %21 %15
%23 = store.p1 float32 %22
outer 0
inner 1 2 3 4 5 6
inner 7 8 9 10 11 12 13 14
outer 15
inner 16 17 18 19 20 21 22 23
)"));
  EXPECT_TRUE(maxima.may_ignore_nan[6]);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(maxima.at_most_zero[i], i == 12 || i == 21) << i;
}

TEST(MaximaTest, AMaximumThatIsAResultStaysNan) {
  std::string text = absl::StrReplaceAll(
      kTestSoftmaxByProducts,
      {{"param float32 rw", "param float32 w [any,zero] alias=-1\nparam float32 rw"}, {".p1", ".p2"}});
  text = absl::StrReplaceAll(
      text, {{"%11 = store.p2 float32 %10\n", "%11 = store.p2 float32 %10\n%12 = store.p1 float32 %2\n"},
             {"inner 9 10 11\n", "inner 9 10 11\nouter 12\n"}});
  const Maxima maxima = FindMaxima(ParseOrDie(text));
  EXPECT_FALSE(maxima.may_ignore_nan[2]);
  EXPECT_TRUE(maxima.at_most_zero[4]);
}

TEST(MaximaTest, AMaximumOfWhichNoSumIsTakenStaysNan) {
  const Maxima maxima = FindMaxima(ParseOrDie(kExponentials));
  EXPECT_FALSE(maxima.may_ignore_nan[1]);
  EXPECT_TRUE(maxima.at_most_zero[3]);
}

TEST(MaximaTest, AResultThatAChoiceMayKeepFromNanNeedsTheMaximumsNan) {
  const std::string text = absl::StrReplaceAll(kTestSoftmaxByProducts, {{"mul float32 %8 %9", "max float32 %8 %9"}});
  // A maximum of two numbers is NaN if one of them is, but this does not hold for every instruction that is not
  // arithmetic.
  EXPECT_FALSE(FindMaxima(ParseOrDie(text)).may_ignore_nan[2]);
}

TEST(MaximaTest, OtherElementsThanThoseOfTheMaximumMayBeAboveIt) {
  const std::string text =
      absl::StrReplaceAll(kTestSoftmaxByProducts, {{"%3 = load.p0 float32", "%3 = load.p1 float32"}});
  const Maxima maxima = FindMaxima(ParseOrDie(text));
  EXPECT_FALSE(maxima.at_most_zero[4]);
  EXPECT_FALSE(maxima.may_ignore_nan[2]);
}

class MaximaKernelTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  }
  LoadedImage Compile(const char* text) {
    absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(text), GetParam());
    EXPECT_TRUE(image.ok()) << image.status();
    return image.ok() ? *std::move(image) : LoadedImage();
  }
};

// Passes one row of `x` through a kernel of two params.
std::vector<float> RowOf(const LoadedImage& image, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const int64_t n = static_cast<int64_t>(x.size());
  const int64_t words[] = {1, n, reinterpret_cast<int64_t>(x.data()), n, reinterpret_cast<int64_t>(y.data()), n};
  int64_t status = 0;
  image.entry(0)(words, 0, 1, &status);
  return y;
}

// Expected are PyTorch's results.
TEST_P(MaximaKernelTest, RowsWithNanAndInfinitiesAreAsInPyTorch) {
  const LoadedImage softmax = Compile(kTestSoftmaxByProducts);
  for (size_t n : {1u, 5u, 8u, 63u, 64u, 200u, 1024u, 5000u}) {
    for (size_t at : {size_t{0}, n / 2, n - 1}) {
      SCOPED_TRACE(absl::StrCat(n, " elements, place ", at));
      std::vector<float> x(n);
      for (size_t i = 0; i < n; ++i) x[i] = 0.25f * static_cast<float>(i % 7);
      for (float special : {kNan, -kNan, kInf}) {
        x[at] = special;
        for (float y : RowOf(softmax, x)) ASSERT_TRUE(std::isnan(y));
      }
      if (n == 1) continue;
      x[at] = -kInf;
      const std::vector<float> y = RowOf(softmax, x);
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += y[i];
      EXPECT_EQ(y[at], 0);
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    for (float y : RowOf(softmax, std::vector<float>(n, -kInf))) ASSERT_TRUE(std::isnan(y));
    for (float y : RowOf(softmax, std::vector<float>(n, kNan))) ASSERT_TRUE(std::isnan(y));
  }
}

TEST_P(MaximaKernelTest, ExponentialsUpToOneAreWithinFourUnitsOfTheLastPlace) {
  // The maximum is 0, whose subtraction loses nothing.
  std::vector<float> x = {0.0f, -0.0f, -kInf, -std::numeric_limits<float>::max(), -1e9f, -1e4f, -150.0f};
  for (uint32_t bits = 0x80000000u; bits < 0xff800000u; bits += 9973) {
    float v;
    std::memcpy(&v, &bits, sizeof v);
    x.push_back(v);
  }
  for (float v = -80; v > -110; v -= 0.0007f) x.push_back(v);  // to denormal results and on to 0
  const std::vector<float> y = RowOf(Compile(kExponentials), x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    int exponent;
    std::frexp(want, &exponent);
    const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
    const double off = std::fabs(y[i] - want) / unit;
    ASSERT_LE(off, 4) << x[i] << " gives " << y[i];
    worst = std::max(worst, off);
  }
  std::printf("%s %.2f ulp\n", Name(GetParam()), worst);
}

INSTANTIATE_TEST_SUITE_P(Targets, MaximaKernelTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

}  // namespace
}  // namespace smelt
