#include "smelt/frontend/small_sizes.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

// s0 is assumed to be at least 2, and a call may pass `accepted` to 64.
std::unique_ptr<Graph> Parse(const std::string& text, int64_t accepted) {
  auto g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  SymbolRanges::Range r = (*g)->symbols.Get("s0");
  r.accepted_min = accepted;
  (*g)->symbols.Set("s0", r);
  return *std::move(g);
}

const std::vector<Expr>& SizesOfResult(const Graph& g) { return *g.value(g.outputs()[0]).type.tensor().sizes; }

TEST(SmallSizes, TheFirstTwoRowsAreOneWhereThereIsOne) {
  const auto g = Parse(R"(graph(%x : Float(s0, 3, strides=[3, 1])):
  symbol s0 in [2, 64] hint 7
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Float(2, 3, strides=[3, 1]) = aten::slice.Tensor(%x, %0, %0, %2, %1)
  %b : Float(2, 3, strides=[3, 1]) = aten::mul.Scalar(%a, %2)
  return (%b)
)",
                       0);
  ReconcileSmallSizes(*g);
  EXPECT_EQ(SizesOfResult(*g)[0], Min(Expr::Symbol("s0"), 2));
  EXPECT_EQ(g->symbols.Get("s0").accepted_min, 0);
}

TEST(SmallSizes, ACallForWhichAnOperatorMakesOtherSizesIsNotAccepted) {
  // Two rows of x next to two of y: a single row of x would be broadcast.
  const auto g = Parse(R"(graph(%x : Float(s0, 3, strides=[3, 1]), %y : Float(2, 3, strides=[3, 1])):
  symbol s0 in [2, 64] hint 7
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %a : Float(2, 3, strides=[3, 1]) = aten::slice.Tensor(%x, %0, %0, %2, %1)
  %b : Float(2, 3, strides=[3, 1]) = aten::add.Tensor(%a, %y, %1)
  return (%b)
)",
                       0);
  ReconcileSmallSizes(*g);
  EXPECT_EQ(g->symbols.Get("s0").accepted_min, -1);
}

TEST(SmallSizes, AColumnIsBroadcastAndOfNoColumnsNoCallIsAccepted) {
  const auto g = Parse(R"(graph(%x : Float(3, s0, strides=[s0, 1])):
  symbol s0 in [2, 64] hint 7
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Float(3, 1, strides=[s0, 1]) = aten::slice.Tensor(%x, %1, %0, %1, %1)
  %b : Float(3, s0, strides=[s0, 1]) = aten::sub.Tensor(%x, %a, %1)
  return (%b)
)",
                       0);
  ReconcileSmallSizes(*g);
  EXPECT_EQ(CheckBroadcasts(*g), absl::OkStatus());
  EXPECT_EQ(g->symbols.Get("s0").accepted_min, 1);
}

TEST(SmallSizes, ASizeThatIsOneInTheExampleAloneIsRefused) {
  const auto g = Parse(R"(graph(%x : Float(s0, strides=[1]), %y : Float(s0 - 3, strides=[1])):
  symbol s0 in [2, 64] hint 4
  %1 : int = prim::Constant[value=1]()
  %b : Float(s0, strides=[1]) = aten::add.Tensor(%x, %y, %1)
  return (%b)
)",
                       -1);
  const absl::Status s = CheckBroadcasts(*g);
  EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(s.message()), HasSubstr("a size of x.size()[0] - 3, which is 1 in the example alone"));
}

TEST(SmallSizes, ASizeThatIsOneByTheRangesIsBroadcast) {
  const auto g = Parse(R"(graph(%x : Float(s0, strides=[1]), %t : Float(1, strides=[1])):
  symbol s0 in [2, 64] hint 4
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %first : int = smelt::size[value=max(-s0 + 1, 0)]()
  %y : Float(-max(-s0 + 1, 0) + 1, strides=[1]) = aten::slice.Tensor(%t, %0, %first, %1, %1)
  %b : Float(s0, strides=[1]) = aten::add.Tensor(%x, %y, %1)
  return (%b)
)",
                       1);
  ReconcileSmallSizes(*g);
  EXPECT_EQ(CheckBroadcasts(*g), absl::OkStatus());
  EXPECT_EQ(g->symbols.Get("s0").accepted_min, 1);
}

TEST(SmallSizes, ASizeThatIsOneInAllCallsThatOtherNodesAllowIsBroadcast) {
  // A single row of %x would be broadcast to the two of %z, so that no call may have fewer than 2 rows.
  const auto g = Parse(R"(graph(%x : Float(s0, strides=[1]), %t : Float(1, strides=[1]), %z : Float(2, strides=[1])):
  symbol s0 in [2, 64] hint 4
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %first : int = smelt::size[value=max(-s0 + 1, 0)]()
  %y : Float(-max(-s0 + 1, 0) + 1, strides=[1]) = aten::slice.Tensor(%t, %0, %first, %1, %1)
  %b : Float(s0, strides=[1]) = aten::add.Tensor(%x, %y, %1)
  %two : Float(2, strides=[1]) = aten::slice.Tensor(%x, %0, %0, %2, %1)
  %c : Float(2, strides=[1]) = aten::add.Tensor(%two, %z, %1)
  return (%b, %c)
)",
                       0);
  ReconcileSmallSizes(*g);
  EXPECT_EQ(CheckBroadcasts(*g), absl::OkStatus());
  EXPECT_EQ(g->symbols.Get("s0").accepted_min, -1);
}

TEST(SmallSizes, AQuotientThatIsOneButForSmallCallsIsOneAndTheseAreNotAccepted) {
  const auto g = Parse(R"(graph(%x : Float(s0, 3, strides=[3, 1])):
  symbol s0 in [2, 3] hint 2
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %half : int = smelt::size[value=floordiv(s0, 2)]()
  %y : Float(floordiv(s0, 2), 3, strides=[3, 1]) = aten::slice.Tensor(%x, %0, %0, %half, %1)
  return (%y)
)",
                       0);
  ReconcileSmallSizes(*g);
  EXPECT_EQ(SizesOfResult(*g)[0], Expr(1));
  EXPECT_EQ(g->symbols.Get("s0").accepted_min, -1);
}

TEST(SmallSizes, ANumberThatDataDecideIsNotSimplifiedByTheRangeThatAssertionsOnItGive) {
  const auto g = Parse(R"(graph(%x : Float(s0, strides=[1]), %n : Long()):
  symbol s0 in [2, 64] hint 4
  symbol u0 in [0, 3]
  %3 : int = prim::Constant[value=3]()
  %u0 : int = aten::item(%n)
  %more : int = prim::max.int(%u0, %3)
  %ok : bool = aten::eq.int(%more, %3)
   = aten::_assert_scalar(%ok, %3)
  return (%x)
)",
                       1);
  g->SetExpr(g->FindValue("u0"), Expr::Symbol("u0"));
  g->SetExpr(g->FindValue("more"), Max(Expr::Symbol("u0"), 3));
  ReconcileSmallSizes(*g);
  EXPECT_EQ(g->value(g->FindValue("more")).expr, Max(Expr::Symbol("u0"), 3));
}

}  // namespace
}  // namespace smelt
