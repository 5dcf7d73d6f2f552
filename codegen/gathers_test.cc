// Vectors of elements at indices from data: gathered, or loaded lane by lane, depending on the machine that runs the
// kernel.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

constexpr int64_t kRows = 90;

// table[index], and twice the next element.
std::string Lookup(const std::string& type) {
  return absl::StrCat("kernel parallel=1 reduction=0 vector=0 sequential=0\nparam ", type,
                      " r [zero] alias=-1\nparam int64 r [unit] alias=-1\nparam ", type,
                      " w [unit] alias=-1\n%0 = load.p1 int64\n%1 = load.p0 ", type,
                      " %0 +offset\n%2 = const int64 1\n%3 = add int64 %0 %2\n%4 = load.p0 ", type,
                      " %3 +offset\n%5 = add ", type, " %4 %4\n%6 = add ", type, " %1 %5\n%7 = store.p2 ", type,
                      " %6\nouter 0 1 2 3 4 5 6 7\n");
}

class GathersTest : public testing::TestWithParam<Target> {};

// If there are no elements, a wrong index has no substitute, so nothing is read or written.
TEST_P(GathersTest, IndicesOfADimWithoutElementsAreRefusedBeforeAnythingIsRead) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  const KernelSpec spec = ParseOrDie(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [zero] alias=-1
param int64 r [unit] alias=-1
param float32 w [unit] alias=-1
scalar int64
%0 = load.p1 int64
%1 = scalar.s0 int64
%2 = check_index int64 %0 %1
%3 = load.p0 float32 %2 +offset
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)");
  absl::StatusOr<LoadedImage> image = CompileAndLoad(spec, GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  std::vector<int64_t> indices(40, 0);
  std::vector<float> out(40, 7);
  const float element = 5;
  for (const int64_t size : {1, 0}) {
    for (const int64_t n : {0, 40}) {
      // A read through the null pointer would end the test.
      const int64_t words[] = {n, size > 0 ? reinterpret_cast<int64_t>(&element) : 0,
                               reinterpret_cast<int64_t>(indices.data()), reinterpret_cast<int64_t>(out.data()), size};
      int64_t status[2] = {};
      std::fill(out.begin(), out.end(), 7.0f);
      image->entry(0)(words, 0, n, status);
      EXPECT_EQ(status[0], size == 0 && n > 0 ? 1 : 0) << size << " " << n;
      EXPECT_EQ(out[39], size > 0 && n > 0 ? 5 : 7) << size << " " << n;
    }
  }
}

TEST_P(GathersTest, EqualTheInterpreterWhateverTheMachineIsGoodAt) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const std::string type : {"float32", "float64", "int64", "int32", "int16"}) {
    SCOPED_TRACE(type);
    RandomCase c;
    c.spec = ParseOrDie(Lookup(type));
    absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    for (int64_t length : {1, 7, 16, 63, 300}) {
      c.launch = DenseLaunch(c.spec, {length}, rng);
      const size_t item = c.launch.contents[2].size() / length;
      c.launch.elements[0] = kRows + 1;
      c.launch.contents[0].resize((kRows + 1) * item);
      // Small integers for every type.
      for (size_t k = 1; k <= kRows; ++k) {
        const int64_t from = static_cast<int64_t>(rng() % length) * static_cast<int64_t>(item);
        std::memcpy(&c.launch.contents[0][k * item], &c.launch.contents[2][from], item);
      }
      for (int64_t k = 0; k < length; ++k) {
        const int64_t at = static_cast<int64_t>(rng() % kRows);
        std::memcpy(&c.launch.contents[1][k * 8], &at, 8);
      }
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "") << length;
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "") << length;
    }
  }
}

// Indices count from 100000; the substitute for a missing one is outside the table.
TEST_P(GathersTest, TheLanesBehindARowsEndReadNothingOutsideOfTheTable) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  RandomCase c;
  c.spec = ParseOrDie(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [zero,zero] alias=-1
param int64 r [zero,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p1 int64
%1 = const int64 100000
%2 = sub int64 %0 %1
%3 = load.p0 float32 %2 +offset
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)");
  absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  for (int64_t length = 1; length <= 40; ++length) {
    c.launch = DenseLaunch(c.spec, {3, length}, rng);
    c.launch.elements[0] = length;
    c.launch.contents[0] = c.launch.contents[2];
    c.launch.contents[0].resize(length * sizeof(float));
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = 100000 + static_cast<int64_t>(rng() % length);
      std::memcpy(&c.launch.contents[1][k * 8], &at, 8);
    }
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "") << length;
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 2), "") << length;
  }
}

// Like an adaptive pool of a strided image: its windows begin at 2 c + 1, which a phase before the reduction computes.
TEST_P(GathersTest, PlacesMayBeSumsOfAnEarlierPhase) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  RandomCase c;
  c.spec = ParseOrDie(R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [zero,any] alias=-1
param float32 w [unit,zero] alias=-1
%0 = index.d0 int64
%1 = const int64 2
%2 = mul int64 %0 %1
%3 = const int64 1
%4 = add int64 %3 %2
%5 = load.p0 float32 %4 +offset
%6 = reduce.max float32 %5
%7 = store.p1 float32 %6
outer 0 1 2 3 4
inner 5 6
outer 7
)");
  absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  for (int64_t columns : {1, 7, 16, 63, 300}) {
    c.launch = DenseLaunch(c.spec, {columns, 5}, rng);
    c.launch.elements[0] = 2 * columns + 1 + 5;
    std::vector<uint8_t>& table = c.launch.contents[0];
    table.resize(c.launch.elements[0] * sizeof(float));
    for (int64_t k = 0; k < c.launch.elements[0]; ++k) {
      const float v = static_cast<float>(rng() % 100);
      std::memcpy(&table[k * sizeof(float)], &v, sizeof(float));
    }
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "") << columns;
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "") << columns;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, GathersTest, testing::ValuesIn(kHostTargets),
                         [](const auto& level) { return absl::StrCat("V", static_cast<int>(level.param)); });

TEST(GathersTest, AKernelHoldsBothWaysOnlyWhereItLoadsWhatDataChoose) {
  const KernelSpec lookup = ParseOrDie(Lookup("float32"));
  auto text = PrintKernel(lookup, Target::kX86_64_V4, KernelText::kLlvmIr);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("@kernel_gathers("), std::string::npos);
  EXPECT_NE(text->find("@kernel_apart("), std::string::npos);
  const std::vector<std::string> halves = absl::StrSplit(*text, "define internal void @kernel_gathers(");
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[0].find("call <16 x float> @llvm.masked.gather"), std::string::npos);
  EXPECT_NE(halves[1].find("call <16 x float> @llvm.masked.gather"), std::string::npos);
  // AVX2's gathers are slower in all cases, and indices that follow from the loop need none.
  text = PrintKernel(lookup, Target::kX86_64_V3, KernelText::kLlvmIr);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->find("@kernel_gathers("), std::string::npos);
  const KernelSpec copy = ParseOrDie(
      "kernel parallel=1 reduction=0 vector=0 sequential=0\nparam float32 r [any] alias=-1\nparam float32 w [unit] "
      "alias=-1\n%0 = load.p0 float32\n%1 = store.p1 float32 %0\nouter 0 1\n");
  text = PrintKernel(copy, Target::kX86_64_V4, KernelText::kLlvmIr);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->find("@kernel_gathers("), std::string::npos);
}

}  // namespace
}  // namespace smelt
