// Kernels for CUDA without a GPU: runs the LLVM IR that is passed to NVPTX on the CPU and compares with the interpreter
// of specs.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_emulation.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/llvm_cuda.h"
#include "smelt/codegen/lower_cuda.h"
#include "smelt/codegen/test_kernels.h"
#include "smelt/fuser/kernel_interpreter.h"

namespace smelt {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::unique_ptr<CudaEmulation> Emulate(const KernelSpec& spec, const CudaLimits& limits = {}) {
  auto kernel = CudaEmulation::Create(spec, limits);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *std::move(kernel) : nullptr;
}
int64_t Word(const void* p) { return reinterpret_cast<int64_t>(p); }
// tanh(a * b + c).
constexpr char kPointwise[] = R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 r [unit] alias=-1
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = mul float32 %0 %1
%3 = load.p2 float32
%4 = add float32 %2 %3
%5 = tanh float32 %4
%6 = store.p3 float32 %5
outer 0 1 2 3 4 5 6
)";
constexpr char kSoftmax[] = R"(
kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = exp float32 %3
%5 = store.p1 float32 %4
%6 = reduce.sum float32 %4
%7 = load.p0 float32
%8 = sub float32 %7 %1
%9 = exp float32 %8
%10 = div float32 %9 %6
%11 = store.p1 float32 %10
inner 0 1
inner 2 3 4 5 6
inner 7 8 9 10 11
)";

TEST(CudaTest, EveryRandomKernelEqualsTheInterpreter) {
  int kinds[4] = {}, vectors = 0;
  for (int seed = 1; seed <= 90; ++seed) {
    std::mt19937_64 rng(seed);
    const RandomCase c = MakeRandomCase(rng);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", c.spec.ToString()));
    auto kernel = Emulate(c.spec);
    ASSERT_NE(kernel, nullptr);
    ASSERT_EQ(CompareWithInterpreter(c, kernel->entry(), Guard::kEnd, 1), "");
    ASSERT_EQ(CompareWithInterpreter(c, kernel->entry(), Guard::kBegin, 2), "");
    ASSERT_EQ(kernel->race(), "");
    ++kinds[CudaScheduleFor(c.spec).kind];
    vectors += CudaScheduleFor(c.spec).vector > 1;
  }
  // All schedules occurred.
  EXPECT_GT(kinds[CudaSchedule::kPoints], 10);
  EXPECT_GT(kinds[CudaSchedule::kColumns], 0);
  EXPECT_GT(kinds[CudaSchedule::kRows], 10);
  EXPECT_GT(kinds[CudaSchedule::kSerial], 0);
  EXPECT_GT(vectors, 10);
}

// Small sizes take the paths of large ones: rows of blocks, split reductions, tiles.
TEST(CudaTest, EveryRandomKernelEqualsTheInterpreterWhateverItsSchedule) {
  const CudaLimits limits = {.short_row = 2, .few_elements = 1, .row_chunk = 8, .column_chunk = 3, .short_side = 1};
  int split = 0, tiled = 0;
  for (int seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 rng(1000 + seed);
    const RandomCase c = MakeRandomCase(rng);
    const CudaSchedule schedule = CudaScheduleFor(c.spec, limits);
    if (schedule.split == 0 && schedule.tile_dim < 0 && schedule.kind != CudaSchedule::kRows) continue;
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", c.spec.ToString()));
    auto kernel = Emulate(c.spec, limits);
    ASSERT_NE(kernel, nullptr);
    ASSERT_EQ(CompareWithInterpreter(c, kernel->entry(), Guard::kEnd, 1), "");
    ASSERT_EQ(kernel->race(), "");
    split += schedule.split > 0;
    tiled += schedule.tile_dim >= 0;
  }
  EXPECT_GT(split, 0);
  EXPECT_GT(tiled, 0);
}

