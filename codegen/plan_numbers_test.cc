#include "smelt/codegen/plan_numbers.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

constexpr char kItem[] = R"(graph(%x : Float(strides=[])):
  %n : float = aten::item(%x)
  return (%n)
)";

TEST(PlanNumbersTest, ANumberThatWasReadKeepsItsRegister) {
  PlanParts p(kItem);
  p.slots.BindInputs();
  const ValueId n = p.Find("n");
  EXPECT_FALSE(p.numbers.Has(n));
  ASSERT_TRUE(p.numbers.Read(p.graph->value(n).def).ok());
  ASSERT_NE(p.numbers.Find(n), nullptr);
  absl::StatusOr<int> r = p.numbers.RegisterOf(n);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(*r, *p.numbers.Find(n));
  EXPECT_EQ(p.NumSteps(), 1);
}

}  // namespace
}  // namespace smelt
