// Variances in one pass: which kernels use it, and its accuracy.
#include "smelt/codegen/deviations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"
#include "smelt/codegen/schedule.h"

namespace smelt {
namespace {

// torch.var_mean(x, [1]).
const char kVarMean[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [unit,zero] alias=-1
param float32 w [unit,zero] alias=-1
scalar int64
scalar int64
%0 = scalar.s0 int64
%1 = cast float64 %0
%2 = scalar.s1 int64
%3 = cast float64 %2
%4 = load.p0 float32
%5 = cast float64 %4
%6 = reduce.sum float64 %5
%7 = div float64 %6 %1
%8 = cast float32 %7
%9 = store.p1 float32 %8
%10 = load.p0 float32
%11 = cast float64 %10
%12 = sub float64 %11 %7
%13 = mul float64 %12 %12
%14 = reduce.sum float64 %13
%15 = div float64 %14 %3
%16 = cast float32 %15
%17 = store.p2 float32 %16
outer 0 1 2 3
inner 4 5 6
outer 7 8 9
inner 10 11 12 13 14
outer 15 16 17
)";

TEST(DeviationsTest, AVariancesSecondPassRunsWhereItIsNeeded) {
  const auto found = FindDeviations(ParseOrDie(kVarMean));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(VerifyKernelSpec(found->spec).ok()) << VerifyKernelSpec(found->spec);
  ASSERT_EQ(found->unless.size(), found->spec.phases.size());
  EXPECT_EQ(std::count_if(found->unless.begin(), found->unless.end(), [](int i) { return i >= 0; }), 1);
  // The sum, the sum of squares, and the sum of deviations.
  EXPECT_EQ(std::count(found->is_plain.begin(), found->is_plain.end(), true), 3);
}

TEST(DeviationsTest, ResultsInFloat64TakeTwoPasses) {
  // A double has more bits than would remain.
  const KernelSpec spec = ParseOrDie(absl::StrReplaceAll(kVarMean, {{"param float32 w", "param float64 w"},
                                                                    {"%8 = cast float32 %7", "%8 = mul float64 %7 %7"},
                                                                    {"store.p1 float32", "store.p1 float64"},
                                                                    {"%16 = cast float32 %15", "%16 = abs float64 %15"},
                                                                    {"store.p2 float32", "store.p2 float64"}}));
  EXPECT_FALSE(FindDeviations(spec).has_value());
}

TEST(DeviationsTest, ElementsOfFloat64TakeTwoPasses) {
  // Their squares may overflow, and lose bits.
  const KernelSpec spec = ParseOrDie(absl::StrReplaceAll(
      kVarMean, {{"param float32 r", "param float64 r"},
                 {"%4 = load.p0 float32\n%5 = cast float64 %4", "%4 = load.p0 float64\n%5 = abs float64 %4"},
                 {"%10 = load.p0 float32\n%11 = cast float64 %10", "%10 = load.p0 float64\n%11 = abs float64 %10"}}));
  EXPECT_FALSE(FindDeviations(spec).has_value());
}

TEST(DeviationsTest, DeviationsOfOtherElementsTakeTwoPasses) {
  const KernelSpec spec =
      ParseOrDie(absl::StrReplaceAll(kVarMean, {{"%12 = sub float64 %11 %7", "%12 = sub float64 %3 %7"}}));
  EXPECT_FALSE(FindDeviations(spec).has_value());
}

TEST(DeviationsTest, ASecondPassThatStoresIsNotLeftOut) {
  KernelSpec spec = ParseOrDie(kVarMean);
  KernelInstr store;
  store.op = KernelOp::kStore;
  store.type = DType::kFloat32;
  store.param = 3;
  store.operands = {10};
  // Inserted before the sum, which is last in the phase.
  for (KernelInstr& in : spec.instrs) {
    for (int& o : in.operands) o += o >= 14;
  }
  spec.instrs.insert(spec.instrs.begin() + 14, store);
  spec.params.push_back(spec.params[0]);
  spec.params[3].is_read = false;
  spec.params[3].is_written = true;
  spec.phases[3].instrs = {10, 11, 12, 13, 14, 15};
  spec.phases[4].instrs = {16, 17, 18};
  ASSERT_TRUE(VerifyKernelSpec(spec).ok()) << VerifyKernelSpec(spec);
  EXPECT_FALSE(FindDeviations(spec).has_value());
}

class DeviationsKernelTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
    absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(kVarMean), GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    image_ = *std::move(image);
  }

