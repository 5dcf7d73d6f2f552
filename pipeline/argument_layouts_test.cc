#include "smelt/pipeline/argument_layouts.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {
namespace {

std::unique_ptr<Graph> Parsed(const std::string& text) {
  auto g = ParseGraph(text);
  SMELT_CHECK_OK(g.status());
  SMELT_CHECK_OK(InferTypes(**g));
  return *std::move(g);
}

std::unique_ptr<Graph> NegativeOf(const std::string& type) {
  return Parsed(absl::StrCat("graph(%x : Float", type, R"():
  %y : Tensor = aten::neg(%x)
  return (%y)
)"));
}

constexpr int64_t kAnyBytes = 0;

TEST(ArgumentLayoutsTest, AMatrixMayHaveGapsOrBeTransposed) {
  const auto g = NegativeOf("(6, 10, strides=[10, 1])");
  EXPECT_EQ(OrdersWithPlans(*g, kAnyBytes, false), (std::vector<DimOrders>{{{0, 1}}, {{1, 0}}}));
}

TEST(ArgumentLayoutsTest, ImagesMayHaveTheirChannelsInnermost) {
  const auto first = NegativeOf("(2, 3, 4, 5, strides=[60, 20, 5, 1])");
  EXPECT_EQ(OrdersWithPlans(*first, kAnyBytes, false),
            (std::vector<DimOrders>{{{0, 1, 2, 3}}, {{0, 2, 3, 1}}, {{0, 1, 3, 2}}}));
  const auto last = NegativeOf("(2, 3, 4, 5, strides=[60, 1, 15, 3])");
  EXPECT_EQ(OrdersWithPlans(*last, kAnyBytes, false), (std::vector<DimOrders>{{{0, 2, 3, 1}}, {{0, 2, 1, 3}}}));
}

TEST(ArgumentLayoutsTest, EveryOtherElementIsTakenInTheExportedOrder) {
  const DimOrders stepped = {DimOrder({0, 1}, 2)};
  EXPECT_EQ(OrdersWithPlans(*NegativeOf("(6, 10, strides=[10, 1])"), kAnyBytes, true),
            (std::vector<DimOrders>{{{0, 1}}, {{1, 0}}, stepped}));
  EXPECT_EQ(OrdersWithPlans(*NegativeOf("(60, strides=[1])"), kAnyBytes, true),
            (std::vector<DimOrders>{{DimOrder({0}, 2)}}));
}

TEST(ArgumentLayoutsTest, ADimOfOneElementHasNoPlaceInTheOrder) {
  const auto g = NegativeOf("(1, 3, 4, strides=[12, 4, 1])");
  EXPECT_EQ(OrdersWithPlans(*g, kAnyBytes, false), (std::vector<DimOrders>{{{1, 2}}, {{2, 1}}}));
}

TEST(ArgumentLayoutsTest, SmallArgumentsAndVectorsHaveNoPlans) {
  EXPECT_TRUE(OrdersWithPlans(*NegativeOf("(6, 10, strides=[10, 1])"), 241, false).empty());
  EXPECT_FALSE(OrdersWithPlans(*NegativeOf("(6, 10, strides=[10, 1])"), 240, false).empty());
  EXPECT_TRUE(OrdersWithPlans(*NegativeOf("(60, strides=[1])"), kAnyBytes, false).empty());
  EXPECT_TRUE(OrdersWithPlans(*NegativeOf("(6, 10, strides=[0, 1])"), kAnyBytes, false).empty());
}

TEST(ArgumentLayoutsTest, EachOfTwoArgumentsMayBeTransposedAlone) {
  const auto g = Parsed(R"(
graph(%x : Float(6, 10, strides=[10, 1]), %n : int, %y : Float(6, 10, strides=[10, 1])):
  %z : Tensor = aten::mul(%x, %y)
  return (%z)
)");
  const DimOrder rows = {0, 1}, columns = {1, 0};
  EXPECT_EQ(
      OrdersWithPlans(*g, kAnyBytes, false),
      (std::vector<DimOrders>{{rows, {}, rows}, {columns, {}, columns}, {columns, {}, rows}, {rows, {}, columns}}));
}

TEST(ArgumentLayoutsTest, SmallerArgumentsHaveTheOrderOfAllLargeOnes) {
  const auto g = Parsed(R"(
graph(%x : Float(6, 16, strides=[16, 1]), %y : Float(6, 2, strides=[2, 1]), %w : Float(11, strides=[1])):
  %z : Tensor = aten::neg(%x)
  return (%z)
)");
  // x has 384 bytes, y 48 and w 44.
  const DimOrder rows = {0, 1}, columns = {1, 0}, every_other = DimOrder({0, 1}, 2);
  EXPECT_EQ(OrdersWithPlans(*g, 384, true), (std::vector<DimOrders>{{rows, rows, {}},
                                                                    {columns, columns, {}},
                                                                    {columns, rows, {}},
                                                                    {every_other, every_other, {}},
                                                                    {every_other, rows, {}}}));
  EXPECT_TRUE(OrdersWithPlans(*g, 385, true).empty());
}

TEST(ArgumentLayoutsTest, EachOfTwoArgumentsMayHaveItsStepAlone) {
  const auto g = Parsed(R"(
graph(%x : Float(6, 10, strides=[10, 1]), %y : Float(10, strides=[1])):
  %z : Tensor = aten::mul(%x, %y)
  return (%z)
)");
  const DimOrder rows = {0, 1}, every_other = DimOrder({0, 1}, 2), vector = DimOrder({0}, 2);
  EXPECT_EQ(
      OrdersWithPlans(*g, kAnyBytes, true),
      (std::vector<DimOrders>{{rows, {}}, {{1, 0}, {}}, {every_other, vector}, {every_other, {}}, {rows, vector}}));
}

TEST(ArgumentLayoutsTest, StepsAcrossTheLoopHaveAPlanInPointwiseOperatorsAlone) {
  const auto has_plan = [](const std::string& result) {
    const auto g = Parsed(absl::StrCat(R"(
graph(%x : Float(6, 10, strides=[10, 1])):
  %none : NoneType = prim::Constant()
  %t : Tensor = aten::t(%x)
  %y : Tensor = )",
                                       result, "\n  return (%y)\n"));
    return AtDimOrders(*g, LayoutInference(*g), {DimOrder({0, 1}, 2)}) != nullptr;
  };
  EXPECT_TRUE(has_plan("aten::neg(%t)"));
  EXPECT_FALSE(has_plan("aten::sum(%t, %none)"));
}

TEST(ArgumentLayoutsTest, ResultsFollowTheArgumentsOrder) {
  const auto g = NegativeOf("(6, 10, strides=[10, 1])");
  const auto at = AtDimOrders(*g, LayoutInference(*g), {{1, 0}});
  ASSERT_NE(at, nullptr);
  EXPECT_EQ(at->value(at->inputs()[0]).type.ToString(), "Float(6, 10, strides=[1, x.stride1])");
  EXPECT_EQ(at->value(at->outputs()[0]).type.ToString(), "Float(6, 10, strides=[1, 6])");
}

}  // namespace
}  // namespace smelt
