#include "smelt/runtime/library/halves.h"

#include <bit>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {
namespace {

std::vector<uint16_t> EveryHalf() {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

// Numbers near each half, and halfway between two, NaNs and infinities of either sign among them.
std::vector<float> FloatsAbout(float (*value)(uint16_t)) {
  std::vector<float> out;
  for (uint16_t half : EveryHalf()) {
    const uint32_t bits = std::bit_cast<uint32_t>(value(half));
    for (uint32_t more : {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      out.push_back(std::bit_cast<float>(bits + more));
  }
  return out;
}

TEST(HalvesTest, EveryHalfHasTheBitsOfOneByItself) {
  const std::vector<uint16_t> all = EveryHalf();
  std::vector<float> got(all.size());
  ToFloats(DType::kFloat16, all.data(), 1, static_cast<int64_t>(all.size()), got.data());
  for (size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(HalfToFloat(all[i]))) << i;
  ToFloats(DType::kBFloat16, all.data(), 1, static_cast<int64_t>(all.size()), got.data());
  for (size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(BFloat16ToFloat(all[i]))) << i;
}

TEST(HalvesTest, EveryFloatIsRoundedAsOneByItself) {
  std::vector<float> from = FloatsAbout(&HalfToFloat);
  std::vector<uint16_t> got(from.size());
  FromFloats(DType::kFloat16, from.data(), static_cast<int64_t>(from.size()), got.data(), 1);
  for (size_t i = 0; i < from.size(); ++i)
    ASSERT_EQ(got[i], FloatToHalf(from[i])) << std::hex << std::bit_cast<uint32_t>(from[i]);
  from = FloatsAbout(&BFloat16ToFloat);
  FromFloats(DType::kBFloat16, from.data(), static_cast<int64_t>(from.size()), got.data(), 1);
  for (size_t i = 0; i < from.size(); ++i)
    ASSERT_EQ(got[i], FloatToBFloat16(from[i])) << std::hex << std::bit_cast<uint32_t>(from[i]);
}

}  // namespace
}  // namespace smelt