  struct Result {
    float mean, var;
  };
  Result Of(const std::vector<float>& x) const {
    Result r = {-1, -1};
    const int64_t n = static_cast<int64_t>(x.size());
    const int64_t words[] = {1,
                             n,
                             reinterpret_cast<int64_t>(x.data()),
                             n,
                             reinterpret_cast<int64_t>(&r.mean),
                             reinterpret_cast<int64_t>(&r.var),
                             n,
                             std::max<int64_t>(n - 1, 0)};
    int64_t status[2] = {};
    image_.entry(0)(words, 0, 1, status);
    return r;
  }

  LoadedImage image_;
};

// Computes in long double, in two passes.
double Variance(const std::vector<float>& x) {
  long double sum = 0, squares = 0;
  for (float v : x) sum += v;
  const long double mean = sum / x.size();
  for (float v : x) squares += (v - mean) * (v - mean);
  return static_cast<double>(squares / (x.size() - 1));
}

TEST_P(DeviationsKernelTest, AreWithinAUnitOfTheLastPlaceWhereverTheMeanIs) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (const size_t n : {2u, 3u, 15u, 64u, 100u, 1024u, 5000u, 70001u}) {
    // Rows whose means are far from 0 are nearly constant, so the second pass runs for them.
    for (const float mean : {0.0f, 1.0f, 30.0f, 250.0f, 300.0f, 1e4f, 1e6f, -1e7f, 1e30f}) {
      for (const float scale : {1.0f, 1e-3f, 1e-30f, 1e18f}) {
        std::vector<float> x(n);
        for (float& v : x) v = mean + scale * normal(rng);
        const float want = static_cast<float>(Variance(x));
        const float got = Of(x).var;
        ASSERT_LE(std::fabs(static_cast<double>(got) - want), std::fabs(want) * 0x1p-23)
            << n << " elements around " << mean << ", " << scale << " wide";
      }
    }
  }
}

TEST_P(DeviationsKernelTest, OfEqualElementsIsExactlyZero) {
  for (const size_t n : {2u, 7u, 1024u, 3001u}) {
    for (const float v : {0.0f, -0.0f, 1.0f, 0.1f, 3e38f, 1e-45f}) {
      EXPECT_EQ(Of(std::vector<float>(n, v)).var, 0) << n << " times " << v;
    }
  }
}

// Expected are PyTorch's results.
TEST_P(DeviationsKernelTest, InfinitiesAndNansAreAsInPyTorch) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t n : {2u, 33u, 1024u}) {
    std::vector<float> x(n, 1.0f);
    x[n / 2] = kInf;
    EXPECT_EQ(Of(x).mean, kInf);
    EXPECT_TRUE(std::isnan(Of(x).var));
    x[0] = -kInf;
    EXPECT_TRUE(std::isnan(Of(x).mean));
    EXPECT_TRUE(std::isnan(Of(x).var));
    x[0] = kNan;
    EXPECT_TRUE(std::isnan(Of(x).mean));
    EXPECT_TRUE(std::isnan(Of(x).var));
  }
  EXPECT_TRUE(std::isnan(Of({5.0f}).var));
  EXPECT_EQ(Of({5.0f}).mean, 5.0f);
}

// A layer norm: (x - mean) / sqrt(var + s).
const char kNorm[] = R"(kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
scalar int64
scalar float64
%0 = scalar.s0 int64
%1 = cast float32 %0
%2 = scalar.s1 float64
%3 = cast float32 %2
%4 = load.p0 float32
%5 = reduce.sum float32 %4
%6 = div float32 %5 %1
%7 = load.p0 float32
%8 = sub float32 %7 %6
%9 = reduce.sum float32 %8
%10 = mul float32 %8 %8
%11 = reduce.sum float32 %10
%12 = div float32 %9 %1
%13 = div float32 %11 %1
%14 = add float32 %13 %3
%15 = sqrt float32 %14
%16 = load.p0 float32
%17 = sub float32 %16 %6
%18 = sub float32 %17 %12
%19 = div float32 %18 %15
%20 = store.p1 float32 %19
outer 0 1 2 3
inner 4 5
outer 6
inner 7 8 9 10 11
outer 12 13 14 15
inner 16 17 18 19 20
)";