// Runs both with the same words and checks the largest difference, relative to `scale`.
void ExpectNear(const KernelSpec& spec, std::vector<int64_t> words, size_t out_word, std::vector<float>& out, int grid,
                float tolerance) {
  std::vector<float> expected(out.size());
  std::vector<int64_t> interpreted = words;
  interpreted[out_word] = Word(expected.data());
  words[out_word] = Word(out.data());
  int64_t status = 0;
  const int64_t tiles = NumTiles(spec, words.data());
  ASSERT_EQ(InterpretKernel(spec, interpreted.data(), 0, tiles, &status), absl::OkStatus());
  auto kernel = Emulate(spec);
  kernel->Launch(grid, words.data(), 0, tiles, &status);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(kernel->race(), "");
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
    } else if (std::isinf(expected[i])) {
      ASSERT_EQ(out[i], expected[i]) << i;
    } else {
      ASSERT_NEAR(out[i], expected[i], tolerance * std::max(1.0f, std::fabs(expected[i]))) << i;
    }
  }
}

TEST(CudaTest, PointsAreSharedByThreadsAndBlocksWhateverTheSizeAndTheAlignment) {
  const KernelSpec spec = ParseOrDie(kPointwise);
  EXPECT_EQ(CudaScheduleFor(spec).vector, 4);
  for (int n : {0, 1, 3, 4, 257, 1023, 4100}) {
    for (int shift : {0, 1}) {
      std::vector<float> a(n + 1), b(n + 1), c(n + 1), out(n);
      for (int i = 0; i <= n; ++i) a[i] = 0.01f * i - 1, b[i] = 0.5f, c[i] = -0.25f;
      ExpectNear(spec, {n, Word(a.data() + shift), Word(b.data() + shift), Word(c.data() + shift), 0}, 4, out, 3,
                 1e-6f);
    }
  }
}

TEST(CudaTest, AShortRowIsAWarpsWorkAndALongOneABlocks) {
  const KernelSpec spec = ParseOrDie(kSoftmax);
  EXPECT_EQ(CudaScheduleFor(spec).kind, CudaSchedule::kRows);
  EXPECT_EQ(CudaScheduleFor(spec).vector, 4);
  // 256 and 2,048 are aligned; 2,049 is not, and 1,028 has fewer vectors than the block has threads.
  for (int n : {1, 31, 256, 1023, 1025, 1028, 2048, 2049}) {
    for (int shift : {0, 1}) {
      const int rows = 3;
      std::vector<float> x(rows * n + 1), out(rows * n);
      for (int i = 0; i <= rows * n; ++i) x[i] = std::sin(0.1f * i) * 20;
      ExpectNear(spec, {rows, n, Word(x.data() + shift), n, 0, n}, 4, out, 2, 1e-6f);
    }
  }
  // A warp's threads wait for no other warp.
  std::vector<float> x(512, 1), out(512);
  auto kernel = Emulate(spec);
  int64_t status = 0;
  const int64_t short_rows[] = {16, 32, Word(x.data()), 32, Word(out.data()), 32};
  kernel->Launch(1, short_rows, 0, 16, &status);
  EXPECT_EQ(out[511], 1.0f / 32);
}

// The sum and the first maximum of everything.
constexpr char kSumOfAll[] = R"(
kernel parallel=0 reduction=1 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [zero] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)";
constexpr char kArgMaxOfAll[] = R"(
kernel parallel=0 reduction=1 vector=0 sequential=0
param float32 r [unit] alias=-1
param int64 w [zero] alias=-1
%0 = load.p0 float32
%1 = index.d0 int64
%2 = reduce.argmax int64 %0 %1
%3 = store.p1 int64 %2
inner 0 1 2
outer 3
)";

TEST(CudaTest, ALongRowIsSplitAmongBlocksAndASecondStageCombinesThem) {
  const KernelSpec spec = ParseOrDie(kSumOfAll);
  const fb::CudaKernelT launch = CudaLaunchFor(spec, "k");
  ASSERT_EQ(launch.stages.size(), 2);
  EXPECT_EQ(launch.stages[1]->entry, "k_1");
  EXPECT_TRUE(launch.stages[1]->if_split);
  EXPECT_EQ(launch.workspace_bytes, 8);
  for (int n : {0, 1, 8192, 8193, 20000}) {
    for (int shift : {0, 1}) {
      std::vector<float> x(n + 1, 0.1f), out(1);
      for (int i = 0; i <= n; ++i) x[i] = 1.0f / (1 + i % 97);
      ExpectNear(spec, {n, Word(x.data() + shift), 0}, 2, out, 2, 2e-7f);
    }
  }
}

