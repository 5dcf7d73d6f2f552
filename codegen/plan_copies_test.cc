#include "smelt/codegen/plan_copies.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

constexpr char kTwo[] = R"(graph(%x : Float(4, strides=[1]), %y : Float(4, strides=[1])):
  return (%x)
)";

TEST(PlanCopiesTest, TwoSlotsThatSwapNeedAThird) {
  PlanParts p(kTwo);
  p.slots.BindInputs();
  const PlanLocation x = p.slots.LocationOf(p.Find("x")), y = p.slots.LocationOf(p.Find("y"));
  p.copies.CopyAtOnce({{x, y}, {y, x}}, /*copy_back=*/false);
  ASSERT_EQ(p.NumSteps(), 3);
  EXPECT_EQ(p.steps.stats.copies, 3);
  EXPECT_EQ(p.plan.slots.size(), 3);
}

TEST(PlanCopiesTest, ASourceIsReadBeforeItIsOverwritten) {
  PlanParts p(kTwo);
  p.slots.BindInputs();
  const PlanLocation x = p.slots.LocationOf(p.Find("x")), y = p.slots.LocationOf(p.Find("y"));
  PlanLocation z = x;
  z.slot = p.slots.NewArena(z.geometry, 0, 1);
  p.copies.CopyAtOnce({{x, y}, {y, z}}, /*copy_back=*/false);
  ASSERT_EQ(p.NumSteps(), 2);
  const fb::CopyT& first = *p.plan.blocks[0]->steps[0]->step.AsCopy();
  EXPECT_EQ(p.plan.views[first.dst]->slot, z.slot);
}

TEST(PlanCopiesTest, AMemoryIsNotCopiedToItself) {
  PlanParts p(kTwo);
  p.slots.BindInputs();
  const PlanLocation x = p.slots.LocationOf(p.Find("x"));
  p.copies.CopyAtOnce({{x, x}}, /*copy_back=*/false);
  EXPECT_EQ(p.NumSteps(), 0);
}

}  // namespace
}  // namespace smelt
