// Reductions over rows with few columns: several rows are held in one vector.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"
#include "smelt/codegen/test_kernels.h"

namespace smelt {
namespace {

// A second phase needs each column's result in every lane, and so does a reduction with one value per column; a third
// phase stores.
constexpr char kShifted[] = R"(
kernel parallel=2 reduction=1 vector=1 sequential=0
param TYPE r [any,unit,any] alias=-1
param TYPE r [zero,unit,zero] alias=-1
param TYPE w [any,unit,zero] alias=-1
param TYPE w [any,unit,any] alias=-1
%0 = load.p0 TYPE
%1 = reduce.max TYPE %0
%2 = load.p1 TYPE
%3 = load.p0 TYPE
%4 = sub TYPE %1 %3
%5 = mul TYPE %2 %4
%6 = gt bool %5 %1
%7 = select TYPE %6 %2 %5
%8 = reduce.sum TYPE %7
%9 = store.p2 TYPE %8
%10 = load.p0 TYPE
%11 = add TYPE %10 %8
%12 = store.p3 TYPE %11
inner 0 1
inner 2 3 4 5 6 7 8
outer 9
inner 10 11 12
)";
// Over two dims, of which only the inner one is folded.
constexpr char kOverTwo[] = R"(
kernel parallel=1 reduction=2 vector=0 sequential=0
param TYPE r [unit,any,any] alias=-1
param TYPE r [unit,any,zero] alias=-1
param bool w [unit,zero,zero] alias=-1
param TYPE w [unit,zero,zero] alias=-1
%0 = load.p0 TYPE
%1 = load.p1 TYPE
%2 = gt bool %0 %1
%3 = reduce.and bool %2
%4 = sub TYPE %0 %1
%5 = reduce.sum TYPE %4
%6 = store.p2 bool %3
%7 = store.p3 TYPE %5
inner 0 1 2 3 4 5
outer 6 7
)";
constexpr char kLargest[] = R"(
kernel parallel=2 reduction=1 vector=1 sequential=0
param TYPE r [any,unit,any] alias=-1
param TYPE w [any,unit,zero] alias=-1
%0 = load.p0 TYPE
%1 = cast float32 %0
%2 = reduce.max float32 %1
%3 = cast TYPE %2
%4 = store.p1 TYPE %3
inner 0 1 2
outer 3 4
)";

// Small integers: any order of adding them gives the same bits.
template <typename T>
void Round(std::vector<uint8_t>& contents) {
  for (size_t at = 0; at < contents.size(); at += sizeof(T)) {
    T* v = reinterpret_cast<T*>(contents.data() + at);
    *v = std::round(*v);
  }
}
void RoundAll(RandomCase& c) {
  for (size_t p = 0; p < c.spec.params.size(); ++p) {
    if (c.spec.params[p].dtype == DType::kFloat32) Round<float>(c.launch.contents[p]);
    if (c.spec.params[p].dtype == DType::kFloat64) Round<double>(c.launch.contents[p]);
  }
}

class FoldsTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  }
};

TEST_P(FoldsTest, OfAnyNumberOfRowsAndColumnsEqualTheInterpreter) {
  std::mt19937_64 rng(1);
  for (const char* text : {kShifted, kOverTwo}) {
    for (const char* type : {"float32", "float64", "int32"}) {
      RandomCase c;
      c.spec = ParseOrDie(absl::StrReplaceAll(text, {{"TYPE", type}}));
      const absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
      ASSERT_TRUE(image.ok()) << image.status();
      for (int64_t columns = 1; columns <= 9; ++columns) {
        for (int64_t rows : {7, 64, 301}) {
          SCOPED_TRACE(absl::StrCat(text, type, ": ", rows, " rows of ", columns));
          const bool two = c.spec.reduction_rank == 2;
          c.launch = DenseLaunch(
              c.spec, two ? std::vector<int64_t>{columns, 3, rows} : std::vector<int64_t>{3, columns, rows}, rng);
          RoundAll(c);
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
        }
      }
    }
  }
}

TEST_P(FoldsTest, OfNarrowElementsEqualTheInterpreter) {
  std::mt19937_64 rng(1);
  for (const char* type : {"float16", "bfloat16", "int8"}) {
    RandomCase c;
    c.spec = ParseOrDie(absl::StrReplaceAll(kLargest, {{"TYPE", type}}));
    const absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    for (int64_t columns = 1; columns <= 9; ++columns) {
      SCOPED_TRACE(absl::StrCat(type, ": rows of ", columns));
      c.launch = DenseLaunch(c.spec, {3, columns, 301}, rng);
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 2), "");
    }
  }
}

// Reads every second row and skips the rows between.
TEST_P(FoldsTest, RowsWithGapsBetweenThemAreTakenOneByOne) {
  std::mt19937_64 rng(1);
  RandomCase c;
  c.spec = ParseOrDie(absl::StrReplaceAll(kLargest, {{"TYPE", "float32"}}));
  const absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  for (int64_t rows : {40, 200}) {
    c.launch = DenseLaunch(c.spec, {3, 4, 2 * rows}, rng);
    c.launch.sizes[2] = rows;
    c.launch.strides[0][2] *= 2;
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
  }
}

// Each lane adds fewer values than a column has, and the lanes' sums are added in float64.
TEST_P(FoldsTest, SumsOfManyRowsLoseNoMoreThanOneOfFewColumns) {
  std::mt19937_64 rng(1);
  const absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(kTestColumnSum), GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  constexpr int64_t kRows = 100000, kColumns = 3;
  std::vector<float> x(kRows * kColumns), sum(kColumns);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (float& v : x) v = uniform(rng);
  const int64_t words[] = {kColumns, kRows, reinterpret_cast<int64_t>(x.data()), kColumns,
                           reinterpret_cast<int64_t>(sum.data())};
  int64_t status[2] = {};
  image->entry(0)(words, 0, kColumns, status);
  for (int64_t column = 0; column < kColumns; ++column) {
    double want = 0;
    for (int64_t row = 0; row < kRows; ++row) want += x[row * kColumns + column];
    EXPECT_NEAR(sum[column], want, want * 0x1p-22);
  }
}

// The number of threads may determine how tiles are cut.
TEST_P(FoldsTest, SumsHaveTheSameBitsHoweverTheirColumnsAreCut) {
  const absl::StatusOr<LoadedImage> image = CompileAndLoad(ParseOrDie(kTestColumnSum), GetParam());
  ASSERT_TRUE(image.ok()) << image.status();
  constexpr int64_t kRows = 5000, kColumns = 7;
  std::mt19937_64 rng(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kRows * kColumns);
  for (float& v : x) v = normal(rng);
  const auto sums = [&](const std::vector<int64_t>& cuts) {
    std::vector<float> out(kColumns, -1);
    const int64_t words[] = {kColumns, kRows, reinterpret_cast<int64_t>(x.data()), kColumns,
                             reinterpret_cast<int64_t>(out.data())};
    int64_t status[2] = {};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) image->entry(0)(words, cuts[i], cuts[i + 1], status);
    return out;
  };
  const std::vector<float> whole = sums({0, kColumns});
  EXPECT_EQ(sums({0, 4, kColumns}), whole);
  EXPECT_EQ(sums({0, 1, 2, 3, 4, 5, 6, kColumns}), whole);
}

INSTANTIATE_TEST_SUITE_P(Targets, FoldsTest, testing::ValuesIn(kHostTargets),
                         [](const auto& info) { return absl::StrReplaceAll(Name(info.param), {{"-", "_"}}); });

}  // namespace
}  // namespace smelt
