// bfloat16 in compiled kernels: rounding, and loops that process two vectors at a time as words.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"
#include "smelt/codegen/test_kernels.h"

namespace smelt {
namespace {

// x * w, rounded before and after.
constexpr char kScaleTwice[] = R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param bfloat16 r [unit] alias=-1
param bfloat16 r [unit] alias=-1
param bfloat16 w [unit] alias=-1
%0 = load.p0 bfloat16
%1 = cast float32 %0
%2 = mul float32 %1 %1
%3 = cast bfloat16 %2
%4 = cast float32 %3
%5 = load.p1 bfloat16
%6 = cast float32 %5
%7 = mul float32 %4 %6
%8 = cast bfloat16 %7
%9 = store.p2 bfloat16 %8
outer 0 1 2 3 4 5 6 7 8 9
)";
// -log(x).
constexpr char kMinusLog[] = R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param bfloat16 r [unit] alias=-1
param bfloat16 w [unit] alias=-1
%0 = load.p0 bfloat16
%1 = cast float32 %0
%2 = log float32 %1
%3 = neg float32 %2
%4 = cast bfloat16 %3
%5 = store.p1 bfloat16 %4
outer 0 1 2 3 4 5
)";
// x - max, a row at a time.
constexpr char kMinusMax[] = R"(
kernel parallel=1 reduction=1 vector=1 sequential=0
param bfloat16 r [any,unit] alias=-1
param bfloat16 w [any,unit] alias=-1
%0 = load.p0 bfloat16
%1 = cast float32 %0
%2 = reduce.max float32 %1
%3 = load.p0 bfloat16
%4 = cast float32 %3
%5 = sub float32 %4 %2
%6 = cast bfloat16 %5
%7 = store.p1 bfloat16 %6
inner 0 1 2
inner 3 4 5 6 7
)";

// Rounds to nearest, ties to even; each NaN becomes 0x7fc0.
uint16_t Rounded(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  const uint32_t low = bits & 0xffff, high = bits >> 16;
  return static_cast<uint16_t>(high + (low > 0x8000 || (low == 0x8000 && high % 2 == 1)));
}
uint32_t Wide(uint16_t half) { return static_cast<uint32_t>(half) << 16; }
uint32_t Product(uint32_t a, uint32_t b) {
  float x, y;
  std::memcpy(&x, &a, 4);
  std::memcpy(&y, &b, 4);
  x *= y;
  std::memcpy(&a, &x, 4);
  return a;
}

class BFloat16Test : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  }
  LoadedImage Load(const KernelSpec& spec) {
    absl::StatusOr<LoadedImage> image = CompileAndLoad(spec, GetParam());
    EXPECT_TRUE(image.ok()) << image.status();
    return *std::move(image);
  }
};

TEST_P(BFloat16Test, RoundsToEvenAndEachNanToTheSame) {
  const KernelSpec spec = ParseOrDie(kTestRounding);
  const LoadedImage image = Load(spec);
  std::vector<uint32_t> x;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) x.push_back(high << 16 | low);
  }
  x.resize(x.size() + 5, 0x3f808000);  // and a rest that fills no vector
  std::vector<uint16_t> y(x.size());
  const auto n = static_cast<int64_t>(x.size());
  const int64_t words[] = {n, reinterpret_cast<int64_t>(x.data()), reinterpret_cast<int64_t>(y.data())};
  int64_t status = 0;
  image.entry(0)(words, 0, n, &status);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], Rounded(x[i])) << std::hex << x[i];
}

TEST_P(BFloat16Test, NansOfFunctionsAreTheSameInPairsToo) {
  const LoadedImage image = Load(ParseOrDie(kMinusLog));
  constexpr int64_t kAll = 1 << 16;
  std::vector<uint16_t> x(kAll), y(kAll);
  for (int64_t i = 0; i < kAll; ++i) x[i] = static_cast<uint16_t>(i);
  const int64_t words[] = {kAll, reinterpret_cast<int64_t>(x.data()), reinterpret_cast<int64_t>(y.data())};
  int64_t status = 0;
  image.entry(0)(words, 0, kAll, &status);
  for (int64_t i = 0; i < kAll; ++i) {
    const bool is_nan = (i & 0x7fff) > 0x7f80 || (i > 0x8000 && i < 0x10000);  // of NaN and of what is below 0
    ASSERT_EQ(y[i] == 0x7fc0, is_nan) << std::hex << x[i];
  }
  EXPECT_EQ(y[0x3f80], 0x8000);  // of 1
  EXPECT_EQ(y[0], 0x7f80);
  EXPECT_EQ(y[0x4000], 0xbf31);  // of 2: .6931 to 8 bits
}

TEST_P(BFloat16Test, AnyNumberOfElementsEqualsTheInterpreter) {
  std::mt19937_64 rng(1);
  for (const char* text : {kScaleTwice, kMinusMax}) {
    RandomCase c;
    c.spec = ParseOrDie(text);
    const LoadedImage image = Load(c.spec);
    for (int64_t n : {1, 2, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 1000}) {
      SCOPED_TRACE(n);
      c.launch = DenseLaunch(c.spec, c.spec.rank() == 1 ? std::vector<int64_t>{n} : std::vector<int64_t>{3, n}, rng);
      ASSERT_EQ(CompareWithInterpreter(c, image.entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image.entry(0), Guard::kBegin, 3), "");
    }
  }
}

TEST_P(BFloat16Test, StoresPastTheCacheAreTheSameFromAnyFirstElement) {
  const KernelSpec spec = ParseOrDie(kScaleTwice);
  const LoadedImage image = Load(spec);
  const int64_t n = (17 << 20) / 2;
  std::vector<uint16_t> x(n + 64), w(n + 64), y(n + 64);
  std::mt19937 rng(2);
  for (int64_t i = 0; i < n + 64; ++i) {
    x[i] = static_cast<uint16_t>(rng());
    w[i] = static_cast<uint16_t>(0x3f00 + rng() % 0x100);
  }
  for (int64_t first : {0, 1, 7, 32}) {
    std::fill(y.begin(), y.end(), 0xabcd);
    const int64_t words[] = {n, reinterpret_cast<int64_t>(x.data()), reinterpret_cast<int64_t>(w.data()),
                             reinterpret_cast<int64_t>(y.data() + first)};
    int64_t status = 0;
    image.entry(0)(words, 0, n, &status);
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t square = Wide(Rounded(Product(Wide(x[i]), Wide(x[i]))));
      const uint16_t want = Rounded(Product(square, Wide(w[i])));
      if (want == 0x7fc0) {  // of bfloat16 NaNs stay the ones they were
        ASSERT_GT(y[first + i] & 0x7fff, 0x7f80) << first << " " << i;
      } else {
        ASSERT_EQ(y[first + i], want) << first << " " << i;
      }
    }
    ASSERT_EQ(y[first + n], 0xabcd);
    ASSERT_TRUE(first == 0 || y[first - 1] == 0xabcd);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BFloat16Test, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
