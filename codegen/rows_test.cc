// Compares kernels whose rows are pipelined, the last loop of one row after the first loop of the next, with the
// interpreter. Reductions are maxima and minima, which give the same bits in any order.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

struct Rows {
  const char* name;
  const char* text;
};

// The last loop uses values from before it: reductions, values computed from them, a row's own operand, its index,
// memory. Quotients make the loops expensive enough for pipelining.
const Rows kRows[] = {
    {"TwoLoops", R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 r [any,zero] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p1 float32
%1 = load.p0 float32
%2 = reduce.max float32 %1
%3 = mul float32 %2 %0
%4 = index.d0 int64
%5 = cast float32 %4
%6 = load.p0 float32
%7 = sub float32 %6 %3
%8 = div float32 %5 %7
%9 = div float32 %8 %6
%10 = div float32 %9 %7
%11 = add float32 %10 %5
%12 = store.p2 float32 %11
outer 0
inner 1 2
outer 3 4 5
inner 6 7 8 9 10 11 12
)"},
    {"ThreeLoopsKeptInTheResult", R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 rw [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = reduce.min float32 %3
%5 = store.p1 float32 %3
%6 = abs float32 %4
%7 = load.p1 float32
%8 = mul float32 %7 %6
%9 = div float32 %6 %8
%10 = div float32 %9 %7
%11 = div float32 %10 %8
%12 = store.p1 float32 %11
inner 0 1
inner 2 3 4 5
outer 6
inner 7 8 9 10 11 12
)"},
    {"ResultsAfterTheLastLoop", R"(kernel parallel=2 reduction=1 vector=2 sequential=0
param float32 r [any,any,unit] alias=-1
param float32 w [any,any,zero] alias=-1
param float32 w [any,any,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = add float32 %2 %1
%4 = abs float32 %3
%5 = div float32 %1 %4
%6 = reduce.min float32 %5
%7 = sub float32 %6 %1
%8 = store.p1 float32 %7
%9 = store.p2 float32 %1
inner 0 1
inner 2 3 4 5 6
outer 7 8 9
)"},
};

class RowsTest : public testing::TestWithParam<std::tuple<Target, Rows>> {};

TEST_P(RowsTest, EqualTheInterpreter) {
  const auto [target, rows] = GetParam();
  if (!RunsHere(target)) GTEST_SKIP() << "this machine is below " << Name(target);
  std::mt19937_64 rng(1);
  RandomCase c;
  c.spec = ParseOrDie(rows.text);
  c.zeros_may_differ = true;
  absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, target);
  ASSERT_TRUE(image.ok()) << image.status();
  // One row and several rows; rows that fit twice in the first-level cache, rows that do not, and rows longer than what
  // is kept next to them. Also blocks of 128: one element less, exactly, one more, in memory whose first aligned
  // address is inside a block.
  for (int64_t length : {1, 7, 100, 127, 128, 129, 300, 1024, 3000, 4096, 9001}) {
    for (int64_t count : {1, 2, 5}) {
      SCOPED_TRACE(absl::StrCat(count, " rows of ", length));
      std::vector<int64_t> sizes = {count, length};
      if (c.spec.rank() == 3) sizes = {count, 3, length};
      c.launch = DenseLaunch(c.spec, sizes, rng);
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
    }
  }
}

class LongRowsTest : public testing::TestWithParam<Target> {};

// The first aligned address differs per row; elements before it and after the last one are stored differently from
// those between.
TEST_P(LongRowsTest, OfWhichEachBeginsInAnotherPlaceOfALineGoPastTheCacheWhole) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(R"(
kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = div float32 %3 %1
%5 = div float32 %4 %1
%6 = div float32 %5 %1
%7 = store.p1 float32 %6
inner 0 1
inner 2 3 4 5 6 7
)"),
                                                     GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  constexpr int64_t kCount = 4500, kLength = 1001;  // 18 MB
  std::vector<float> x(kCount * kLength), y(kCount * kLength + 1, -1);
  std::mt19937 rng(3);
  for (float& v : x) v = static_cast<float>(rng() % 1000);
  const int64_t words[] = {
      kCount, kLength, reinterpret_cast<int64_t>(x.data()), kLength, reinterpret_cast<int64_t>(y.data()), kLength};
  int64_t status = 0;
  image->entry(0)(words, 0, kCount, &status);
  for (int64_t row = 0; row < kCount; ++row) {
    const float* in = &x[row * kLength];
    const float max = *std::max_element(in, in + kLength);
    for (int64_t i = 0; i < kLength; ++i) {
      ASSERT_EQ(y[row * kLength + i], (in[i] - max) / max / max / max) << row << " " << i;
    }
  }
  EXPECT_EQ(y.back(), -1);
}

INSTANTIATE_TEST_SUITE_P(Targets, LongRowsTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

INSTANTIATE_TEST_SUITE_P(Targets, RowsTest, testing::Combine(testing::ValuesIn(kHostTargets), testing::ValuesIn(kRows)),
                         [](const auto& info) {
                           std::string name =
                               absl::StrCat(Name(std::get<0>(info.param)), "_", std::get<1>(info.param).name);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace smelt
