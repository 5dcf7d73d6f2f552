#include "smelt/core/tensor/layout_rule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/layout_rule_builder.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

// A layout rule as code, over numbers or expressions.
template <typename D>
using Rule = std::function<std::vector<typename D::Index>(D&, const std::vector<typename D::Geometry>&)>;

ExprGeometry Symbols(const std::string& name, int rank) {
  ExprGeometry g;
  for (int d = 0; d < rank; ++d) {
    g.sizes.push_back(Expr::Symbol(name + ".size" + std::to_string(d)));
    g.strides.push_back(Expr::Symbol(name + ".stride" + std::to_string(d)));
  }
  return g;
}

// Returns the written rule for operands of these ranks.
template <typename Code>
std::vector<int64_t> Written(const std::vector<int>& ranks, const Code& code) {
  std::vector<LayoutRuleOperand> operands;
  std::vector<ExprGeometry> geometries;
  for (size_t k = 0; k < ranks.size(); ++k) {
    geometries.push_back(Symbols("a" + std::to_string(k), ranks[k]));
    geometries.back().sizes = geometries[0].sizes;  // operands of one shape
    operands.push_back({geometries.back()});
  }
  const SymbolRanges ranges;
  auto rule = BuildLayoutRule(operands, ranges, {}, [&]() -> absl::StatusOr<std::vector<InferredLayout>> {
    SymbolicDecide decide(&ranges);
    ExprGeometry result{geometries[0].sizes, code(decide, geometries), Expr(0)};
    return std::vector<InferredLayout>{result};
  });
  EXPECT_TRUE(rule.ok()) << rule.status();
  if (!rule.ok()) return {};
  EXPECT_TRUE(VerifyLayoutRule(*rule, ranks.size()).ok()) << VerifyLayoutRule(*rule, ranks.size());
  return *rule;
}

// Returns tensors of these sizes with various layouts: permuted, with gaps, expanded.
std::vector<Geometry> Layouts(std::mt19937& random, const std::vector<int64_t>& sizes, int count) {
  std::vector<Geometry> out;
  for (int k = 0; k < count; ++k) {
    std::vector<int> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (k % 4 != 0) std::shuffle(order.begin(), order.end(), random);
    Geometry g{sizes, std::vector<int64_t>(sizes.size()), 0};
    int64_t stride = 1;
    for (size_t d = order.size(); d-- > 0;) {
      if (random() % 5 == 0) stride *= 2;
      g.strides[order[d]] = random() % 7 == 0 ? 0 : stride;
      stride *= std::max<int64_t>(sizes[order[d]], 1);
    }
    out.push_back(std::move(g));
  }
  return out;
}

// Checks that the written rule gives the same results as the code for many operands.
template <typename Code>
void ExpectSame(int rank, int num_operands, const Code& code) {
  const std::vector<int64_t> rule = Written(std::vector<int>(num_operands, rank), code);
  ASSERT_FALSE(rule.empty());
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> sizes;
    for (int d = 0; d < rank; ++d) sizes.push_back(random() % 9 == 0 ? random() % 2 : 2 + random() % 3);
    std::vector<std::vector<Geometry>> layouts;
    for (int k = 0; k < num_operands; ++k) layouts.push_back(Layouts(random, sizes, 20));
    for (size_t n = 0; n < 20; ++n) {
      std::vector<Geometry> operands;
      std::vector<LayoutInput> inputs;
      for (int k = 0; k < num_operands; ++k) {
        operands.push_back(layouts[k][n]);
        inputs.push_back({layouts[k][n]});
      }
      ConcreteDecide decide;
      const std::vector<int64_t> expected = code(decide, operands);
      const auto got = EvaluateLayoutRule(rule, inputs);
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->size(), 1);
      const std::vector<int64_t> strides =
          (*got)[0].kind == LayoutResult::kContiguous ? Geometry::Contiguous(sizes).strides : (*got)[0].strides;
      EXPECT_EQ(strides, expected) << operands[0].ToString();
    }
  }
}

