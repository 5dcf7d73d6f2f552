#include "smelt/codegen/plan_kernels.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"
#include "smelt/core/op/ops.h"

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

// Launches every node of a program with %x, %y of its size, and %z, which reads a view of %y; returns whether %z is made in
// the memory of %y.
bool TakesOver(const char* program) {
  PlanParts p(program);
  p.slots.BindInputs();
  for (NodeId n : p.graph->Nodes(p.graph->top())) {
    if (p.graph->node(n).op == op::kSmeltView) continue;
    p.steps.MoveTo(p.lives.Begin(n));
    const absl::Status launched = p.kernels.Launch(n);
    EXPECT_TRUE(launched.ok()) << launched;
  }
  return p.slots.LocationOf(p.Find("z")).slot == p.slots.LocationOf(p.Find("y")).slot;
}

TEST(PlanKernelsTest, AResultTakesOverAnOperandThatItReadsThroughAViewOfTheSameOrder) {
  EXPECT_TRUE(TakesOver(R"(graph(%x : Float(32, 32, strides=[32, 1])):
  %y : Float(32, 32, strides=[32, 1]) = aten::exp(%x)
  %v : Float(4, 8, 32, strides=[256, 32, 1]) = smelt::view[sizes=[4, 8, 32], strides=[256, 32, 1], offset=0, dtype=6](%y)
  %z : Float(4, 8, 32, strides=[256, 32, 1]) = aten::exp(%v)
  %u : Float(4, 8, 32, strides=[256, 32, 1]) = aten::exp(%z)
  return (%u)
)"));
}

TEST(PlanKernelsTest, AResultDoesNotTakeOverAnOperandThatItReadsInAnotherOrder) {
  EXPECT_FALSE(TakesOver(R"(graph(%x : Float(32, 32, strides=[32, 1])):
  %y : Float(32, 32, strides=[32, 1]) = aten::exp(%x)
  %v : Float(32, 32, strides=[1, 32]) = smelt::view[sizes=[32, 32], strides=[1, 32], offset=0, dtype=6](%y)
  %z : Float(32, 32, strides=[32, 1]) = aten::exp(%v)
  %u : Float(32, 32, strides=[32, 1]) = aten::exp(%z)
  return (%u)
)"));
}

TEST(PlanKernelsTest, AResultDoesNotTakeOverAnOperandOfWhichAnotherViewIsReadLater) {
  EXPECT_FALSE(TakesOver(R"(graph(%x : Float(32, 32, strides=[32, 1])):
  %y : Float(32, 32, strides=[32, 1]) = aten::exp(%x)
  %v : Float(1024, strides=[1]) = smelt::view[sizes=[1024], strides=[1], offset=0, dtype=6](%y)
  %w : Float(1024, strides=[1]) = smelt::view[sizes=[1024], strides=[1], offset=0, dtype=6](%y)
  %z : Float(1024, strides=[1]) = aten::exp(%v)
  %t : Float(1024, strides=[1]) = aten::sin(%w)
  %u : Float(1024, strides=[1]) = aten::exp(%z)
  return (%u, %t)
)"));
}

}  // namespace
}  // namespace smelt
