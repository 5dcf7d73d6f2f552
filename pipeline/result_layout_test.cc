#include "smelt/pipeline/result_layout.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

// Of the last node of a graph over %x, of 2 to 64 by 3, and %y, 3 by 4, whose constants are given.
ResultLayout LayoutOf(const std::string& nodes) {
  auto g = ParseGraph(absl::StrCat(R"(graph(%x : Float(s0, 3, strides=[3, 1]), %y : Float(3, 4, strides=[4, 1])):
  symbol s0 in [2, 64] hint 4
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
)",
                                   nodes, "\n  return (%r)\n"));
  EXPECT_TRUE(g.ok()) << g.status();
  if (!g.ok()) return {};
  ResultLayout layout = DescribeResultLayout(**g, (*g)->block((*g)->top()).last);
  for (ValueId v : layout.deciding) EXPECT_EQ((*g)->value(v).name, "x");
  return layout;
}

// Expected are the layouts of PyTorch's kernels.
TEST(ResultLayoutTest, FlipAndSortLieAsTheirOperandWithoutItsGaps) {
  EXPECT_EQ(LayoutOf("  %d : int[] = prim::Constant[value=[0]]()\n  %r : Tensor = aten::flip(%x, %d)").kind,
            fb::EagerLayout::Preserve);
  EXPECT_EQ(LayoutOf("  %r : Tensor, %i : Tensor = aten::sort(%x, %zero, %no)").kind, fb::EagerLayout::Preserve);
}

TEST(ResultLayoutTest, AScatteredCopyHasTheVeryStridesOfItsOperand) {
  EXPECT_EQ(LayoutOf("  %s : Float(3, strides=[1]) = aten::select.int(%x, %zero, %zero)\n"
                     "  %r : Tensor = aten::select_scatter(%x, %s, %zero, %one)")
                .kind,
            fb::EagerLayout::Keep);
}

TEST(ResultLayoutTest, DifferencesAreOrderedAsTheirOperandIsThoughTheyAreFewer) {
  EXPECT_EQ(LayoutOf("  %n : NoneType = prim::Constant()\n  %r : Tensor = aten::diff(%x, %one, %one, %n, %n)").kind,
            fb::EagerLayout::Order);
}

TEST(ResultLayoutTest, JoinedTensorsAreChannelsLastWhereAllOfThemAre) {
  auto g = ParseGraph(
      R"(graph(%x : Float(2, 3, 4, 4, strides=[48, 16, 4, 1]), %y : Float(2, 5, 4, 4, strides=[80, 16, 4, 1])):
  %one : int = prim::Constant[value=1]()
  %l : Tensor[] = prim::ListConstruct(%x, %y)
  %r : Tensor = aten::cat(%l, %one)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(DescribeResultLayout(**g, (*g)->block((*g)->top()).last).kind, fb::EagerLayout::FormatOfAll);
}

TEST(ResultLayoutTest, VolumesHaveAFormatAsImagesDo) {
  auto g = ParseGraph(R"(graph(%x : Float(2, 3, 4, 4, 4, strides=[192, 64, 16, 4, 1])):
  %one : int = prim::Constant[value=1]()
  %two : int[] = prim::Constant[value=[2, 2, 2]]()
  %zero : int[] = prim::Constant[value=[0, 0, 0]]()
  %ones : int[] = prim::Constant[value=[1, 1, 1]]()
  %no : bool = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%x, %x)
  %c : Tensor = aten::cat(%l, %one)
  %p : Tensor = aten::max_pool3d(%x, %two, %two, %zero, %ones, %no)
  return (%c, %p)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const auto kind_of = [&](const char* name) {
    return DescribeResultLayout(**g, (*g)->value((*g)->FindValue(name)).def).kind;
  };
  EXPECT_EQ(kind_of("c"), fb::EagerLayout::FormatOfAll);
  EXPECT_EQ(kind_of("p"), fb::EagerLayout::Format);
}

TEST(ResultLayoutTest, WhatHasOneSpatialDimHasTheFormatOfARow) {
  auto g = ParseGraph(R"(graph(%x : Float(2, 5, 8, strides=[40, 8, 1])):
  %two : int[] = prim::Constant[value=[2]]()
  %zero : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %r : Tensor = aten::avg_pool1d(%x, %two, %two, %zero, %no, %no)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(DescribeResultLayout(**g, (*g)->block((*g)->top()).last).kind, fb::EagerLayout::Format);
}

TEST(ResultLayoutTest, AttentionLiesAsItsQueriesWhereAllHaveRows) {
  auto g = ParseGraph(
      R"(graph(%q : Float(2, 3, 5, 4, strides=[60, 20, 4, 1]), %k : Float(2, 3, 7, 4, strides=[84, 28, 4, 1])):
  %n : NoneType = prim::Constant()
  %z : float = prim::Constant[value=0.]()
  %no : bool = prim::Constant[value=0]()
  %r : Tensor = aten::scaled_dot_product_attention(%q, %k, %k, %n, %z, %no, %n, %no)
  return (%r)
)");
  ASSERT_TRUE(g.ok()) << g.status();
  const ResultLayout layout = DescribeResultLayout(**g, (*g)->block((*g)->top()).last);
  EXPECT_EQ(layout.kind, fb::EagerLayout::Rows);
  EXPECT_EQ(layout.deciding.size(), 3);
}

TEST(ResultLayoutTest, AProductAndARunningSumAreContiguous) {
  EXPECT_EQ(LayoutOf("  %r : Tensor = aten::mm(%x, %y)").kind, fb::EagerLayout::AsComputed);
  EXPECT_EQ(LayoutOf("  %n : NoneType = prim::Constant()\n  %r : Tensor = aten::cumsum(%x, %zero, %n)").kind,
            fb::EagerLayout::AsComputed);
}

}  // namespace
}  // namespace smelt