TEST(CudaTest, TheFirstOfEqualMaximaInSeveralChunksWins) {
  const KernelSpec spec = ParseOrDie(kArgMaxOfAll);
  EXPECT_EQ(CudaLaunchFor(spec, "k").workspace_bytes, 16);
  const int n = 30000;
  std::vector<float> x(n, -1);
  x[9001] = x[9000] = x[27000] = 5;
  auto kernel = Emulate(spec);
  int64_t status = 0, at = -1;
  const int64_t words[] = {n, Word(x.data()), Word(&at)};
  kernel->Launch(2, words, 0, 1, &status);
  EXPECT_EQ(at, 9000);
  x[20000] = NAN;
  kernel->Launch(3, words, 0, 1, &status);
  EXPECT_EQ(at, 20000);
  EXPECT_EQ(kernel->race(), "");
}

TEST(CudaTest, ColumnsAreReducedInTilesAndSplitWhereTheyAreLong) {
  const KernelSpec spec = ParseOrDie(kTestColumnSum);
  EXPECT_EQ(CudaScheduleFor(spec).kind, CudaSchedule::kColumns);
  EXPECT_EQ(CudaLaunchFor(spec, "k").stages.size(), 2);
  for (int rows : {0, 1, 32, 33, 1024, 1025, 2500}) {
    for (int columns : {1, 31, 33}) {
      std::vector<float> x(rows * columns), out(columns);
      for (int i = 0; i < rows * columns; ++i) x[i] = 1.0f / (1 + i % 89);
      ExpectNear(spec, {columns, rows, Word(x.data()), columns, 0}, 4, out, 2, 2e-7f);
    }
  }
}

TEST(CudaTest, ColumnsOfSeveralMatricesHaveTheirOwnSums) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=2 reduction=1 vector=1 sequential=0
param float32 r [any,unit,any] alias=-1
param float32 w [any,unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)");
  const int matrices = 3, columns = 40;
  for (int rows : {50, 1100}) {
    std::vector<float> x(matrices * rows * columns), out(matrices * columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / (1 + i % 89);
    ExpectNear(spec, {matrices, columns, rows, Word(x.data()), rows * columns, columns, 0, columns}, 6, out, 2, 2e-7f);
  }
}

TEST(CudaTest, ATransposeGoesThroughSharedMemoryInTiles) {
  // out[i, j, k] = x[k, j, i] * y[k], where i of x and k of the others are contiguous.
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=3 reduction=0 vector=2 sequential=0
param float32 r [unit,any,any] alias=-1
param float32 r [zero,zero,unit] alias=-1
param float32 w [any,any,unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = mul float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)");
  EXPECT_EQ(CudaScheduleFor(spec).tile_dim, 0);
  EXPECT_THAT(*PrintCudaIr(spec, "k"), HasSubstr("k_tile0"));
  for (int a : {3, 16, 33, 65}) {
    for (int c : {15, 32, 70}) {
      const int b = 2;
      std::vector<float> x(a * b * c), y(c, 3), out(a * b * c);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      ExpectNear(spec, {a, b, c, Word(x.data()), a, a * b, Word(y.data()), 0, b * c, c}, 7, out, 3, 0);
    }
  }
}

TEST(CudaTest, BFloat16IsRoundedToNearestEvenInOneInstruction) {
  const KernelSpec spec = ParseOrDie(kTestRounding);
  // 1 + 2^-8 and 1 + 3 * 2^-8 are halfway; the smallest denormal of bfloat16 is 2^-133.
  const float x[] = {1 + 1.0f / 256, 1 + 3.0f / 256, INFINITY, 3.4e38f, std::ldexp(1.0f, -133), -0.0f};
  uint16_t out[6] = {};
  auto kernel = Emulate(spec);
  int64_t status = 0;
  const int64_t words[] = {6, Word(x), Word(out)};
  kernel->Launch(1, words, 0, 6, &status);
  EXPECT_THAT(out, testing::ElementsAre(0x3f80, 0x3f82, 0x7f80, 0x7f80, 1, 0x8000));
  EXPECT_THAT(*CompileToPtx(spec, Target::kSm90, "k"), HasSubstr("cvt.rn.bf16"));
  // sm_75 has no such instruction.
  EXPECT_THAT(*CompileToPtx(spec, Target::kSm75, "k"), Not(HasSubstr("cvt.rn.bf16")));
}