TEST(LayoutRuleTest, APointwiseResultLiesAsTensorIteratorLaysIt) {
  const auto code = [](auto& decide, const auto& g) {
    using D = std::decay_t<decltype(decide)>;
    return view_rules::PointwiseOutput<D>(decide, absl::MakeConstSpan(g))->strides;
  };
  ExpectSame(3, 2, code);
  ExpectSame(4, 3, code);
  EXPECT_LT(Written({4, 4}, code).size(), 20);  // it names its operands and no dim of theirs
}

TEST(LayoutRuleTest, RulesThatFollowEachOtherAreOne) {
  ExpectSame(3, 2, [](auto& decide, const auto& g) {
    using D = std::decay_t<decltype(decide)>;
    auto first = g[0];
    first.strides = view_rules::PreservedStrides<D>(decide, first);
    const typename D::Geometry both[] = {g[1], first};
    return view_rules::PointwiseOutput<D>(decide, both)->strides;
  });
}

TEST(LayoutRuleTest, AFormatIsFollowedWhereTheOperandsSuggestIt) {
  ExpectSame(4, 2, [](auto& decide, const auto& g) {
    using D = std::decay_t<decltype(decide)>;
    using I = typename D::Index;
    const bool last =
        SuggestsChannelsLast<D>(decide, absl::MakeConstSpan(g[0].sizes), absl::MakeConstSpan(g[0].strides)) ||
        view_rules::IsChannelsLast<D>(decide, g[1]);
    const std::vector<I>& sizes = g[0].sizes;
    return last ? view_rules::ChannelsLastStrides<D>(decide, sizes) : view_rules::ContiguousStrides<D>(decide, sizes);
  });
}

TEST(LayoutRuleTest, ComparisonsOfStridesBecomeSteps) {
  ExpectSame(3, 1, [](auto& decide, const auto& g) {
    auto strides = g[0].strides;
    for (size_t i = 1; i < strides.size(); ++i) {
      for (size_t k = i; k > 0 && decide.Less(strides[k - 1], strides[k]); --k) std::swap(strides[k - 1], strides[k]);
    }
    return strides;
  });
}

