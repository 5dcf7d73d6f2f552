#include "smelt/core/base/order_statistics.h"

#include <cmath>

#include "gtest/gtest.h"

namespace smelt {
namespace {

struct Line {
  std::vector<double> x;
  bool operator()(int64_t a, int64_t b) const { return x[a] < x[b] || (std::isnan(x[b]) && !std::isnan(x[a])); }
  int64_t size() const { return static_cast<int64_t>(x.size()); }
  auto is_nan() const {
    return [this](int64_t i) { return std::isnan(x[i]); };
  }
};

// 40 numbers of which many are equal.
Line Ties() {
  Line line;
  for (int i = 0; i < 40; ++i) line.x.push_back(i * 7 % 11 % 4);
  return line;
}

// The expected positions are those of PyTorch 2.13 for the same lines.
TEST(OrderStatisticsTest, OfEqualElementsTheOneThatPyTorchsSelectionLeavesThere) {
  const Line ties = Ties();
  EXPECT_EQ(KthPlace(40, 6, ties), 33);
  EXPECT_EQ(KthPlace(40, 19, ties), 7);
  EXPECT_EQ(KthPlace(40, 39, ties), 2);
}

TEST(OrderStatisticsTest, TheMedianIsTheFirstInItsOrderAndANanIsTheMedian) {
  const Line ties = Ties();
  EXPECT_EQ(MedianPlace(40, false, ties, ties.is_nan()), 39);
  const Line nans{{3, NAN, 1, NAN, 1, 2}};
  EXPECT_EQ(MedianPlace(6, false, nans, nans.is_nan()), 1);
  EXPECT_EQ(MedianPlace(6, true, nans, nans.is_nan()), 4);
  const Line nothing{std::vector<double>(7, NAN)};
  EXPECT_EQ(MedianPlace(7, true, nothing, nothing.is_nan()), 5);
}

TEST(OrderStatisticsTest, TheModeOfManyIsWhereAnUnstableSortLeavesIt) {
  const Line ties = Ties();
  EXPECT_EQ(ModePlace(40, ties, ties.is_nan()), 16);
  const Line few{{2, 1, 1, 2, 3}};
  EXPECT_EQ(ModePlace(5, few, few.is_nan()), 2);
  const Line nans{{NAN, 1, 1, NAN, NAN, 2}};
  EXPECT_EQ(ModePlace(6, nans, nans.is_nan()), 2);
  const Line many{std::vector<double>(17, NAN)};
  EXPECT_EQ(ModePlace(17, many, many.is_nan()), std::nullopt);
}

}  // namespace
}  // namespace smelt
