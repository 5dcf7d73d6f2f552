#include "smelt/pipeline/argument_strides.h"

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

using Inputs = std::vector<int>;

Inputs WithStridesOfOnes(const Graph& g) { return ArgumentsWithStridesOfOnes(g, LayoutInference(g)); }
Inputs OfAnyStrides(const Graph& g) { return ArgumentsOfAnyStrides(g, LayoutInference(g)); }

// A program that joins images x with these sizes and strides along their channels.
std::unique_ptr<Graph> Joined(const std::string& type, const std::string& nodes) {
  auto g = ParseGraph(absl::StrCat("graph(%other : Float(3, strides=[1]), %x : Float", type, R"():
  symbol n in [2, 64] hint 4
  %1 : int = prim::Constant[value=1]()
  %both : Tensor[] = prim::ListConstruct(%x, %x)
  %y : Tensor = aten::cat(%both, %1)
)",
                                   nodes));
  SMELT_CHECK_OK(g.status());
  SMELT_CHECK_OK(InferTypes(**g));
  return *std::move(g);
}

constexpr char kReturned[] = "  return (%y)\n";

TEST(StridesOfOnes, ThatOfOneChannelTellsTheFormatOfWhatIsReturned) {
  EXPECT_EQ(WithStridesOfOnes(*Joined("(2, 1, 4, 5, strides=[20, 20, 5, 1])", kReturned)), Inputs{1});
}

TEST(StridesOfOnes, OfSeveralChannelsTheOtherDimsTellIt) {
  EXPECT_EQ(WithStridesOfOnes(*Joined("(1, 3, 4, 5, strides=[60, 20, 5, 1])", kReturned)), Inputs{});
}

TEST(StridesOfOnes, WhereNobodySeesTheFormatNothingIsAsked) {
  EXPECT_EQ(WithStridesOfOnes(*Joined("(2, 1, 4, 5, strides=[20, 20, 5, 1])", R"(  %no : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%y, %no)
  return (%s)
)")),
            Inputs{});
}

TEST(StridesOfOnes, ASizeThatMayBeOneAtACallIsAskedToo) {
  auto g = Joined("(2, n, 4, 5, strides=[20*n, 1, 5*n, n])", kReturned);
  EXPECT_EQ(WithStridesOfOnes(*g), Inputs{});
  SymbolRanges::Range r = g->symbols.Get("n");
  r.accepted_min = 1;
  g->symbols.Set("n", r);
  EXPECT_EQ(WithStridesOfOnes(*g), Inputs{1});
}

TEST(AnyStrides, OfImagesOfWhichASumIsReturnedTheFormatDecidesNothing) {
  const char* sum = R"(  %no : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%y, %no)
  return (%s)
)";
  EXPECT_EQ(OfAnyStrides(*Joined("(2, 3, 4, 5, strides=[60, 20, 5, 1])", sum)), (Inputs{0, 1}));
  EXPECT_EQ(OfAnyStrides(*Joined("(2, 3, 4, 5, strides=[60, 20, 5, 1])", kReturned)), Inputs{0});
}

TEST(AnyStrides, WhatIsSeenUnderOtherSizesInPlaceOrInMemoryDecides) {
  for (const char* nodes : {R"(  %5 : int = prim::Constant[value=-1]()
  %flat : int[] = prim::ListConstruct(%5)
  %v : Tensor = aten::view(%x, %flat)
  %no : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%v, %no)
  return (%s)
)",
                            R"(  %two : int[] = prim::Constant[value=[2]]()
  %three : int[] = prim::Constant[value=[3]]()
  %no : NoneType = prim::Constant()
  %v : Tensor = aten::as_strided(%x, %two, %three, %no)
  %s : Tensor = aten::sum(%v, %no)
  return (%s)
)",
                            R"(  %zero : int = prim::Constant[value=0]()
  %last : int = prim::Constant[value=-1]()
  %flat : Tensor = aten::flatten.using_ints(%x, %zero, %last)
  %w : Tensor = aten::add_.Scalar(%flat, %1, %1)
  %no : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%x, %no)
  return (%s)
)"}) {
    EXPECT_EQ(OfAnyStrides(*Joined("(2, 3, 4, 5, strides=[60, 20, 5, 1])", nodes)), Inputs{0}) << nodes;
  }
}

TEST(AnyStrides, WhatTwoInputsDecideTogetherNoneIsFreeOf) {
  // The result is channels-last if both are.
  auto g = ParseGraph(R"(graph(%x : Float(2, 3, 4, 5, strides=[60, 20, 5, 1]),
      %y : Float(2, 3, 4, 5, strides=[60, 20, 5, 1])):
  %1 : int = prim::Constant[value=1]()
  %both : Tensor[] = prim::ListConstruct(%x, %y)
  %z : Tensor = aten::cat(%both, %1)
  return (%z)
)");
  SMELT_CHECK_OK(g.status());
  SMELT_CHECK_OK(InferTypes(**g));
  EXPECT_EQ(OfAnyStrides(**g), Inputs{});
}

// Each weight's format shows in all that follows. Only the first question about it goes through all of that.
TEST(LayoutDependence, AskingAboutEachWeightOfAChainVisitsNodesInProportion) {
  const auto visited = [](int layers) {
    std::string text = "graph(%v0 : Float(2, 4, 8, 8, strides=[256, 64, 8, 1])";
    for (int i = 0; i < layers; ++i) absl::StrAppend(&text, ", %w", i, " : Float(4, 4, 3, 3, strides=[36, 9, 3, 1])");
    absl::StrAppend(&text, R"():
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
)");
    for (int i = 0; i < layers; ++i) {
      absl::StrAppend(&text, "  %v", i + 1, " : Tensor = aten::convolution(%v", i, ", %w", i,
                      ", %none, %ones, %ones, %ones, %no, %zeros, %1)\n");
    }
    absl::StrAppend(&text, "  return (%v", layers, ")\n");
    auto g = ParseGraph(text);
    SMELT_CHECK_OK(g.status());
    SMELT_CHECK_OK(InferTypes(**g));
    const LayoutInference layouts(**g);
    LayoutDependence dependence(layouts, (*g)->Clone());
    for (int i = 1; i <= layers; ++i) EXPECT_TRUE(dependence.OnStrides({i})) << i;
    return dependence.num_visited();
  };
  const int64_t once = visited(20);
  EXPECT_GE(once, 20);
  EXPECT_LE(visited(40), 2 * once + 10);
}

}  // namespace
}  // namespace smelt
