#include "smelt/pipeline/size_one_calls.h"

#include <memory>
#include <set>
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

using Sets = std::vector<std::set<std::string>>;

// A program of x, whose sizes n and m an export assumes to be at least 2 and accepts from 1 on.
std::unique_ptr<Graph> Program(const std::string& type, const std::string& nodes) {
  auto g = ParseGraph(absl::StrCat("graph(%x : Float", type,
                                   "):\n  symbol m in [2, 64] hint 5\n  symbol n in [2, 64] hint 4\n"
                                   "  %0 : int = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n"
                                   "  %2 : int = prim::Constant[value=2]()\n  %3 : int = prim::Constant[value=3]()\n"
                                   "  %all : int = prim::Constant[value=-1]()\n",
                                   nodes));
  SMELT_CHECK_OK(g.status());
  for (const char* symbol : {"m", "n"}) {
    SymbolRanges::Range r = (*g)->symbols.Get(symbol);
    r.accepted_min = 1;
    (*g)->symbols.Set(symbol, r);
  }
  SMELT_CHECK_OK(InferTypes(**g));
  return *std::move(g);
}

constexpr char kMatrices[] = "(n, 3, 5, strides=[15, 5, 1])";
constexpr char kRowsOfTransposed[] = R"(  %t : Tensor = aten::transpose.int(%x, %1, %2)
  %sizes : int[] = prim::ListConstruct(%all, %3)
  %rows : Tensor = aten::reshape(%t, %sizes)
  %y : Tensor = aten::exp(%rows)
)";

TEST(SizeOneCalls, RowsOfOneMatrixThatLieAsItsColumnsAreAnotherProgramWhereTheyAreReturned) {
  const auto g = Program(kMatrices, absl::StrCat(kRowsOfTransposed, "  return (%y)\n"));
  const SizeOneCalls calls = FindSizeOneCalls(*g, LayoutInference(*g), {});
  EXPECT_EQ(calls.sets, Sets{{"n"}});
  ASSERT_EQ(calls.programs.size(), 1);
  const Graph& one = *calls.programs[0].graph;
  EXPECT_EQ(one.value(one.outputs()[0]).type.ToString(), "Float(5, 3, strides=[1, 5])");
}

TEST(SizeOneCalls, WhereNobodySeesHowTheyLieNothingIsAsked) {
  const auto g = Program(kMatrices, absl::StrCat(kRowsOfTransposed, R"(  %no : NoneType = prim::Constant()
  %s : Tensor = aten::sum(%y, %no)
  return (%s)
)"));
  EXPECT_TRUE(FindSizeOneCalls(*g, LayoutInference(*g), {}).sets.empty());
}

TEST(SizeOneCalls, TwoSizesThatMakeAViewOfACopyTogetherAreASet) {
  // An image of one pixel has the same layout in both formats.
  const auto g = Program("(2, 3, n, m, strides=[3*m*n, 1, 3*m, 3])", R"(  %y : Tensor = aten::exp(%x)
  %z : Tensor = aten::flatten.using_ints(%y, %1, %3)
  %w : Tensor = aten::add_.Scalar(%z, %1, %1)
  return (%y, %w)
)");
  EXPECT_EQ(FindSizeOneCalls(*g, LayoutInference(*g), {}).sets, (Sets{{"m", "n"}}));
}

TEST(SizeOneCalls, WhatBranchesReturnAndALoopHandsOnLiesAsTheirOperandsDo) {
  for (const char* body : {R"(  %p : Bool() = aten::any(%rows)
  %z : Float(5*n, 3, strides=[3, 1]) = smelt::cond(%p, %rows)
    block0(%a : Float(5*n, 3, strides=[3, 1])):
      %sin : Float(5*n, 3, strides=[3, 1]) = aten::sin(%a)
      -> (%sin)
    block1(%b : Float(5*n, 3, strides=[3, 1])):
      %cos : Float(5*n, 3, strides=[3, 1]) = aten::cos(%b)
      -> (%cos)
  return (%z)
)",
                           R"(  %yes : bool = prim::Constant[value=1]()
  %z : Float(5*n, 3, strides=[3, 1]) = prim::Loop(%3, %yes, %y)
    block0(%i : int, %a : Float(5*n, 3, strides=[3, 1])):
      %sin : Float(5*n, 3, strides=[3, 1]) = aten::sin(%a)
      -> (%yes, %sin)
  return (%z)
)"}) {
    const auto g = Program(kMatrices, absl::StrCat(kRowsOfTransposed, body));
    const SizeOneCalls calls = FindSizeOneCalls(*g, LayoutInference(*g), {});
    EXPECT_EQ(calls.sets, Sets{{"n"}}) << body;
    ASSERT_EQ(calls.programs.size(), 1) << body;
    const Graph& one = *calls.programs[0].graph;
    EXPECT_EQ(one.value(one.outputs()[0]).type.ToString(), "Float(5, 3, strides=[1, 5])") << body;
  }
}

TEST(SizeOneCalls, OfALoopWhoseRoundsLieInOtherWaysNothingIsKnown) {
  const auto g = Program(kMatrices, absl::StrCat(kRowsOfTransposed, R"(  %yes : bool = prim::Constant[value=1]()
  %z : Float(5*n, 3, strides=[3, 1]) = prim::Loop(%3, %yes, %y)
    block0(%i : int, %a : Float(5*n, 3, strides=[3, 1])):
      %format : int = prim::Constant[value=0]()
      %b : Float(5*n, 3, strides=[3, 1]) = aten::clone(%a, %format)
      -> (%yes, %b)
  return (%z)
)"));
  const SizeOneCalls calls = FindSizeOneCalls(*g, LayoutInference(*g), {});
  EXPECT_EQ(calls.sets, Sets{{"n"}});
  EXPECT_TRUE(calls.programs.empty());
}

TEST(SizeOneCalls, SizesThatAnExportDoesNotTakeForTwoAreNone) {
  const auto g = Program(kMatrices, absl::StrCat(kRowsOfTransposed, "  return (%y)\n"));
  SymbolRanges::Range r = g->symbols.Get("n");
  r.accepted_min = -1;
  g->symbols.Set("n", r);
  EXPECT_TRUE(FindSizeOneCalls(*g, LayoutInference(*g), {}).sets.empty());
  EXPECT_TRUE(FindSizeOneCalls(*g, LayoutInference(*g), {"n"}).sets.empty());
}

}  // namespace
}  // namespace smelt