TEST(CudaTest, NanAndInfinityGoThroughARowsReductions) {
  const KernelSpec spec = ParseOrDie(kTestRowSum);
  const int n = 300;
  std::vector<float> x(4 * n, 1.0f), out(4);
  x[0 * n + 7] = INFINITY;
  x[1 * n + 7] = INFINITY, x[1 * n + 90] = -INFINITY;
  x[2 * n + 299] = NAN;
  ExpectNear(spec, {4, n, Word(x.data()), n, 0}, 4, out, 1, 0);
  EXPECT_EQ(out[0], INFINITY);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 300);
}

TEST(CudaTest, TheErrorOfALongSumDoesNotGrow) {
  const KernelSpec spec = ParseOrDie(kTestColumnSum);
  // 0.1 added 100,000 times in float32 has a relative error of 1e-3.
  const int n = 100000;
  std::vector<float> x(2 * n, 0.1f), out(2);
  ExpectNear(spec, {2, n, Word(x.data()), 2, 0}, 4, out, 1, 1e-7f);
}

TEST(CudaTest, TheBitsDoNotDependOnTheGrid) {
  const auto expect_equal = [](const char* text, int tiles, int n, size_t results,
                               const std::function<std::vector<int64_t>(const float* x, float* out)>& words) {
    const KernelSpec spec = ParseOrDie(text);
    std::vector<float> x(tiles * n), one(results), many(results);
    for (int i = 0; i < tiles * n; ++i) x[i] = std::sin(0.37f * i) * 5;
    auto kernel = Emulate(spec);
    int64_t status = 0;
    kernel->Launch(1, words(x.data(), one.data()).data(), 0, tiles, &status);
    kernel->Launch(5, words(x.data(), many.data()).data(), 0, tiles, &status);
    EXPECT_EQ(one, many) << text;
  };
  expect_equal(kSoftmax, 7, 500, 3500, [](const float* x, float* out) -> std::vector<int64_t> {
    return {7, 500, Word(x), 500, Word(out), 500};
  });
  expect_equal(kSumOfAll, 1, 30000, 1,
               [](const float* x, float* out) -> std::vector<int64_t> { return {30000, Word(x), Word(out)}; });
  expect_equal(kTestColumnSum, 40, 1500, 40,
               [](const float* x, float* out) -> std::vector<int64_t> { return {40, 1500, Word(x), 40, Word(out)}; });
}

// x.index_add_(0, i, y) of one dim, as the fuser writes it.
constexpr char kIndexAdd[] = R"(
kernel parallel=0 reduction=1 vector=-1 sequential=0
param int64 r [unit] alias=-1
param float32 rw [zero] alias=-1
param float32 r [unit] alias=-1
scalar int64
%0 = const int64 0
%1 = scalar.s0 int64
%2 = load.p0 int64
%3 = lt bool %2 %0
%4 = add int64 %2 %1
%5 = select int64 %3 %4 %2
%6 = check_index int64 %5 %1
%7 = load.p1 float32 %6 +offset
%8 = load.p2 float32
%9 = add float32 %7 %8
%10 = store.p1 float32 %9 %6 +offset
outer 0 1
inner 2 3 4 5 6 7 8 9 10
)";

TEST(CudaTest, WhatIsAddedUpAtOnePlaceIsAllThere) {
  const KernelSpec spec = ParseOrDie(kIndexAdd);
  EXPECT_EQ(CudaScheduleFor(spec).kind, CudaSchedule::kRows);
  const int n = 1000;
  std::vector<int64_t> index(n);
  std::vector<float> x(4, 0), y(n, 1);
  for (int i = 0; i < n; ++i) index[i] = i % 4;
  auto kernel = Emulate(spec);
  int64_t status = 0;
  const int64_t words[] = {n, Word(index.data()), Word(x.data()), Word(y.data()), 4};
  kernel->Launch(2, words, 0, 1, &status);
  EXPECT_THAT(x, testing::ElementsAre(250, 250, 250, 250));
  EXPECT_EQ(kernel->race(), "");
}

