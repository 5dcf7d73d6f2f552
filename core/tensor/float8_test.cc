#include "smelt/core/tensor/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace smelt {
namespace {

constexpr DType kTypes[] = {DType::kFloat8E4M3FN, DType::kFloat8E5M2};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns the nearest of two adjacent values of the dtype, by comparing distances in double, where everything is exact.
// `most` is the largest finite pattern.
uint8_t NearestBySearch(DType t, float value, uint8_t most) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  uint8_t low = 0, high = most;  // positive patterns are in order
  if (magnitude >= Float8ToFloat(t, most)) return sign | most;
  while (high - low > 1) {
    const uint8_t middle = static_cast<uint8_t>((low + high) / 2);
    (Float8ToFloat(t, middle) <= magnitude ? low : high) = middle;
  }
  const double below = Float8ToFloat(t, low), above = Float8ToFloat(t, high);
  const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low % 2 == 1);
  return sign | (up ? high : low);
}

TEST(Float8Test, EveryFloat8ComesBack) {
  for (const DType t : kTypes) {
    for (int i = 0; i < 256; ++i) {
      const float f = Float8ToFloat(t, static_cast<uint8_t>(i));
      // The payload of a NaN is lost.
      EXPECT_EQ(FloatToFloat8(t, f), std::isnan(f) ? i | 0x7f : i) << Name(t) << " " << i;
    }
  }
}

TEST(Float8Test, ValuesArePyTorchs) {
  // torch.tensor([...], dtype=torch.uint8).view(dtype).float() of PyTorch 2.13
  EXPECT_EQ(Float8E4M3FNToFloat(0x01), 0.001953125f);
  EXPECT_EQ(Float8E4M3FNToFloat(0x38), 1);
  EXPECT_EQ(Float8E4M3FNToFloat(0xfe), -448);
  EXPECT_TRUE(std::isnan(Float8E4M3FNToFloat(0x7f)));
  EXPECT_EQ(Float8E5M2ToFloat(0x01), 1.52587890625e-05f);
  EXPECT_EQ(Float8E5M2ToFloat(0x7b), 57344);
  EXPECT_EQ(Float8E5M2ToFloat(0xfc), -kInfinity);
  EXPECT_TRUE(std::isnan(Float8E5M2ToFloat(0x7d)));
}

TEST(Float8Test, TooLargeIsWhatPyTorchMakesOfIt) {
  // torch.tensor([...]).to(dtype).view(torch.uint8) of PyTorch 2.13
  for (const float large : {448.0f, 464.0f, 465.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(FloatToFloat8E4M3FN(large), 0x7e) << large;
    EXPECT_EQ(FloatToFloat8E4M3FN(-large), 0xfe) << large;
  }
  EXPECT_EQ(FloatToFloat8E5M2(61439), 0x7b);
  for (const float large : {61440.0f, 65536.0f, 1e30f, kInfinity}) EXPECT_EQ(FloatToFloat8E5M2(large), 0x7c) << large;
  for (const DType t : kTypes) EXPECT_EQ(FloatToFloat8(t, std::nanf("")), 0x7f);
}

TEST(Float8Test, RoundsToTheNearestTiesToEven) {
  std::mt19937 random(0);
  for (int i = 0; i < 200000; ++i) {
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 40) - 24);
    float value = static_cast<float>(random()) / 4294967296.0f * scale;
    if (i % 4 == 0) {  // in the middle between two
      const uint8_t low = static_cast<uint8_t>(random() % 0x7e);
      value = (Float8E4M3FNToFloat(low) + Float8E4M3FNToFloat(low + 1)) / 2;
    }
    if (i % 2 == 1) value = -value;
    ASSERT_EQ(FloatToFloat8E4M3FN(value), NearestBySearch(DType::kFloat8E4M3FN, value, 0x7e)) << value;
    if (std::fabs(value) >= 57344) continue;
    ASSERT_EQ(FloatToFloat8E5M2(value), NearestBySearch(DType::kFloat8E5M2, value, 0x7b)) << value;
  }
}

}  // namespace
}  // namespace smelt
