#include "smelt/frontend/related_sizes.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/symbol/expr.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;

const Expr s0 = Expr::Symbol("s0"), s1 = Expr::Symbol("s1");

std::unique_ptr<Graph> Parse(const std::string& text) {
  auto g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return *std::move(g);
}

// x with s0 rows and s1 columns, and its first row reduced to less than half of them.
std::unique_ptr<Graph> Halves(const std::string& s0, const std::string& s1 = "in [2, 64] hint 6") {
  return Parse("graph(%x : Float(s0, s1, strides=[s1, 1])):\n  symbol s0 " + s0 + "\n  symbol s1 " + s1 + R"(
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %n : int = smelt::size[value=floordiv(s0, 2)]()
  %a : Float(floordiv(s0, 2), s1, strides=[s1, 1]) = aten::slice.Tensor(%x, %0, %0, %n, %1)
  return (%a)
)");
}

const std::vector<Expr>& SizesOf(const Graph& g, const std::string& name) {
  return *g.value(g.FindValue(name)).type.tensor().sizes;
}

TEST(RelatedSizes, WhatIsEqualToItsRoundedMultipleIsAMultiple) {
  for (const Expr& zero : {s0 - FloorDiv(s0, 2) * 2, FloorDiv(s0, 2) * 2 - s0, Mod(s0, 2),
                           s1 * s0 - s1 * FloorDiv(s0, 2) * 2, s0 - FloorDiv(s0 + 1, 2) * 2}) {
    const auto g = Halves("in [4, 63] hint 10");
    RelateSizes(*g, {zero});
    const Expr half = Expr::Symbol("s0.by2");
    EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(half * 2, s1)) << zero.ToString();
    EXPECT_THAT(SizesOf(*g, "a"), ElementsAre(half, s1));
    EXPECT_EQ(g->symbols.Get("s0.by2").min, 2);
    EXPECT_EQ(g->symbols.Get("s0.by2").max, 31);
    EXPECT_EQ(g->symbol_hints.at("s0.by2"), 5);
    EXPECT_FALSE(g->symbol_hints.contains("s0"));
    EXPECT_EQ(g->symbols.entries().size(), 2);
  }
}

TEST(RelatedSizes, ManyAreMultiplesOfTheirDivisorsAtOnce) {
  const auto g = Halves("in [2, 64] hint 8", "in [2, 64] hint 6");
  RelateSizes(*g, {s0 * s1 * 5 - FloorDiv(s0, 4) * FloorDiv(s1, 3) * 60});
  EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(Expr::Symbol("s0.by4") * 4, Expr::Symbol("s1.by3") * 3));
}

TEST(RelatedSizes, WhatHoldsForOtherSizesTooLeavesThem) {
  for (const Expr& zero : {FloorDiv(s0 + 1, 4) - FloorDiv(s0, 4), s0 - s1 * 2, FloorDiv(s0, 2) - s1,
                           FloorDiv(s0, s1) * s1 - s0, s0 + s1, Mod(s0, 2) - 1}) {
    const auto g = Halves("in [2, 64] hint 8");
    RelateSizes(*g, {zero});
    EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(s0, s1)) << zero.ToString();
  }
}

TEST(RelatedSizes, AnExampleThatIsNoMultipleLeavesThem) {
  const auto g = Halves("in [2, 64] hint 7");
  RelateSizes(*g, {Mod(s0, 2)});
  EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(s0, s1));
}

TEST(RelatedSizes, EqualSizesAreOneSymbolOfBothRanges) {
  const auto g = Halves("in [2, 64] hint 6", "in [4, 99] hint 6");
  RelateSizes(*g, {s1 - s0});
  EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(s0, s0));
  EXPECT_EQ(g->symbols.Get("s0").min, 4);
  EXPECT_EQ(g->symbols.Get("s0").max, 64);
  EXPECT_EQ(g->symbols.entries().size(), 1);
}

TEST(RelatedSizes, CallsOfSmallMultiplesAreAcceptedWhereThoseOfSmallSizesWere) {
  const auto g = Halves("in [2, 64] hint 8");
  SymbolRanges::Range r = g->symbols.Get("s0");
  r.accepted_min = 0;
  g->symbols.Set("s0", r);
  RelateSizes(*g, {Mod(s0, 4)});
  EXPECT_EQ(g->symbols.Get("s0.by4").min, 2);
  EXPECT_EQ(g->symbols.Get("s0.by4").accepted_min, 0);
}

TEST(RelatedSizes, AQuotientThatIsOneNumberInEveryCallIsARangeOfSizes) {
  const Expr half = FloorDiv(Expr::Symbol("s0"), 2);
  for (const Expr& zero : {half - 4, Expr(4) - half}) {
    const auto g = Halves("in [2, 64] hint 8");
    RelateSizes(*g, {zero});
    EXPECT_EQ(g->symbols.Get("s0").min, 8);
    EXPECT_EQ(g->symbols.Get("s0").max, 9);
  }
  // One chunk of 16.
  const auto chunk = Halves("in [2, 64] hint 8");
  SymbolRanges::Range r = chunk->symbols.Get("s0");
  r.accepted_min = 0;
  chunk->symbols.Set("s0", r);
  RelateSizes(*chunk, {FloorDiv(Expr::Symbol("s0") + 15, 16) - 1});
  EXPECT_EQ(chunk->symbols.Get("s0").min, 2);
  EXPECT_EQ(chunk->symbols.Get("s0").accepted_min, 1);
  EXPECT_EQ(chunk->symbols.Get("s0").max, 16);
  // This does not hold if the example has another number.
  const auto g = Halves("in [2, 64] hint 8");
  RelateSizes(*g, {half - 5});
  EXPECT_EQ(g->symbols.Get("s0").max, 64);
}

