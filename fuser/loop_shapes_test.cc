#include "smelt/fuser/loop_shapes.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;

NodeId MakerOf(const Graph& g, int output) { return g.value(g.outputs()[output]).def; }

TEST(LoopShapesTest, ABroadcastOperandHasNoLoopAlongItsDimOfSizeOne) {
  const auto g = ParseGraph(R"(
graph(%x : Float(4, 3, strides=[3, 1]), %y : Float(4, 1, strides=[1, 1])):
  %s : Float(4, 3, strides=[3, 1]) = aten::mul.Tensor(%x, %y)
  return (%s)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const std::optional<Shape> shape = ShapeOf(**g, MakerOf(**g, 0));
  ASSERT_TRUE(shape.has_value());
  EXPECT_THAT(shape->frame.sizes, ElementsAre(Expr(4), Expr(3)));
  EXPECT_FALSE(shape->frame.HasReduction());
  ASSERT_EQ(shape->operands.size(), 2u);
  EXPECT_THAT(shape->operands[0].second, ElementsAre(0, 1));
  EXPECT_THAT(shape->operands[1].second, ElementsAre(0, -1));
}

TEST(LoopShapesTest, AReductionRunsOverItsOperandAndIsMadeOnce) {
  const auto g = ParseGraph(R"(
graph(%x : Float(4, 3, strides=[3, 1])):
  %dims : int[] = prim::Constant[value=[1]]()
  %keep : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %s : Float(4, strides=[1]) = aten::sum.dim_IntList(%x, %dims, %keep, %none)
  return (%s)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const std::optional<Shape> shape = ShapeOf(**g, MakerOf(**g, 0));
  ASSERT_TRUE(shape.has_value());
  EXPECT_THAT(shape->frame.sizes, ElementsAre(Expr(4), Expr(3)));
  EXPECT_THAT(shape->frame.reduced, ElementsAre(false, true));
  EXPECT_THAT(shape->out, ElementsAre(0));
  EXPECT_FALSE(shape->any_index);
}

TEST(LoopShapesTest, ATransposedViewShowsEachDimOfItsBaseOnce) {
  const auto g = ParseGraph(R"(
graph(%x : Float(4, 3, strides=[3, 1])):
  %t : Float(3, 4, strides=[1, 3]) = smelt::view[sizes=[3, 4], strides=[1, 3], offset=0, dtype=6](%x)
  %u : Float(3, 3, strides=[3, 1]) = smelt::view[sizes=[3, 3], strides=[3, 1], offset=0, dtype=6](%x)
  return (%t, %u)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  Label base;
  EXPECT_TRUE(ThroughView(**g, MakerOf(**g, 0), {0, 1}, &base));
  EXPECT_THAT(base, ElementsAre(1, 0));
  EXPECT_FALSE(ThroughView(**g, MakerOf(**g, 1), {0, 1}, &base));  // it lacks the base's last row
}

}  // namespace
}  // namespace smelt