TEST(CudaTest, SumsAtOnePlaceHaveTheBitsOfOneThread) {
  const KernelSpec spec = ParseOrDie(kIndexAdd);
  std::mt19937 rng(7);
  for (int n : {0, 1, 255, 256, 257, 700}) {
    std::vector<int64_t> index(n);
    std::vector<float> y(n), expected(5, 1), x(5, 1);
    for (int i = 0; i < n; ++i) index[i] = static_cast<int64_t>(rng() % 10) - 5, y[i] = 1.0f / (1 + rng() % 97);
    for (int i = 0; i < n; ++i) expected[index[i] < 0 ? index[i] + 5 : index[i]] += y[i];
    auto kernel = Emulate(spec);
    int64_t status = 0;
    const int64_t words[] = {n, Word(index.data()), Word(x.data()), Word(y.data()), 5};
    kernel->Launch(3, words, 0, 1, &status);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(x, expected) << n;
    EXPECT_EQ(kernel->race(), "");
  }
}

TEST(CudaTest, OfValuesPutAtOnePlaceTheLastStays) {
  // Only elements whose mask is set.
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=1 reduction=1 vector=-1 sequential=0
param int64 r [zero,unit] alias=-1
param float32 w [any,zero] alias=-1
param float32 r [any,unit] alias=-1
param bool r [zero,unit] alias=-1
%0 = load.p0 int64
%1 = load.p2 float32
%2 = load.p3 bool
%3 = store.p1 float32 %1 %0 %2 +offset +guard
inner 0 1 2 3
)");
  const int n = 600, rows = 3;
  std::vector<int64_t> index(n);
  std::vector<float> x(rows * 7, -1), y(rows * n), expected = x;
  std::vector<uint8_t> mask(n);
  for (int i = 0; i < n; ++i) index[i] = i * i % 7, mask[i] = i % 3 != 0;
  for (int i = 0; i < rows * n; ++i) y[i] = static_cast<float>(i);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < n; ++i) {
      if (mask[i] != 0) expected[r * 7 + index[i]] = y[r * n + i];
    }
  }
  auto kernel = Emulate(spec);
  int64_t status = 0;
  const int64_t words[] = {rows, n, Word(index.data()), Word(x.data()), 7, Word(y.data()), n, Word(mask.data())};
  kernel->Launch(2, words, 0, rows, &status);
  EXPECT_EQ(x, expected);
  EXPECT_EQ(kernel->race(), "");
}

TEST(CudaTest, ScattersThatReadWhatOthersWroteGoOneByOne) {
  // x[i + 1] = x[i] + y[i]: a chain.
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=0 reduction=1 vector=-1 sequential=0
param float32 rw [zero] alias=-1
param float32 r [unit] alias=-1
%0 = const int64 1
%1 = index.d0 int64
%2 = add int64 %1 %0
%3 = load.p0 float32 %1 +offset
%4 = load.p1 float32
%5 = add float32 %3 %4
%6 = store.p0 float32 %5 %2 +offset
outer 0
inner 1 2 3 4 5 6
)");
  const int n = 300;
  std::vector<float> x(n + 1, 0), y(n, 1), expected(n + 1);
  for (int i = 0; i <= n; ++i) expected[i] = static_cast<float>(i);
  auto kernel = Emulate(spec);
  int64_t status = 0;
  const int64_t words[] = {n, Word(x.data()), Word(y.data())};
  kernel->Launch(2, words, 0, 1, &status);
  EXPECT_EQ(x, expected);
  EXPECT_EQ(kernel->race(), "");
}