TEST(RelatedSizes, ASizeThatIsAnArgumentAndWhatDataDecideStay) {
  const auto g = Parse(R"(graph(%x : Float(s0, strides=[1]), %n : int, %y : Float(u0, strides=[1])):
  symbol s0 in [2, 64] hint 8
  symbol u0 in [2, 64]
  return (%x)
)");
  g->SetExpr(g->inputs()[1], s0);
  RelateSizes(*g, {Mod(s0, 4), Mod(Expr::Symbol("u0"), 4), Expr::Symbol("u0") - s0});
  EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(s0));
  EXPECT_THAT(SizesOf(*g, "y"), ElementsAre(Expr::Symbol("u0")));
}

TEST(RelatedSizes, AViewHasAsManyElementsAsWhatItViews) {
  const auto g = Parse(R"(graph(%x : Float(s0, 3, strides=[3, 1])):
  symbol s0 in [2, 64] hint 8
  %n : int = smelt::size[value=floordiv(s0, 4)]()
  %3 : int = prim::Constant[value=3]()
  %4 : int = prim::Constant[value=4]()
  %sizes : int[] = prim::ListConstruct(%n, %4, %3)
  %v : Float(floordiv(s0, 4), 4, 3, strides=[12, 3, 1]) = aten::view(%x, %sizes)
  return (%v)
)");
  RelateSizes(*g, {});
  EXPECT_THAT(SizesOf(*g, "x"), ElementsAre(Expr::Symbol("s0.by4") * 4, Expr(3)));
}

TEST(RelatedSizes, RowsThatAreCopiedToIndicesAreAsManyAsThese) {
  const auto g =
      Parse(R"(graph(%x : Float(9, 3, strides=[3, 1]), %i : Long(s0, strides=[1]), %y : Float(s1, 3, strides=[3, 1])):
  symbol s0 in [2, 64] hint 5
  symbol s1 in [2, 64] hint 5
  %0 : int = prim::Constant[value=0]()
  %z : Float(9, 3, strides=[3, 1]) = aten::index_copy(%x, %0, %i, %y)
  return (%z)
)");
  RelateSizes(*g, {});
  EXPECT_EQ(SizesOf(*g, "i")[0], SizesOf(*g, "y")[0]);
}

TEST(RelatedSizes, WhatReplacesAViewHasItsSizes) {
  const auto g = Parse(R"(
graph(%x : Float(s0, 5, strides=[5, 1]), %y : Float(s1, 5, strides=[5, 1]), %z : Float(s2, strides=[1])):
  symbol s0 in [2, 64] hint 8
  symbol s1 in [2, 64] hint 4
  symbol s2 in [2, 64] hint 4
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %5 : int = prim::Constant[value=5]()
  %a : Float(s0, 5, strides=[5, 1]) = aten::slice_scatter(%x, %y, %0, %1, %5, %1)
  %b : Float(s0, 5, strides=[5, 1]) = aten::diagonal_scatter(%a, %z, %1, %0, %1)
  return (%b)
)");
  RelateSizes(*g, {});
  const auto hold = [&](int64_t rows, int64_t replaced, int64_t diagonal) {
    return absl::c_all_of(g->size_guards, [&](const Graph::SizeGuard& guard) {
      return guard.holds.Evaluate({{"s0", rows}, {"s1", replaced}, {"s2", diagonal}}).value() != 0;
    });
  };
  EXPECT_TRUE(hold(8, 4, 4));
  EXPECT_TRUE(hold(4, 3, 4));
  EXPECT_TRUE(hold(3, 2, 3));
  EXPECT_FALSE(hold(8, 1, 4));
  EXPECT_FALSE(hold(4, 4, 4));
  EXPECT_FALSE(hold(8, 4, 3));
}

TEST(RelatedSizes, WhatIsAskedForIsSaidOfTheArguments) {
  const auto g = Parse(R"(
graph(%x : Float(s0, 5, strides=[5, 1]), %y : Float(s1, 5, strides=[5, 1])):
  symbol s0 in [8, 64] hint 8
  symbol s1 in [2, 64] hint 4
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %5 : int = prim::Constant[value=5]()
  %a : Float(s0, 5, strides=[5, 1]) = aten::slice_scatter(%x, %y, %0, %1, %5, %1)
  return (%a)
)");
  g->SetType(g->inputs()[1], Type::Tensor(DType::kFloat32, {s1 * 2, 5}, {5, 1}));
  RelateSizes(*g, {});
  ASSERT_EQ(g->size_guards.size(), 1u);
  EXPECT_EQ(g->size_guards[0].text,
            "the sizes of the operands of aten::slice_scatter fit, 2*floordiv(y.size()[0], 2) - 4 == 0");
}

TEST(RelatedSizes, QueriesAreAsLongAsKeysAndKeysAsManyAsValues) {
  const auto g = Parse(
      R"(graph(%q : Float(4, s0, strides=[s0, 1]), %k : Float(s1, s2, strides=[s2, 1]), %v : Float(s3, 5, strides=[5, 1])):
  symbol s0 in [2, 64] hint 8
  symbol s1 in [2, 64] hint 6
  symbol s2 in [2, 64] hint 8
  symbol s3 in [2, 64] hint 6
  %0 : float = prim::Constant[value=0.]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %z : Float(4, 5, strides=[5, 1]) = aten::scaled_dot_product_attention(%q, %k, %v, %none, %0, %no, %none, %no)
  return (%z)
)");
  RelateSizes(*g, {});
  EXPECT_EQ(SizesOf(*g, "q")[1], SizesOf(*g, "k")[1]);
  EXPECT_EQ(SizesOf(*g, "k")[0], SizesOf(*g, "v")[0]);
}

}  // namespace
}  // namespace smelt
