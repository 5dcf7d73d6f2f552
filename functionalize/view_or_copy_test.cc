#include "smelt/functionalize/view_or_copy.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace smelt {
namespace {

TensorType Floats(std::vector<Expr> sizes, std::vector<Expr> strides) {
  return Type::Tensor(DType::kFloat32, std::move(sizes), std::move(strides)).tensor();
}

TEST(ViewOrCopyTest, RowsThatFollowEachOtherAreOneView) {
  const Graph g;
  EXPECT_TRUE(IsViewable(g, Floats({3, 4}, {4, 1}), {12}));
  EXPECT_TRUE(IsViewable(g, Floats({3, 4}, {4, 1}), {2, 6}));
}

TEST(ViewOrCopyTest, ATransposedTensorIsCopiedUnlessEachDimIsSplitAlone) {
  const Graph g;
  EXPECT_FALSE(IsViewable(g, Floats({3, 4}, {1, 3}), {12}));
  EXPECT_TRUE(IsViewable(g, Floats({3, 4}, {1, 3}), {3, 2, 2}));
}

TEST(ViewOrCopyTest, ChannelsLastIsNotContiguous) {
  const Graph g;
  const TensorType t = Floats({2, 3, 4, 5}, {60, 1, 15, 3});
  EXPECT_EQ(HasFormat(g, t, 0), false);
  EXPECT_EQ(HasFormat(g, t, 2), true);
}

TEST(ViewOrCopyTest, StridesOfOneElementDoNotMatter) {
  const Graph g;
  EXPECT_EQ(HasFormat(g, Floats({1, 4}, {77, 1}), 0), true);
}

}  // namespace
}  // namespace smelt
