#include "smelt/codegen/plan_steps.h"

#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {
namespace {

TEST(PlanStepsTest, AStepGoesIntoTheBlockThatWasEnteredLast) {
  Graph g;
  fb::PlanT plan;
  PlanSteps steps(g, plan);
  const int outer = steps.NewBlock(), inner = steps.NewBlock();
  steps.Enter(inner);
  steps.Allocate(7);
  steps.Enter(outer);
  EXPECT_TRUE(plan.blocks[outer]->steps.empty());
  ASSERT_EQ(plan.blocks[inner]->steps.size(), 1);
  EXPECT_EQ(plan.blocks[inner]->steps[0]->step.AsAlloc()->slot, 7);
}

TEST(PlanStepsTest, RegistersAreNumberedInTheOrderInWhichTheyAreAskedFor) {
  Graph g;
  fb::PlanT plan;
  PlanSteps steps(g, plan);
  EXPECT_EQ(steps.NewRegister(), 0);
  EXPECT_EQ(steps.NewRegister(), 1);
  EXPECT_EQ(steps.num_registers(), 2);
}

}  // namespace
}  // namespace smelt
