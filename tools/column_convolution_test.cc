// Convolutions by kernels of k by 1, which run in other dims than they are written in. Operands are small integers, so
// that every sum is exact and the expected numbers are those of plain loops.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

constexpr int64_t kBatch = 2, kChannels = 18, kResults = 20, kRows = 45, kTaps = 7;
constexpr int64_t kStride = 2, kPadding = 3, kDilation = 2;
constexpr int64_t kPlaces = (kRows + 2 * kPadding - kDilation * (kTaps - 1) - 1) / kStride + 1;

float ElementOf(int64_t i) { return static_cast<float>(i * 7 % 11 - 5); }
float WeightOf(int64_t i) { return static_cast<float>(i * 5 % 13 - 6); }

Tensor Filled(std::vector<int64_t> sizes, float (*value)(int64_t)) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<float>()[i] = value(i);
  return t;
}

class ColumnConvolutionTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(ColumnConvolutionTest, AKernelOfOneColumnSumsDownEachColumn) {
  const int64_t width = GetParam();
  const auto type = [](int64_t a, int64_t b, int64_t c, int64_t d) {
    return absl::StrCat("Float(", a, ", ", b, ", ", c, ", ", d, ", strides=[", b * c * d, ", ", c * d, ", ", d,
                        ", 1])");
  };
  auto instance = InstanceOf(
      absl::StrCat("graph(%x : ", type(kBatch, kChannels, kRows, width), ", %w : ", type(kResults, kChannels, kTaps, 1),
                   R"():
  %b : NoneType = prim::Constant()
  %s : int[] = prim::Constant[value=[2, 1]]()
  %p : int[] = prim::Constant[value=[3, 0]]()
  %d : int[] = prim::Constant[value=[2, 1]]()
  %no : bool = prim::Constant[value=0]()
  %o : int[] = prim::Constant[value=[0, 0]]()
  %g : int = prim::Constant[value=1]()
  %y : Tensor = aten::convolution(%x, %w, %b, %s, %p, %d, %no, %o, %g)
  return (%y)
)"),
      absl::StrCat("column_", width));
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run(
      {Filled({kBatch, kChannels, kRows, width}, ElementOf), Filled({kResults, kChannels, kTaps, 1}, WeightOf)});
  ASSERT_TRUE(out.ok()) << out.status();
  const Tensor& y = (*out)[0].tensor();
  ASSERT_EQ(y.NumElements(), kBatch * kResults * kPlaces * width);
  int64_t at = 0;
  for (int64_t n = 0; n < kBatch; ++n) {
    for (int64_t result = 0; result < kResults; ++result) {
      for (int64_t place = 0; place < kPlaces; ++place) {
        for (int64_t column = 0; column < width; ++column, ++at) {
          float sum = 0;
          for (int64_t c = 0; c < kChannels; ++c) {
            for (int64_t tap = 0; tap < kTaps; ++tap) {
              const int64_t row = place * kStride - kPadding + tap * kDilation;
              if (row < 0 || row >= kRows) continue;
              sum += ElementOf(((n * kChannels + c) * kRows + row) * width + column) *
                     WeightOf((result * kChannels + c) * kTaps + tap);
            }
          }
          ASSERT_EQ(y.data_as<float>()[at], sum)
              << "image " << n << ", channel " << result << ", place " << place << ", column " << column;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, ColumnConvolutionTest, ::testing::Values(1, 3, 40));

}  // namespace
}  // namespace smelt