TEST(CudaTest, WhatNothingOrdersIsFound) {
  const auto race = [](const char* text, std::vector<int64_t> words, int64_t tiles) {
    auto kernel = Emulate(ParseOrDie(text));
    int64_t status = 0;
    kernel->Launch(2, words.data(), 0, tiles, &status);
    return kernel->race();
  };
  std::vector<float> x(1024), y(1024);
  for (int i = 0; i < 1024; ++i) x[i] = static_cast<float>(i);
  // All points store to the same address, but only different values race.
  constexpr char kOnePlace[] = R"(
kernel parallel=1 reduction=0 vector=-1 sequential=0
param float32 r [unit] alias=-1
param float32 w [zero] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";
  EXPECT_THAT(race(kOnePlace, {2, Word(x.data()), Word(y.data())}, 2), HasSubstr("two writes"));
  const std::vector<float> ones(2, 1);
  EXPECT_EQ(race(kOnePlace, {2, Word(ones.data()), Word(y.data())}, 2), "");
  // Threads of two blocks: point 256 is the second one's.
  constexpr char kNeighbour[] = R"(
kernel parallel=1 reduction=0 vector=-1 sequential=0
param float32 r [any] alias=-1
param float32 w [any] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";
  const auto shifted = [&](int64_t n, int64_t by) {
    return race(kNeighbour, {n, Word(x.data()), 1, Word(x.data() + by), 1}, n);
  };
  EXPECT_EQ(shifted(300, 0), "");
  EXPECT_THAT(shifted(300, 1), HasSubstr("a read and a write"));
  EXPECT_EQ(shifted(256, 256), "");
  EXPECT_THAT(shifted(300, 256), HasSubstr("a read and a write"));
  // Within a row, barriers order the stores of earlier phases.
  EXPECT_EQ(race(kSoftmax, {3, 300, Word(x.data()), 300, Word(y.data()), 300}, 3), "");
}

TEST(CudaTest, AnIndexOutOfRangeSetsTheStatus) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param int64 r [unit] alias=-1
param float32 r [zero] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 int64
%1 = const int64 3
%2 = check_index int64 %0 %1
%3 = load.p1 float32 %2 +offset
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)");
  const int64_t index[] = {2, -1, -3, 3};
  const float table[] = {10, 20, 30};
  float out[4] = {};
  const int64_t words[] = {4, Word(index), Word(table), Word(out)};
  int64_t status = 0;
  auto kernel = Emulate(spec);
  kernel->Launch(1, words, 0, 3, &status);
  EXPECT_EQ(status, 0);
  kernel->Launch(1, words, 3, 4, &status);
  EXPECT_EQ(status, 1);
  EXPECT_THAT(out, testing::ElementsAre(30, 30, 10, 10));
}

TEST(CudaTest, BarriersAndShufflesAreThereWhereThreadsShareAPoint) {
  const std::string rows = *PrintCudaIr(ParseOrDie(kSoftmax), "kernel");
  EXPECT_THAT(rows, HasSubstr("llvm.nvvm.shfl.sync.down.i32"));
  EXPECT_THAT(rows, HasSubstr("llvm.nvvm.barrier.cta.sync.aligned.all"));
  EXPECT_THAT(rows, HasSubstr("__nv_expf"));
  const std::string points = *PrintCudaIr(ParseOrDie(kPointwise), "kernel");
  EXPECT_THAT(points, Not(HasSubstr("shfl")));
  EXPECT_THAT(points, Not(HasSubstr("barrier")));
}

// A kernel that needs no libdevice is compiled on any machine.
TEST(CudaTest, AProductIsPtxOfEachArchitecture) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=0
param float32 w [unit] alias=1
%0 = load.p0 float32
%1 = mul float32 %0 %0
%2 = add float32 %1 %0
%3 = store.p1 float32 %2
outer 0 1 2 3
)");
  for (int k = static_cast<int>(Target::kSm75); k <= static_cast<int>(kLastTarget); ++k) {
    const Target t = static_cast<Target>(k);
    auto ptx = CompileToPtx(spec, t, "k");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    EXPECT_THAT(*ptx, HasSubstr(absl::StrCat(".target ", Name(t))));
    EXPECT_THAT(*ptx, HasSubstr(".visible .entry k("));
    EXPECT_THAT(*ptx, HasSubstr(".reqntid 256"));
    // Loads four aligned elements at once, through the read-only cache, because nothing writes the memory of param 0.
    EXPECT_THAT(*ptx, ContainsRegex("ld\\.global\\.(nc\\.)?v4\\.b32"));
    EXPECT_THAT(*ptx, HasSubstr("ld.global.nc"));
    EXPECT_THAT(*ptx, HasSubstr("st.global.v4"));
    // It is not contracted to an fma.
    EXPECT_THAT(*ptx, HasSubstr("mul.rn.f32"));
    EXPECT_THAT(*ptx, Not(HasSubstr("fma.rn.f32")));
    EXPECT_EQ(*ptx, *CompileToPtx(spec, t, "k"));
  }
}

}  // namespace
}  // namespace smelt
