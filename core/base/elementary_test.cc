#include "smelt/core/base/elementary.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Parsed(const std::string& text) {
  double v;
  EXPECT_TRUE(absl::SimpleAtod(text, &v)) << text;
  return v;
}

TEST(PowerTest, OfTenIsTheNearestDouble) {
  for (int n = -307; n <= 308; ++n) EXPECT_EQ(Power(10, n), Parsed(absl::StrCat("1e", n))) << n;
}

TEST(PowerTest, OfAHalfIsTheSquareRoot) {
  // A square root is rounded exactly by the machine.
  for (int n = 2; n < 2000; ++n) {
    EXPECT_EQ(Power(n, 0.5), std::sqrt(static_cast<double>(n))) << n;
    EXPECT_EQ(Power(1 / static_cast<double>(n), 0.5), std::sqrt(1 / static_cast<double>(n))) << n;
  }
  for (int n = -1000; n <= 1000; ++n) EXPECT_EQ(Power(std::ldexp(3, n), 0.5), std::sqrt(std::ldexp(3, n))) << n;
}

TEST(PowerTest, OfIntegersIsARoundedProductOrQuotient) {
  for (int n = 2; n < 2000; ++n) {
    const double d = n;
    EXPECT_EQ(Power(d, 2), d * d);
    EXPECT_EQ(Power(d, 4), d * d * d * d);
    EXPECT_EQ(Power(d, -1), 1 / d) << n;
    EXPECT_EQ(Power(d, -2), 1 / (d * d)) << n;
    EXPECT_EQ(Power(d, -4), 1 / (d * d * d * d)) << n;
  }
  for (int n = -1022; n < 1024; ++n) EXPECT_EQ(Power(2, n), std::ldexp(1, n)) << n;
}

// 50 digits by Python's decimal, of the doubles that the numbers here are.
TEST(PowerTest, OfOtherNumbersIsTheNearestDouble) {
  EXPECT_EQ(Power(64, -0.25), 0.3535533905932738);
  EXPECT_EQ(Power(96, -0.5), 0.10206207261596575);
  EXPECT_EQ(Power(80, -0.5), 0.11180339887498948);
  EXPECT_EQ(Power(768, -0.5), 0.03608439182435161);
  EXPECT_EQ(Power(3, 0.1), 1.1161231740339044);
  EXPECT_EQ(Power(1.5, 1000.25), 1.3654690803883148e+176);
  EXPECT_EQ(Power(0.3, 300.7), 5.893337244792297e-158);
  EXPECT_EQ(Power(1e-300, 0.333), 1.2589254117941513e-100);
  EXPECT_EQ(Power(1.0000001, 1000000.0), 1.1051709126143208);
  EXPECT_EQ(Power(0.999, -12345.678), 231388.86149892173);
  EXPECT_EQ(Power(7e+250, 1.1), 8.503698308273905e+275);
  EXPECT_EQ(Power(5e-324, 0.7), 4.848967349651144e-227);
}

TEST(PowerTest, AtTheEndsIsInfiniteZeroOrOne) {
  EXPECT_EQ(Power(10, 309), kInfinity);
  EXPECT_EQ(Power(0.1, -400), kInfinity);
  EXPECT_EQ(Power(10, -400), 0);
  EXPECT_EQ(Power(2, -1074), 0x1p-1074);
  EXPECT_EQ(Power(2, kInfinity), kInfinity);
  EXPECT_EQ(Power(0.5, kInfinity), 0);
  EXPECT_EQ(Power(kInfinity, -1), 0);
  EXPECT_EQ(Power(kInfinity, 0), 1);
  EXPECT_EQ(Power(1, std::nan("")), 1);
  EXPECT_TRUE(std::isnan(Power(2, std::nan(""))));
}

TEST(Log1pTest, IsTheNearestDouble) {
  EXPECT_EQ(Log1p(-0.1), -0.10536051565782631);
  EXPECT_EQ(Log1p(-0.25), -0.2876820724517809);
  EXPECT_EQ(Log1p(-0.3), -0.35667494393873234);
  EXPECT_EQ(Log1p(-0.5), -0.6931471805599453);
  EXPECT_EQ(Log1p(-0.9), -2.302585092994046);
  EXPECT_EQ(Log1p(-0.999999), -13.815510557935518);
  EXPECT_EQ(Log1p(1e-09), 9.999999995e-10);
  EXPECT_EQ(Log1p(-1e-09), -1.0000000005000001e-09);
  EXPECT_EQ(Log1p(1e-17), 1e-17);
  EXPECT_EQ(Log1p(3e-300), 3e-300);
  EXPECT_EQ(Log1p(0.7), 0.5306282510621704);
  EXPECT_EQ(Log1p(1.0), 0.6931471805599453);
  EXPECT_EQ(Log1p(12345.678), 9.42114231801815);
  EXPECT_EQ(Log1p(1e+300), 690.7755278982137);
}

}  // namespace
}  // namespace smelt
