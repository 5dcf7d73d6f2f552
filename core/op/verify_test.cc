#include "smelt/core/op/verify.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

std::string Check(absl::string_view body, VerifySchemasOptions options = {}) {
  std::string text = "graph(%x : Float(4), %n : int, %c : bool):\n" + std::string(body) + "  return ()\n";
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return "no graph";
  EXPECT_EQ(VerifyGraph(**g), absl::OkStatus());
  return std::string(VerifySchemas(**g, options).message());
}

TEST(VerifySchemasTest, AcceptsACompleteCall) {
  EXPECT_EQ(Check("  %1 : Tensor = aten::add.Scalar(%x, %n, %n)\n"), "");
  EXPECT_EQ(Check("  %1 : Tensor = my::op(%x)\n"), "");
}

TEST(VerifySchemasTest, NamesTheNodeWithMissingArguments) {
  EXPECT_THAT(Check("  %1 : Tensor = aten::add.Scalar(%x, %n) # m.py:3:0\n"),
              HasSubstr("%1 = aten::add.Scalar (m.py:3): expected 3 inputs, found 2; its schema is aten::add.Scalar("));
  EXPECT_THAT(Check("  aten::relu(%x)\n"), HasSubstr("expected 1 outputs, found 0"));
}

TEST(VerifySchemasTest, TypesThatDoNotFitAreAnErrorUnlessToldOtherwise) {
  EXPECT_THAT(Check("  %1 : Tensor = aten::relu(%n)\n"), HasSubstr("inputs of types (int) do not fit its schema"));
  EXPECT_EQ(Check("  %1 : Tensor = aten::relu(%n)\n", {.check_types = false}), "");
  EXPECT_THAT(Check("  %1 : Tensor = my::op(%x)\n", {.require_schema = true}), HasSubstr("there is no such operator"));
}

TEST(VerifySchemasTest, ControlFlowHasTheBlocksItNeeds) {
  EXPECT_EQ(Check("  %1 : int = prim::If(%c)\n    block0():\n      -> (%n)\n    block1():\n      -> (%n)\n"), "");
  EXPECT_THAT(Check("  %1 : int = prim::If(%c)\n    block0():\n      -> (%n)\n"),
              HasSubstr("expected 2 blocks, found 1"));
  EXPECT_THAT(Check("  %1 : int = prim::If(%c)\n    block0():\n      -> (%n)\n    block1():\n      -> ()\n"),
              HasSubstr("expected 1 results of block 1, found 0"));
  EXPECT_EQ(Check("  %1 : int = prim::Loop(%n, %c, %n)\n    block0(%i : int, %k : int):\n      -> (%c, %k)\n"), "");
  EXPECT_THAT(Check("  %1 : int = prim::Loop(%n, %c, %n)\n    block0(%i : int):\n      -> (%c, %n)\n"),
              HasSubstr("expected 1 outputs and, of its block, 2 parameters and results; found 1, 1 and 2"));
}

TEST(VerifySchemasTest, OtherOperatorsHaveNoBlocks) {
  EXPECT_THAT(Check("  %1 : Tensor = aten::relu(%x)\n    block0():\n      -> (%n)\n"),
              HasSubstr("expected no blocks, found 1"));
}

}  // namespace
}  // namespace smelt
