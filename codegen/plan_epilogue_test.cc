#include "smelt/codegen/plan_epilogue.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

// The result is the argument's contents in a memory of their own: nothing but the end of the call can make it.
TEST(PlanEpilogueTest, AResultThatNoNodeMakesIsCopied) {
  PlanParts p(R"(graph(%x : Float(8, 32, strides=[32, 1])):
  return (%x)
)");
  p.slots.BindInputs();
  ASSERT_TRUE(p.destinations.Choose().ok());
  PlanEpilogue epilogue(p.tables, *p.graph, p.convention, p.plan, p.parts, p.destinations, p.numbers, p.kernels);
  ASSERT_TRUE(epilogue.Emit().ok());
  ASSERT_EQ(p.NumSteps(), 1);
  const fb::CopyT& copy = *p.plan.blocks[0]->steps[0]->step.AsCopy();
  EXPECT_EQ(p.plan.views[copy.src]->slot, p.slots.ArgSlot(0));
  EXPECT_EQ(p.plan.views[copy.dst]->slot, p.destinations.FreshSlot(-1));
  ASSERT_EQ(p.plan.convention->outputs->outputs.size(), 1);
  EXPECT_EQ(p.plan.convention->outputs->outputs[0]->kind, fb::OutputKind::Fresh);
  EXPECT_TRUE(p.plan.written_args.empty());
}

}  // namespace
}  // namespace smelt