TEST(RemaindersTest, ASumOfDeviationsHasAPassOfItsOwnWhereItMatters) {
  const auto found = FindDeviations(ParseOrDie(kNorm));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(VerifyKernelSpec(found->spec).ok()) << VerifyKernelSpec(found->spec);
  ASSERT_EQ(found->unless.size(), found->spec.phases.size());
  EXPECT_EQ(std::count_if(found->unless.begin(), found->unless.end(), [](int i) { return i >= 0; }), 1);
}

TEST(RemaindersTest, OfOtherElementsThanTheSquaresItStaysWhereItIs) {
  EXPECT_FALSE(FindDeviations(ParseOrDie(absl::StrReplaceAll(kNorm, {{"mul float32 %8 %8", "mul float32 %7 %7"}}))));
}

class RemaindersKernelTest : public testing::TestWithParam<Target> {};

TEST_P(RemaindersKernelTest, NormalizedElementsAreNearToExactWhereverTheMeanIs) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(kNorm), GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  constexpr double kEps = 1e-5;
  for (const size_t n : {1u, 2u, 15u, 64u, 100u, 1024u, 5000u}) {
    for (const float mean : {0.0f, 1.0f, 10.0f, 100.3f, 5000.7f, 1e6f}) {
      for (const float scale : {0.0f, 1e-3f, 1.0f, 1e3f}) {
        std::vector<float> x(n), y(n);
        for (float& v : x) v = mean + scale * normal(rng);
        long double sum = 0, squares = 0;
        for (float v : x) sum += v;
        for (float v : x) squares += (v - sum / n) * (v - sum / n);
        const int64_t length = static_cast<int64_t>(n), words[] = {1,
                                                                   length,
                                                                   reinterpret_cast<int64_t>(x.data()),
                                                                   length,
                                                                   reinterpret_cast<int64_t>(y.data()),
                                                                   length,
                                                                   length,
                                                                   std::bit_cast<int64_t>(kEps)};
        int64_t status[2] = {};
        image->entry(0)(words, 0, 1, status);
        for (size_t i = 0; i < n; ++i) {
          const double want = static_cast<double>((x[i] - sum / n) / std::sqrt(squares / n + kEps));
          // Equal elements give exactly 0. Elements that differ in a few last bits give a fraction of a bit.
          const double bit = scale == 0 ? 0 : std::fabs(mean) * 0x1p-24 / scale;
          ASSERT_NEAR(y[i], want, scale == 0 ? 0 : 4e-6 * std::max(1.0, std::fabs(want)) + 0.2 * bit)
              << n << " elements around " << mean << ", " << scale << " wide";
        }
      }
    }
  }
}

// The kernel for rows that lie across memory: it vectorizes across them.
KernelSpec InColumns(const char* text) {
  return ParseOrDie(absl::StrReplaceAll(text, {{"vector=1", "vector=0"}, {"[any,unit]", "[unit,any]"}}));
}

TEST(ColumnScheduleTest, OnlyStreamsTakeOnePass) {
  const Schedule plan = Schedule::Of(InColumns(kVarMean), {.vector_bits = 256});
  ASSERT_TRUE(plan.columns);
  const auto has_choice = [](const Schedule& s) {
    return std::any_of(s.unless.begin(), s.unless.end(), [](int i) { return i >= 0; });
  };
  EXPECT_FALSE(has_choice(plan));
  EXPECT_TRUE(has_choice(plan.OfStreams()));
  EXPECT_TRUE(has_choice(Schedule::Of(ParseOrDie(kVarMean), {.vector_bits = 256})));
}

class ColumnDeviationsTest : public testing::TestWithParam<Target> {
 protected:
  // So many rows are far apart: where they are stored, they are prefetched.
  static constexpr int64_t kFarRows = 203;
  // Column c has its mean at one of some places: those far from 0 need a second pass, which others then take with them.
  struct Matrix {
    Matrix(int64_t columns, int64_t rows, std::mt19937& rng, const std::vector<float>& means)
        : columns(columns),
          rows(rows),
          pitch(columns + (rows == kFarRows ? 6000 : 3)),
          x(static_cast<size_t>(pitch * rows)) {
      std::normal_distribution<float> normal;
      for (int64_t c = 0; c < columns; ++c) {
        const float mean = means[rng() % means.size()];
        for (int64_t r = 0; r < rows; ++r) x[r * pitch + c] = mean + normal(rng);
      }
    }
    std::vector<float> Column(int64_t c) const {
      std::vector<float> out;
      for (int64_t r = 0; r < rows; ++r) out.push_back(x[r * pitch + c]);
      return out;
    }
    int64_t columns, rows, pitch;
    std::vector<float> x;
  };
  // Fewer columns than a vector has lanes; whole vectors and more; more than a tile. Fewer rows than streams have, and
  // such that no block and no group is whole.
  static constexpr int64_t kColumns[] = {1, 5, 16, 67, 300, 2051}, kRows[] = {2, 127, 128, kFarRows, 1024};
};

