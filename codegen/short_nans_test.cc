#include "smelt/codegen/short_nans.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

// bfloat16(a * b + s) of bfloat16, and the same of a float32.
const char kProducts[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param bfloat16 r [unit] alias=-1
param float32 r [unit] alias=-1
param bfloat16 w [unit] alias=-1
param bfloat16 w [unit] alias=-1
scalar float64
%0 = scalar.s0 float64
%1 = cast float32 %0
%2 = load.p0 bfloat16
%3 = cast float32 %2
%4 = mul float32 %3 %3
%5 = add float32 %4 %1
%6 = cast bfloat16 %5
%7 = store.p2 bfloat16 %6
%8 = load.p1 float32
%9 = add float32 %8 %1
%10 = cast bfloat16 %9
%11 = store.p3 bfloat16 %10
outer 0 1 2 3 4 5 6 7 8 9 10 11
)";

TEST(ShortNansTest, AreThoseOfBFloat16AndOfArithmetic) {
  const std::vector<bool> are_short = HaveShortNans(ParseOrDie(kProducts));
  for (int i : {0, 1, 3, 4, 5}) EXPECT_TRUE(are_short[i]) << i;
  for (int i : {2, 6, 7, 8, 9, 10, 11}) EXPECT_FALSE(are_short[i]) << i;
}

TEST(ShortNansTest, AreNotThoseOfFloat16OrOfFunctions) {
  const std::vector<bool> are_short = HaveShortNans(ParseOrDie(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float16 r [unit] alias=-1
param bfloat16 r [unit] alias=-1
param bfloat16 w [unit] alias=-1
%0 = load.p0 float16
%1 = cast float32 %0
%2 = load.p1 bfloat16
%3 = cast float32 %2
%4 = exp float32 %3
%5 = add float32 %1 %4
%6 = cast bfloat16 %5
%7 = store.p2 bfloat16 %6
outer 0 1 2 3 4 5 6 7
)"));
  EXPECT_FALSE(are_short[1]);
  EXPECT_TRUE(are_short[3]);
  EXPECT_FALSE(are_short[4]);
  EXPECT_FALSE(are_short[5]);
}

class ShortNansKernelTest : public testing::TestWithParam<Target> {};

TEST_P(ShortNansKernelTest, EveryNanStaysOne) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(kProducts), GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  // All NaNs and infinities of bfloat16 and some numbers; those NaNs of float32 that rounding could carry over.
  std::vector<uint16_t> a;
  std::vector<uint32_t> b;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    a.push_back(static_cast<uint16_t>(bits));
    b.push_back(bits << 16 | 0xffff);
  }
  const int64_t n = static_cast<int64_t>(a.size());
  std::vector<uint16_t> from_a(n), from_b(n);
  const auto is_nan = [](uint16_t bits) { return (bits & 0x7fff) > 0x7f80; };
  for (const uint64_t scalar : {uint64_t{0}, uint64_t{0x7fffffffffffffff}, uint64_t{0xfff0000000000001}}) {
    const int64_t words[] = {n,
                             reinterpret_cast<int64_t>(a.data()),
                             reinterpret_cast<int64_t>(b.data()),
                             reinterpret_cast<int64_t>(from_a.data()),
                             reinterpret_cast<int64_t>(from_b.data()),
                             static_cast<int64_t>(scalar)};
    int64_t status[2] = {};
    image->entry(0)(words, 0, n, status);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(is_nan(from_a[i]), scalar != 0 || is_nan(a[i])) << std::hex << a[i] << " gives " << from_a[i];
      ASSERT_EQ(is_nan(from_b[i]), scalar != 0 || (b[i] & 0x7fffffff) > 0x7f800000)
          << std::hex << b[i] << " gives " << from_b[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ShortNansKernelTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

}  // namespace
}  // namespace smelt
