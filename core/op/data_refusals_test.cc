#include "smelt/core/op/data_refusals.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

// Returns MayRefuse of the last node of a graph over floats %x, integers %i and %j, and a mask %m.
bool LastMayRefuse(const std::string& nodes) {
  const auto graph = ParseGraph(
      "graph(%x : Float(4, 3, strides=[3, 1]), %i : Long(2, strides=[1]), %j : Long(2, strides=[1]),\n"
      "      %m : Bool(4, 3, strides=[3, 1])):\n"
      "  %none : NoneType = prim::Constant()\n"
      "  %zero : int = prim::Constant[value=0]()\n"
      "  %two : int = prim::Constant[value=2]()\n" +
      nodes + "  return (%x)\n");
  SMELT_CHECK(graph.ok()) << graph.status();
  const Graph& g = **graph;
  return MayRefuseData(g, g.block(g.top()).last);
}

TEST(DataRefusalsTest, AnIndexMayBeOutOfRangeButNoMaskAndNothingThatNonzeroMade) {
  EXPECT_TRUE(LastMayRefuse("  %y : Float(2, 3, strides=[3, 1]) = aten::index_select(%x, %zero, %i)\n"));
  EXPECT_TRUE(
      LastMayRefuse("  %l : Tensor?[] = prim::ListConstruct(%none, %i)\n"
                    "  %y : Float(4, 2, strides=[2, 1]) = aten::index.Tensor(%x, %l)\n"));
  EXPECT_FALSE(
      LastMayRefuse("  %l : Tensor?[] = prim::ListConstruct(%m)\n"
                    "  %y : Tensor = aten::index.Tensor(%x, %l)\n"));
  EXPECT_FALSE(
      LastMayRefuse("  %n : Long(5, 2, strides=[2, 1]) = aten::nonzero(%m)\n"
                    "  %c : Long(5, strides=[2]) = aten::select.int(%n, %zero, %zero)\n"
                    "  %y : Float(5, 3, strides=[3, 1]) = aten::index_select(%x, %zero, %c)\n"));
}

TEST(DataRefusalsTest, IntegersMayBeDividedByZeroButNotByANumberThatIsNone) {
  EXPECT_TRUE(LastMayRefuse("  %y : Long(2, strides=[1]) = aten::floor_divide(%i, %j)\n"));
  EXPECT_TRUE(LastMayRefuse("  %y : Long(2, strides=[1]) = aten::remainder.Scalar(%i, %zero)\n"));
  EXPECT_FALSE(LastMayRefuse("  %y : Long(2, strides=[1]) = aten::remainder.Scalar(%i, %two)\n"));
  EXPECT_FALSE(LastMayRefuse("  %y : Float(2, strides=[1]) = aten::div.Tensor(%i, %j)\n"));
}

TEST(DataRefusalsTest, AMatrixMayHaveNoFactors) {
  EXPECT_TRUE(LastMayRefuse("  %y : Tensor = aten::linalg_cholesky(%x)\n"));
  EXPECT_FALSE(LastMayRefuse("  %y : Float(4, 3, strides=[3, 1]) = aten::exp(%x)\n"));
}

TEST(DataRefusalsTest, WhatWritesIsNotAskedAbout) {
  EXPECT_FALSE(LastMayRefuse("  %y : Float(4, 3, strides=[3, 1]) = aten::index_add_(%x, %zero, %i, %x, %two)\n"));
}

}  // namespace
}  // namespace smelt