TEST_P(ColumnDeviationsTest, VariancesAreWithinAUnitOfTheLastPlaceWhereverTheMeansAre) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  absl::StatusOr<LoadedImage> image = CompileAndLoad(InColumns(kVarMean), GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  std::mt19937 rng(1);
  for (const std::vector<float>& means : {std::vector<float>{0, 1, 30}, {0, 1, 1e4f}, {1e6f, -1e7f}}) {
    for (const int64_t columns : kColumns) {
      for (const int64_t rows : kRows) {
        const Matrix m(columns, rows, rng, means);
        std::vector<float> mean(static_cast<size_t>(columns), -1), var = mean;
        const int64_t words[] = {columns,
                                 rows,
                                 reinterpret_cast<int64_t>(m.x.data()),
                                 m.pitch,
                                 reinterpret_cast<int64_t>(mean.data()),
                                 reinterpret_cast<int64_t>(var.data()),
                                 rows,
                                 rows - 1};
        int64_t status[2] = {};
        const int64_t middle = columns / 3;  // two launches: what a column gives does not depend on those beside it
        image->entry(0)(words, 0, middle, status);
        image->entry(0)(words, middle, columns, status);
        for (int64_t c = 0; c < columns; ++c) {
          const float want = static_cast<float>(Variance(m.Column(c)));
          ASSERT_LE(std::fabs(static_cast<double>(var[c]) - want), std::fabs(want) * 0x1p-23)
              << "column " << c << " of " << columns << " with " << rows << " rows, whose mean is " << mean[c];
        }
        const std::vector<float> before = var;
        image->entry(0)(words, 0, columns, status);
        ASSERT_EQ(var, before);
      }
    }
  }
}

TEST_P(ColumnDeviationsTest, NormalizedElementsAreNearToExact) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  absl::StatusOr<LoadedImage> image = CompileAndLoad(InColumns(kNorm), GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  std::mt19937 rng(1);
  constexpr double kEps = 1e-5;
  for (const std::vector<float>& means : {std::vector<float>{0, 1}, {0, 5000.7f}}) {
    for (const int64_t columns : kColumns) {
      for (const int64_t rows : kRows) {
        const Matrix m(columns, rows, rng, means);
        std::vector<float> y(m.x.size(), -1);
        const int64_t words[] = {
            columns, rows, reinterpret_cast<int64_t>(m.x.data()), m.pitch, reinterpret_cast<int64_t>(y.data()),
            m.pitch, rows, std::bit_cast<int64_t>(kEps)};
        int64_t status[2] = {};
        image->entry(0)(words, 0, columns, status);
        for (int64_t c = 0; c < columns; ++c) {
          const std::vector<float> x = m.Column(c);
          long double sum = 0, squares = 0;
          for (float v : x) sum += v;
          for (float v : x) squares += (v - sum / rows) * (v - sum / rows);
          // The weight of the last bit of an element.
          const double bit = static_cast<double>(std::fabs(sum / rows) * 0x1p-24 / std::sqrt(squares / rows + kEps));
          for (int64_t r = 0; r < rows; ++r) {
            const double want = static_cast<double>((x[r] - sum / rows) / std::sqrt(squares / rows + kEps));
            ASSERT_NEAR(y[r * m.pitch + c], want, 4e-6 * std::max(1.0, std::fabs(want)) + 0.5 * bit)
                << "row " << r << " of " << rows << ", column " << c << " of " << columns;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ColumnDeviationsTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

INSTANTIATE_TEST_SUITE_P(Targets, RemaindersKernelTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

INSTANTIATE_TEST_SUITE_P(Targets, DeviationsKernelTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

}  // namespace
}  // namespace smelt
