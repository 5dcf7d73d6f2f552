#include "smelt/codegen/plan_regions.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

// The sine of an argument is written into the left half of a zero matrix, and then its cosine into the right half.
constexpr char kTwoHalves[] = R"(graph(%x : Float(8, 16, strides=[16, 1]), %a : Float(8, 32, strides=[32, 1])):
  %s : Float(8, 16, strides=[16, 1]) = aten::sin(%x)
  %b : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 1], offset=0, dtype=6](%a, %s)
  %c : Float(8, 16, strides=[16, 1]) = aten::cos(%x)
  %d : Float(8, 32, strides=[32, 1]) = smelt::write_region[sizes=[8, 16], strides=[32, 1], offset=16, dtype=6](%b, %c)
  %r : Float(8, 16, strides=[32, 1]) = smelt::view[sizes=[8, 16], strides=[32, 1], offset=16, dtype=6](%d)
  return (%r)
)";

TEST(PlanRegionsTest, AChainGoesFromTheLastContentsToTheFirst) {
  PlanParts p(kTwoHalves);
  EXPECT_EQ(p.regions.ChainOf(p.Find("d")), (std::vector<ValueId>{p.Find("d"), p.Find("b"), p.Find("a")}));
  EXPECT_EQ(p.regions.ChainOf(p.Find("s")), std::vector<ValueId>{p.Find("s")});
}

TEST(PlanRegionsTest, AViewOfHalfOfTheColumnsShowsAPart) {
  PlanParts p(kTwoHalves);
  EXPECT_TRUE(p.regions.ShowsAPart(p.Find("r"), p.Find("d")));
  EXPECT_FALSE(p.regions.ShowsAPart(p.Find("d"), p.Find("d")));
}

TEST(PlanRegionsTest, BytesEndWithTheLastElement) {
  EXPECT_EQ(BytesOf({DType::kFloat32, {3, 4}, {4, 1}, 0}), Expr(48));
  EXPECT_EQ(BytesOf({DType::kFloat32, {3, 4}, {1, 3}, 0}), Expr(48));
  // The last of 3 x 4 elements in rows of 10 is number 23.
  EXPECT_EQ(BytesOf({DType::kFloat32, {3, 4}, {10, 1}, 0}), Expr(96));
  EXPECT_EQ(BytesOf({DType::kFloat32, {0, 4}, {4, 1}, 0}), Expr(0));
}

TEST(PlanRegionsTest, TheStrideOfADimOfSizeOneDoesNotMatter) {
  EXPECT_TRUE(SameLayout({DType::kFloat32, {1, 4}, {4, 1}, 0}, {DType::kFloat32, {1, 4}, {7, 1}, 0}));
  EXPECT_FALSE(SameLayout({DType::kFloat32, {2, 4}, {4, 1}, 0}, {DType::kFloat32, {2, 4}, {7, 1}, 0}));
}

}  // namespace
}  // namespace smelt
