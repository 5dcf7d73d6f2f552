#include "smelt/pipeline/result_layout.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/tensor/layout_rule.h"

namespace smelt {
namespace {

using Strides = std::vector<int64_t>;

std::unique_ptr<Graph> Parse(const std::string& text) {
  auto g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return g.ok() ? *std::move(g) : nullptr;
}

// Returns the strides of the first result of the node that makes %name, for operands with these layouts.
Strides StridesOf(const Graph& g, const char* name, const std::vector<Geometry>& operands) {
  const Node& node = g.node(g.value(g.FindValue(name)).def);
  const std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.end());
  const size_t first[] = {0};
  const ResultLayout layout = DescribeResultLayout(g, node.op, inputs, first);
  if (layout.rule.empty()) return {};
  EXPECT_TRUE(VerifyLayoutRule(layout.rule, layout.operands.size()).ok());
  std::vector<LayoutInput> given;
  for (const Geometry& o : operands) given.push_back({o});
  given.resize(layout.operands.size());
  const auto got = EvaluateLayoutRule(layout.rule, given);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!got.ok()) return {-1};
  return (*got)[0].kind == LayoutResult::kContiguous ? Strides{} : (*got)[0].strides;
}

constexpr char kMatrices[] = R"(graph(%x : Float(s0, 3, strides=[3, 1]), %y : Float(3, 4, strides=[4, 1])):
  symbol s0 in [2, 64] hint 4
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %d : int[] = prim::Constant[value=[0]]()
  %flip : Tensor = aten::flip(%x, %d)
  %sort : Tensor, %i : Tensor = aten::sort(%x, %zero, %no)
  %s : Float(3, strides=[1]) = aten::select.int(%x, %zero, %zero)
  %scatter : Tensor = aten::select_scatter(%x, %s, %zero, %one)
  %diff : Tensor = aten::diff(%x, %one, %one, %n, %n)
  %mm : Tensor = aten::mm(%x, %y)
  %sum : Tensor = aten::cumsum(%x, %zero, %n)
  %ldexp : Tensor = aten::ldexp.Tensor(%x, %x)
  return (%x)
)";

// Expected are the layouts of PyTorch's kernels.
TEST(ResultLayoutTest, FlipAndSortLieAsTheirOperandWithoutItsGaps) {
  const std::unique_ptr<Graph> g = Parse(kMatrices);
  ASSERT_NE(g, nullptr);
  for (const char* name : {"flip", "sort"}) {
    EXPECT_EQ(StridesOf(*g, name, {{{5, 3}, {1, 5}, 0}}), (Strides{1, 5})) << name;
    EXPECT_EQ(StridesOf(*g, name, {{{5, 3}, {6, 2}, 0}}), (Strides{3, 1})) << name;
  }
}

TEST(ResultLayoutTest, AScatteredCopyHasTheVeryStridesOfItsOperand) {
  const std::unique_ptr<Graph> g = Parse(kMatrices);
  ASSERT_NE(g, nullptr);
  EXPECT_EQ(StridesOf(*g, "scatter", {{{5, 3}, {6, 2}, 0}, {{3}, {1}, 0}}), (Strides{6, 2}));
  EXPECT_EQ(StridesOf(*g, "scatter", {{{5, 3}, {0, 1}, 0}, {{3}, {1}, 0}}), (Strides{3, 1}));
}

TEST(ResultLayoutTest, DifferencesAreOrderedAsTheirOperandIsThoughTheyAreFewer) {
  const std::unique_ptr<Graph> g = Parse(kMatrices);
  ASSERT_NE(g, nullptr);
  EXPECT_EQ(StridesOf(*g, "diff", {{{5, 3}, {1, 5}, 0}}), (Strides{1, 5}));
}

TEST(ResultLayoutTest, APowerOfANumberIsContiguousAndItsProductLiesByBoth) {
  const std::unique_ptr<Graph> g = Parse(kMatrices);
  ASSERT_NE(g, nullptr);
  const Geometry columns{{5, 3}, {1, 5}, 0}, rows = Geometry::Contiguous({5, 3});
  EXPECT_EQ(StridesOf(*g, "ldexp", {columns, columns}), (Strides{1, 5}));
  EXPECT_EQ(StridesOf(*g, "ldexp", {rows, columns}), (Strides{3, 1}));
}

TEST(ResultLayoutTest, AProductAndARunningSumAreContiguous) {
  const std::unique_ptr<Graph> g = Parse(kMatrices);
  ASSERT_NE(g, nullptr);
  EXPECT_EQ(StridesOf(*g, "mm", {}), Strides{});
  EXPECT_EQ(StridesOf(*g, "sum", {}), Strides{});
}

TEST(ResultLayoutTest, ImagesAndVolumesKeepTheirFormat) {
  const std::unique_ptr<Graph> g = Parse(R"(graph(%x : Float(2, 3, 4, 4, 4, strides=[192, 64, 16, 4, 1])):
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
  ASSERT_NE(g, nullptr);
  const Geometry plain = Geometry::Contiguous({2, 3, 4, 4, 4}), last{{2, 3, 4, 4, 4}, {192, 1, 48, 12, 3}, 0};
  EXPECT_EQ(StridesOf(*g, "c", {last, last}), (Strides{384, 1, 96, 24, 6}));
  EXPECT_EQ(StridesOf(*g, "c", {last, plain}), Strides{});
  EXPECT_EQ(StridesOf(*g, "p", {last}), (Strides{24, 1, 12, 6, 3}));
  EXPECT_EQ(StridesOf(*g, "p", {plain}), Strides{});
}

TEST(ResultLayoutTest, AttentionLiesAsItsQueriesWhereAllHaveRows) {
  const std::unique_ptr<Graph> g = Parse(
      R"(graph(%q : Float(2, 3, 5, 4, strides=[60, 20, 4, 1]), %k : Float(2, 3, 7, 4, strides=[84, 28, 4, 1])):
  %n : NoneType = prim::Constant()
  %z : float = prim::Constant[value=0.]()
  %no : bool = prim::Constant[value=0]()
  %r : Tensor = aten::scaled_dot_product_attention(%q, %k, %k, %n, %z, %no, %n, %no)
  return (%r)
)");
  ASSERT_NE(g, nullptr);
  const Geometry heads_inside{{2, 3, 5, 4}, {60, 4, 12, 1}, 0}, keys = Geometry::Contiguous({2, 3, 7, 4});
  EXPECT_EQ(StridesOf(*g, "r", {heads_inside, keys, keys}), (Strides{60, 4, 12, 1}));
}

TEST(ResultLayoutTest, OperandsOfUnknownRankHaveTheRuleOfAnyRank) {
  const std::unique_ptr<Graph> g = Parse(R"(graph(%x : Tensor, %y : Tensor):
  %r : Tensor = aten::mul.Tensor(%x, %y)
  return (%r)
)");
  ASSERT_NE(g, nullptr);
  for (ValueId v : g->inputs()) {
    TensorType unknown;
    unknown.dtype = DType::kFloat32;
    g->SetType(v, Type::Tensor(unknown));
  }
  EXPECT_EQ(StridesOf(*g, "r", {{{5, 3}, {1, 5}, 0}, {{5, 3}, {1, 5}, 0}}), (Strides{1, 5}));
  EXPECT_EQ(StridesOf(*g, "r", {{{2, 5, 3}, {1, 6, 2}, 0}, {{3}, {1}, 0}}), (Strides{1, 6, 2}));
}

}  // namespace
}  // namespace smelt
