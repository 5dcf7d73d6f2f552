#include "smelt/core/tensor/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace smelt {
namespace {

// Returns the nearest of two adjacent values of the type, by comparing distances in double, where everything is exact.
template <float (*kToFloat)(uint16_t)>
uint16_t NearestBySearch(float value, uint16_t infinity) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  uint16_t low = 0, high = infinity;  // positive patterns are in order
  while (high - low > 1) {
    const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (static_cast<double>(kToFloat(middle)) <= magnitude ? low : high) = middle;
  }
  // Infinity stands for the value that would follow the largest.
  const double below = kToFloat(low);
  const double above = high == infinity ? below + (below - kToFloat(static_cast<uint16_t>(low - 1))) : kToFloat(high);
  if (magnitude >= above) return sign | high;
  const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low % 2 == 1);
  return sign | (up ? high : low);
}

TEST(Float16Test, EveryHalfComesBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const float f = HalfToFloat(static_cast<uint16_t>(i));
    if (std::isnan(f)) {
      EXPECT_TRUE((i & 0x7c00) == 0x7c00 && (i & 0x3ff) != 0);
      EXPECT_EQ(FloatToHalf(f), i | 0x200);
    } else {
      EXPECT_EQ(FloatToHalf(f), i);
    }
  }
}

TEST(Float16Test, EveryBFloat16ComesBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const float f = BFloat16ToFloat(static_cast<uint16_t>(i));
    EXPECT_EQ(FloatToBFloat16(f), std::isnan(f) ? (i | 0x40) : i);
  }
}

TEST(Float16Test, KnownValues) {
  EXPECT_EQ(FloatToHalf(1.0f), 0x3c00);
  EXPECT_EQ(FloatToHalf(-2.0f), 0xc000);
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(0x1p-24f), 0x0001);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);  // a tie, to even
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_EQ(HalfToFloat(0x2e66), 0.0999755859375f);
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::nanf("")))));
  // A signalling NaN whose payload is in the low bits only must not become infinity.
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::bit_cast<float>(0xff800001u)))));
}

TEST(Float16Test, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 rng(3);
  auto check = [](float f) {
    if (std::isnan(f)) return;
    ASSERT_EQ(FloatToHalf(f), NearestBySearch<HalfToFloat>(f, 0x7c00)) << f;
    ASSERT_EQ(FloatToBFloat16(f), NearestBySearch<BFloat16ToFloat>(f, 0x7f80)) << f;
  };
  for (int i = 0; i < 300000; ++i) check(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  // Around every boundary between two halves: the middle and its neighbours.
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const float low = HalfToFloat(static_cast<uint16_t>(i));
    const float high = i == 0x7bff ? 65536.0f : HalfToFloat(static_cast<uint16_t>(i + 1));
    const float middle = low + (high - low) / 2;
    for (float f : {low, middle, std::nextafterf(middle, 0.0f), std::nextafterf(middle, 1e30f)}) {
      check(f);
      check(-f);
    }
  }
}

}  // namespace
}  // namespace smelt
