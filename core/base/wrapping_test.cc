#include "smelt/core/base/wrapping.h"

#include <complex>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace smelt {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

TEST(WrappingTest, IntegersWrapAroundInTwosComplement) {
  EXPECT_EQ(WrappingAdd(kMost, int64_t{1}), kLeast);
  EXPECT_EQ(WrappingSub(kLeast, int64_t{1}), kMost);
  EXPECT_EQ(WrappingMul(kMost, int64_t{2}), -2);
  EXPECT_EQ(WrappingMul(kLeast, int64_t{-1}), kLeast);
  EXPECT_EQ(WrappingMul<int8_t>(100, 3), 44);  // 300 - 256
  EXPECT_EQ(WrappingMul<uint16_t>(65535, 65535), 1);
}

TEST(WrappingTest, TheLeastIntegerIsItsOwnAbsoluteValue) {
  EXPECT_EQ(WrappingAbs(kLeast), kLeast);
  EXPECT_EQ(WrappingAbs(-7), 7);
  EXPECT_EQ(WrappingAbs(kMost), kMost);
}

TEST(WrappingTest, OtherNumbersAreComputedAsTheyAre) {
  EXPECT_EQ(WrappingAdd(0.5, 0.25), 0.75);
  EXPECT_EQ(WrappingMul(std::complex<double>(0, 1), std::complex<double>(0, 1)), std::complex<double>(-1, 0));
}

}  // namespace
}  // namespace smelt
