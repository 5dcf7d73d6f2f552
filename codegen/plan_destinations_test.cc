#include "smelt/codegen/plan_destinations.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

constexpr char kChain[] = R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %y : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
  %z : Float(8, 32, strides=[32, 1]) = aten::sin(%y)
  return (%z)
)";

TEST(PlanDestinationsTest, AResultIsMadeInItsFreshSlot) {
  PlanParts p(kChain);
  p.slots.BindInputs();
  ASSERT_TRUE(p.destinations.Choose().ok());
  EXPECT_TRUE(p.destinations.Has(p.Find("z")));
  const int slot = p.destinations.Place(p.Find("z")).slot;
  EXPECT_EQ(p.plan.slots[slot]->kind, fb::SlotKind::Fresh);
  EXPECT_EQ(p.destinations.FreshSlot(-1), slot);
  EXPECT_TRUE(p.destinations.WritesNothing());
}

TEST(PlanDestinationsTest, AnotherValueIsMadeInTheArena) {
  PlanParts p(kChain);
  p.slots.BindInputs();
  ASSERT_TRUE(p.destinations.Choose().ok());
  EXPECT_FALSE(p.destinations.Has(p.Find("y")));
  EXPECT_EQ(p.plan.slots[p.destinations.Place(p.Find("y")).slot]->kind, fb::SlotKind::Arena);
}

TEST(PlanDestinationsTest, NothingIsWrittenOverASlotThatIsAwaited) {
  PlanParts p(kChain);
  p.slots.BindInputs();
  const int slot = p.destinations.Place(p.Find("y")).slot;
  EXPECT_TRUE(p.destinations.Writable(slot, p.Find("z")));
  EXPECT_TRUE(p.destinations.Await(slot));
  EXPECT_FALSE(p.destinations.Writable(slot, p.Find("z")));
  p.destinations.EndWait(slot);
  EXPECT_TRUE(p.destinations.Writable(slot, p.Find("z")));
}

}  // namespace
}  // namespace smelt
