#include "smelt/codegen/plan_kernels.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

constexpr char kChain[] = R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %y : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
  %z : Float(8, 32, strides=[32, 1]) = aten::exp(%y)
  %u : Float(8, 32, strides=[32, 1]) = aten::exp(%z)
  return (%u)
)";

TEST(PlanKernelsTest, EqualNodesLaunchOneKernel) {
  PlanParts p(kChain);
  p.slots.BindInputs();
  for (NodeId n : p.graph->Nodes(p.graph->top())) {
    p.steps.MoveTo(p.lives.Begin(n));
    ASSERT_TRUE(p.kernels.Launch(n).ok());
  }
  EXPECT_EQ(p.steps.stats.launches, 3);
  EXPECT_EQ(p.kernels.CountDistinct(), 1);
}

// The exponential of %y reads it at the index that it writes, and nothing reads %y later.
TEST(PlanKernelsTest, AResultTakesOverAnOperandThatIsNotNeededLater) {
  PlanParts p(kChain);
  p.slots.BindInputs();
  for (NodeId n : p.graph->Nodes(p.graph->top())) {
    p.steps.MoveTo(p.lives.Begin(n));
    ASSERT_TRUE(p.kernels.Launch(n).ok());
  }
  EXPECT_EQ(p.slots.LocationOf(p.Find("z")).slot, p.slots.LocationOf(p.Find("y")).slot);
  EXPECT_NE(p.slots.LocationOf(p.Find("y")).slot, p.slots.LocationOf(p.Find("x")).slot);
}

}  // namespace
}  // namespace smelt
