#include "smelt/codegen/plan_lowering.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/plan_testing.h"
#include "smelt/codegen/test_kernels.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

TEST(PlanLoweringTest, ALoadAfterTheStoreDoesNotReadFirst) {
  const KernelSpec before = ParseOrDie(kTestCopy);
  EXPECT_TRUE(PlanLowering::ReadsFirst(before, 0, 1));
  const KernelSpec after = ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
param float32 r [unit] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
%2 = load.p2 float32
%3 = store.p1 float32 %2
outer 0 1 2 3
)");
  EXPECT_TRUE(PlanLowering::ReadsFirst(after, 0, 1));
  EXPECT_FALSE(PlanLowering::ReadsFirst(after, 2, 1));
}

TEST(PlanLoweringTest, APointwiseNodeReadsItsOperandAtTheIndexThatItWrites) {
  PlanParts p(R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %y : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
  return (%y)
)");
  p.slots.BindInputs();
  const NodeId exp = p.graph->value(p.Find("y")).def;
  EXPECT_TRUE(p.lowering.ReadsSameIndexOnly(exp, p.Find("x"), p.Find("y")));
}

}  // namespace
}  // namespace smelt