TEST(LayoutRuleTest, ARuleThatFailsForSomeOperandsRefusesThem) {
  const SymbolRanges ranges;
  const ExprGeometry x = Symbols("a0", 1);
  auto rule = BuildLayoutRule({{x}}, ranges, {{"a0.stride0", 1}}, [&]() -> absl::StatusOr<std::vector<InferredLayout>> {
    SymbolicDecide decide(&ranges);
    if (!decide.Equal(x.strides[0], 1)) return absl::UnimplementedError("rows");
    return std::vector<InferredLayout>{x};
  });
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_TRUE(EvaluateLayoutRule(*rule, {{Geometry{{4}, {1}, 0}}}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(EvaluateLayoutRule(*rule, {{Geometry{{4}, {2}, 0}}}).status()));
}

// An inference in steps. Each compares a dim of two operands, or none (-1), and counts its runs.
struct CountedSteps {
  std::vector<int> dims;
  ExprGeometry x = Symbols("a0", 3), y = Symbols("a1", 3);
  std::vector<Expr> strides = x.strides;
  std::vector<int> runs = std::vector<int>(dims.size(), 0);

  absl::StatusOr<std::vector<int64_t>> Build(bool reads_the_same) {
    const SymbolRanges ranges;
    const auto run = [&](size_t k) {
      ++runs[k];
      SymbolicDecide decide(&ranges);
      const int d = dims[k];
      if (d >= 0) strides[d] = decide.Less(x.strides[d], y.strides[d]) ? y.strides[d] : x.strides[d];
      return absl::OkStatus();
    };
    const auto same = [&](size_t k) { return reads_the_same && runs[k] > 0; };
    const auto results = [&]() -> absl::StatusOr<std::vector<InferredLayout>> {
      return std::vector<InferredLayout>{ExprGeometry{x.sizes, strides, Expr(0)}};
    };
    return BuildLayoutRule({{x}, {y}}, ranges, {}, LayoutSteps{dims.size(), run, same, results});
  }
};

TEST(LayoutRuleTest, ARunWithAnotherAnswerBeginsAtTheStepThatAskedForIt) {
  CountedSteps steps{{0, 1, 2}};
  ASSERT_TRUE(steps.Build(/*reads_the_same=*/false).ok());
  EXPECT_EQ(steps.runs, (std::vector<int>{2, 4, 8})) << "of 8 runs";
}

TEST(LayoutRuleTest, AStepThatReadsTheSameRunsAgainForAnotherAnswerOnly) {
  CountedSteps steps{{0, -1, 0}};
  ASSERT_TRUE(steps.Build(/*reads_the_same=*/true).ok());
  EXPECT_EQ(steps.runs, (std::vector<int>{2, 1, 2}));
}

TEST(LayoutRuleTest, ARuleInStepsIsTheRuleOfAllStepsAtOnce) {
  CountedSteps steps{{0, 1, -1, 2, 1}};
  const auto in_steps = steps.Build(/*reads_the_same=*/true);
  const SymbolRanges ranges;
  const auto at_once =
      BuildLayoutRule({{steps.x}, {steps.y}}, ranges, {}, [&]() -> absl::StatusOr<std::vector<InferredLayout>> {
        SymbolicDecide decide(&ranges);
        ExprGeometry result{steps.x.sizes, steps.x.strides, Expr(0)};
        for (size_t d = 0; d < 3; ++d) {
          if (decide.Less(steps.x.strides[d], steps.y.strides[d])) result.strides[d] = steps.y.strides[d];
        }
        return std::vector<InferredLayout>{result};
      });
  ASSERT_TRUE(in_steps.ok() && at_once.ok());
  EXPECT_EQ(*in_steps, *at_once);
}

TEST(LayoutRuleTest, TheReachOfALayoutIsBounded) {
  EXPECT_EQ(ReachOfLayout({2, 3}, {3, 1}), 6);
  EXPECT_EQ(ReachOfLayout({2, 3}, {0, 2}), 5);
  EXPECT_EQ(ReachOfLayout({2, 0}, {INT64_MAX, -1}), 0);
  EXPECT_EQ(ReachOfLayout({2, 3}, {-3, 1}), -1);
  EXPECT_EQ(ReachOfLayout({2, 3}, {3}), -1);
  EXPECT_EQ(ReachOfLayout({3, 3}, {INT64_MAX, 1}), -1);
}

TEST(LayoutRuleTest, DamagedRulesAreRefusedOrEvaluateToSomething) {
  const std::vector<int64_t> rule = Written({4, 4}, [](auto& decide, const auto& g) {
    using D = std::decay_t<decltype(decide)>;
    auto strides = view_rules::PointwiseOutput<D>(decide, absl::MakeConstSpan(g))->strides;
    if (decide.Less(g[0].strides[0], g[1].strides[2])) std::swap(strides[0], strides[1]);
    return SuggestsChannelsLast<D>(decide, absl::MakeConstSpan(g[0].sizes), absl::MakeConstSpan(strides))
               ? view_rules::ChannelsLastStrides<D>(decide, g[0].sizes)
               : strides;
  });
  std::mt19937 random(3);
  const std::vector<LayoutInput> inputs = {{Geometry::Contiguous({2, 3, 4, 5})}, {Geometry::Contiguous({2, 3, 4, 5})}};
  const std::vector<LayoutInput> fewer_dims = {{Geometry::Contiguous({2})}, {}};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<int64_t> damaged = rule;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      int64_t& word = damaged[random() % damaged.size()];
      const auto bits = static_cast<uint64_t>(word);  // its neighbours may wrap around
      const int64_t values[] = {
          0,         -1,        static_cast<int64_t>(bits + 1),      static_cast<int64_t>(bits - 1),
          INT64_MAX, INT64_MIN, static_cast<int64_t>(random() % 200)};
      word = values[random() % 7];
    }
    if (random() % 8 == 0) damaged.resize(random() % damaged.size());
    if (!VerifyLayoutRule(damaged, 2).ok()) continue;
    ++accepted;
    EvaluateLayoutRule(damaged, inputs).IgnoreError();
    EvaluateLayoutRule(damaged, fewer_dims).IgnoreError();
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace smelt
