#include "smelt/core/op/cost.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/scalar.h"

namespace smelt {
namespace {

int CostOfText(const std::string& text) {
  const absl::StatusOr<ScalarFn> fn = ParseScalarFn(text);
  SMELT_CHECK_OK(fn.status());
  return CostOf(*fn);
}

// Returns the cost of the last node of a graph over floats %x.
int CostOfLast(const std::string& nodes) {
  const auto graph = ParseGraph(
      "graph(%x : Float(8, strides=[1])):\n"
      "  %n : NoneType = prim::Constant()\n" +
      nodes + "  return (%x)\n");
  SMELT_CHECK(graph.ok()) << graph.status();
  const Graph& g = **graph;
  return CostOf(g, g.block(g.top()).last);
}

TEST(CostTest, CostIsTheSumOfTheInstructions) {
  EXPECT_EQ(CostOfText("(x: f32, y: f32) -> { return x + y; }"), 1);
  EXPECT_EQ(CostOfText("(x: f32, y: f32) -> { return x * y + x; }"), 2);
  EXPECT_EQ(CostOfText("(x: f32) -> { e = exp(x); return e / (e + 1.0); }"), 20 + 1 + 6);
}

TEST(CostTest, ConversionIsCountedOnlyIfThereIsNothingElse) {
  EXPECT_EQ(CostOfText("(x: bf16) -> { return cast(x): f32; }"), 1);
  EXPECT_EQ(CostOfText("(x: bf16) -> { y = cast(x): f32; return cast(y + 1.0): bf16; }"), 1);
}

// Each of them is at most two additions, which may be repeated rather than stored and read.
TEST(CostTest, SimpleFunctionsCostAtMostTwoAdditions) {
  for (const char* op : {"aten::relu", "aten::square", "aten::floor", "aten::ceil", "aten::trunc", "aten::sign",
                         "aten::isnan", "aten::relu6", "aten::neg", "aten::abs"}) {
    EXPECT_LE(CostOfLast(absl::StrCat("  %y : Float(8, strides=[1]) = ", op, "(%x)\n")), 2) << op;
  }
}

TEST(CostTest, ContentsThatAreKnownWithoutMemoryCostNothing) {
  EXPECT_EQ(CostOfLast("  %y : Float(8, strides=[1]) = aten::zeros_like(%x, %n, %n, %n, %n, %n)\n"), 0);
}

}  // namespace
}  // namespace smelt
