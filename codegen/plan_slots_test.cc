#include "smelt/codegen/plan_slots.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

constexpr char kExp[] = R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %y : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
  return (%y)
)";
const SymbolicGeometry kKilobyte = {DType::kFloat32, {256}, {1}, 0};

TEST(PlanSlotsTest, AnArgumentHasOneSlot) {
  PlanParts p(kExp);
  p.slots.BindInputs();
  ASSERT_NE(p.slots.Find(p.Find("x")), nullptr);
  EXPECT_EQ(p.slots.ArgSlot(0), p.slots.LocationOf(p.Find("x")).slot);
  EXPECT_EQ(p.plan.slots.size(), 1);
  EXPECT_EQ(p.slots.ArgumentValue(0), p.Find("x"));
}

TEST(PlanSlotsTest, AValueThatWasNotPlacedHasNoLocation) {
  PlanParts p(kExp);
  p.slots.BindInputs();
  EXPECT_EQ(p.slots.Find(p.Find("y")), nullptr);
  EXPECT_FALSE(p.slots.Locate(p.Find("y")).ok());
}

TEST(PlanSlotsTest, BuffersThatDoNotLiveAtOneTimeShareBytes) {
  PlanParts p(kExp);
  const int a = p.slots.NewArena(kKilobyte, 0, 1), b = p.slots.NewArena(kKilobyte, 2, 3);
  p.slots.Pack();
  EXPECT_EQ(p.plan.slots[a]->offset, p.plan.slots[b]->offset);
}

TEST(PlanSlotsTest, ABufferThatIsExtendedSharesNoBytesWithALaterOne) {
  PlanParts p(kExp);
  const int a = p.slots.NewArena(kKilobyte, 0, 1), b = p.slots.NewArena(kKilobyte, 2, 3);
  p.slots.Extend(a, 2);
  p.slots.Pack();
  EXPECT_NE(p.plan.slots[a]->offset, p.plan.slots[b]->offset);
}

}  // namespace
}  // namespace smelt
