// Checks view_rules against testdata/view_rules.txt, which PyTorch wrote: with numbers line by line, and with
// expressions in which every size, stride and offset is a symbol.
#include "smelt/core/tensor/view_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace smelt {
namespace {

using view_rules::Sizes;

struct Line {
  std::string text, rule;
  std::vector<Geometry> operands;
  std::vector<std::string> args;
  std::string result;
};

std::vector<int64_t> Ints(absl::string_view text) {
  std::vector<int64_t> out;
  if (text == "-") return out;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    out.emplace_back();
    EXPECT_TRUE(absl::SimpleAtoi(part, &out.back())) << text;
  }
  return out;
}

std::vector<Line> ReadTable() {
  std::ifstream in("testdata/view_rules.txt");
  EXPECT_TRUE(in.good());
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) {
    if (absl::StartsWith(text, "#")) continue;
    std::vector<std::string> fields = absl::StrSplit(text, '\t');
    EXPECT_EQ(fields.size(), 4) << text;
    Line line;
    line.text = text;
    line.rule = fields[0];
    for (absl::string_view g : absl::StrSplit(fields[1], " ; ")) {
      std::vector<absl::string_view> parts = absl::StrSplit(g, ' ');
      line.operands.push_back({Ints(parts[0]), Ints(parts[1]), Ints(parts[2])[0]});
    }
    if (!fields[2].empty()) line.args = absl::StrSplit(fields[2], " ; ");
    line.result = fields[3];
    lines.push_back(std::move(line));
  }
  return lines;
}

// Converts the table's numbers for a policy.
struct Concretely {
  ConcreteDecide decide;
  int64_t operator()(int64_t v) { return v; }
  int64_t Value(int64_t v) { return v; }
};

// Makes symbols of numbers that may have any value, one for each value and position.
struct Symbolically {
  SymbolRanges ranges;
  absl::flat_hash_map<std::string, int64_t> hints;
  std::optional<SymbolicDecide> made;
  bool all = false;  // also 0 and 1

  Expr operator()(int64_t v) {
    if (v < 0 || (v < 2 && !all) || v > 1000) return v;
    const std::string name = absl::StrCat("v", v, "_", hints.size());
    hints[name] = v;
    ranges.Set(name, {all ? 0 : 2, SymbolRanges::kInfinity});
    return Expr::Symbol(name);
  }
};

std::string Show(const std::vector<int64_t>& v) { return v.empty() ? "-" : absl::StrJoin(v, ","); }
std::string Show(const Geometry& g) { return absl::StrCat(Show(g.sizes), " ", Show(g.strides), " ", g.offset); }

struct Evaluator {
  absl::flat_hash_map<std::string, int64_t> symbols;
  int64_t operator()(int64_t v) const { return v; }
  int64_t operator()(const Expr& e) const {
    absl::StatusOr<int64_t> v = e.Evaluate(symbols);
    EXPECT_TRUE(v.ok()) << v.status();
    return v.ok() ? *v : -77;
  }
  template <typename I>
  std::vector<int64_t> operator()(const std::vector<I>& list) const {
    std::vector<int64_t> out;
    for (const I& v : list) out.push_back((*this)(v));
    return out;
  }
  Geometry operator()(const Geometry& g) const { return g; }
  Geometry operator()(const ExprGeometry& g) const { return {(*this)(g.sizes), (*this)(g.strides), (*this)(g.offset)}; }
};

// Returns the result of a rule on converted operands in the table's form.
template <typename D, typename Convert>
struct Runner {
  using I = typename D::Index;
  using G = typename D::Geometry;
  const Line& line;
  Convert& convert;

  G ToGeometry(const Geometry& g) { return {List(g.sizes), List(g.strides), convert(g.offset)}; }
  std::vector<I> List(const std::vector<int64_t>& v) {
    std::vector<I> out;
    for (int64_t x : v) out.push_back(convert(x));
    return out;
  }
  std::vector<I> ListArg(int i) { return List(Ints(line.args[i])); }
  std::vector<int64_t> DimsArg(int i) { return Ints(line.args[i]); }
  int64_t Int(int i) { return Ints(line.args[i])[0]; }
  I IndexArg(int i) { return convert(Int(i)); }
  std::optional<I> OptionalArg(int i) {
    if (line.args[i] == "None") return std::nullopt;
    return IndexArg(i);
  }
  DType DTypeArg(int i) { return *ParseDType(line.args[i]); }

  // Two steps, so that all symbols exist (with hints) before the policy is made.
  std::vector<G> operands;
  std::function<std::string(D&, const Evaluator&)> Prepare() {
    for (const Geometry& g : line.operands) operands.push_back(ToGeometry(g));
    const std::string& r = line.rule;
    auto geometry = [](absl::StatusOr<G> g, const Evaluator& e) -> std::string {
      if (!g.ok()) return absl::StrCat("! ", g.status().message());
      return absl::StrCat("= ", Show(e(*g)));
    };
#define RULE(name, args, call)                                               \
  if (r == name) {                                                           \
    return [this, geometry, args](D& d, const Evaluator& e) -> std::string { \
      [[maybe_unused]] const G& g = operands[0];                             \
      return geometry(call, e);                                              \
    };                                                                       \
  }
    using namespace view_rules;  // NOLINT: for the table below
    RULE("view", s = ListArg(0), View(d, g, s));
    RULE("permute", s = DimsArg(0), Permute(d, g, s));
    RULE("transpose", s = (std::pair{Int(0), Int(1)}), Transpose(d, g, s.first, s.second));
    RULE("squeeze", s = 0, Squeeze(d, g));
    RULE("squeeze.dim", s = Int(0), Squeeze(d, g, s));
    RULE("squeeze.dims", s = DimsArg(0), SqueezeDims(d, g, s));
    RULE("unsqueeze", s = Int(0), Unsqueeze(d, g, s));
    RULE("expand", s = ListArg(0), Expand(d, g, s));
    RULE("slice", s = (std::tuple{Int(0), OptionalArg(1), OptionalArg(2), IndexArg(3)}),
         Slice(d, g, std::get<0>(s), std::get<1>(s), std::get<2>(s), std::get<3>(s)));
    RULE("select", s = (std::pair{Int(0), IndexArg(1)}), Select(d, g, s.first, s.second));
    RULE("narrow", s = (std::tuple{Int(0), IndexArg(1), IndexArg(2)}),
         Narrow(d, g, std::get<0>(s), std::get<1>(s), std::get<2>(s)));
    RULE("diagonal", s = (std::tuple{Int(0), Int(1), Int(2)}),
         Diagonal(d, g, std::get<0>(s), std::get<1>(s), std::get<2>(s)));
    RULE("as_strided", s = (std::tuple{ListArg(0), ListArg(1), OptionalArg(2)}),
         AsStrided(d, g, std::get<0>(s), std::get<1>(s), std::get<2>(s)));
    RULE("unfold", s = (std::tuple{Int(0), IndexArg(1), IndexArg(2)}),
         Unfold(d, g, std::get<0>(s), std::get<1>(s), std::get<2>(s)));
    RULE("view_dtype", s = (std::pair{DTypeArg(0), DTypeArg(1)}), ViewDType(d, g, s.first, s.second));
    RULE("view_as_real", s = DTypeArg(0), ViewAsReal(d, g, s));
    RULE("view_as_complex", s = DTypeArg(0), ViewAsComplex(d, g, s));
    auto dense = [](D& d, const G& g, std::vector<I> strides) -> absl::StatusOr<G> {
      if (!d.status().ok()) return d.status();
      return G{g.sizes, std::move(strides), 0};
    };
    RULE("clone", dense, dense(d, g, PreservedStrides(d, g)));
    RULE("empty_like", dense, dense(d, g, PreservedStrides(d, g)));
    RULE("contiguous", dense, dense(d, g, ContiguousStrides(d, g.sizes)));
    RULE("channels_last", dense, dense(d, g, ChannelsLastStrides(d, g.sizes)));
    RULE("pointwise", s = 0, PointwiseOutput(d, absl::MakeConstSpan(operands)));
#undef RULE
    if (r == "reshape") {
      return [this, s = ListArg(0)](D& d, const Evaluator& e) -> std::string {
        absl::StatusOr<ReshapeResult<D>> out = Reshape(d, operands[0], s);
        if (!out.ok()) return absl::StrCat("! ", out.status().message());
        return absl::StrCat(out->aliases ? "= " : "= copy ", Show(e(out->geometry)));
      };
    }
    if (r == "flatten_sizes") {
      return [this](D& d, const Evaluator& e) -> std::string {
        absl::StatusOr<std::vector<I>> out = FlattenedSizes(d, operands[0].sizes, Int(0), Int(1));
        if (!out.ok()) return absl::StrCat("! ", out.status().message());
        return absl::StrCat("= ", Show(e(*out)));
      };
    }
    if (r == "is_contiguous" || r == "is_channels_last") {
      return [this](D& d, const Evaluator&) -> std::string {
        const bool yes = line.rule == "is_contiguous" ? IsContiguous(d, operands[0]) : IsChannelsLast(d, operands[0]);
        if (!d.status().ok()) return absl::StrCat("! ", d.status().message());
        return absl::StrCat("= ", yes ? 1 : 0);
      };
    }
    ADD_FAILURE() << "unknown rule: " << line.text;
    return nullptr;
  }
};

std::string Concrete(const Line& line) {
  Concretely convert;
  Runner<ConcreteDecide, Concretely> runner{line, convert, {}};
  return runner.Prepare()(convert.decide, Evaluator());
}

// The tensor's type is not known here: "expand(torch.FloatTensor{[2, 3]}, size=[3])" lacks it.
std::string WithoutType(std::string expected) {
  const size_t at = expected.find("torch.FloatTensor{");
  if (at == std::string::npos) return expected;
  expected.erase(expected.find('}', at), 1);
  expected.erase(at, sizeof("torch.FloatTensor{") - 1);
  return expected;
}

TEST(ViewRulesTest, NumbersAreTreatedAsPyTorchDoes) {
  const std::vector<Line> lines = ReadTable();
  EXPECT_GT(lines.size(), 5000);
  int wrong = 0;
  for (const Line& line : lines) {
    const std::string got = Concrete(line);
    if (got != WithoutType(line.result)) {
      ADD_FAILURE() << line.text << "\n  got " << got;
      if (++wrong == 20) FAIL() << "and so on";
    }
  }
}

void CheckSymbolic(bool all) {
  std::mt19937 rng(5);
  int64_t assumptions = 0, transferred = 0;
  int wrong = 0;
  for (const Line& line : ReadTable()) {
    if (wrong == 10) FAIL() << "and so on";
    Symbolically convert;
    convert.all = all;
    Runner<SymbolicDecide, Symbolically> runner{line, convert, {}};
    auto run = runner.Prepare();
    SymbolicDecide decide(&convert.ranges, convert.hints);
    const Evaluator hints{convert.hints};
    const std::string got = run(decide, hints);
    const bool is_error = absl::StartsWith(line.result, "!");
    // The messages of errors contain expressions here.
    if (is_error ? !absl::StartsWith(got, "!") : got != line.result) {
      ADD_FAILURE() << line.text << "\n  got " << got;
      ++wrong;
    }
    assumptions += decide.assumptions().size();
    for (const Assumption& a : decide.assumptions()) {
      absl::StatusOr<bool> holds = a.Holds(convert.hints);
      ASSERT_TRUE(holds.ok() && *holds) << line.text << ": " << a.ToString();
    }
    if (is_error || line.rule == "as_strided") continue;
    // For other values that satisfy the assumptions, the same expressions are the result of the rule with those
    // numbers.
    for (int attempt = 0; attempt < 4; ++attempt) {
      absl::flat_hash_map<std::string, int64_t> other = convert.hints;
      std::vector<std::string> names;
      for (const auto& [name, value] : other) names.push_back(name);
      std::sort(names.begin(), names.end());
      // A common scale keeps many relations; then one symbol is increased or decreased.
      const int64_t scale = 1 + static_cast<int64_t>(rng() % 3);
      for (const std::string& name : names) {
        other[name] *= scale;
        if (rng() % 4 == 0) other[name] = (all ? 0 : 2) + static_cast<int64_t>(rng() % 5);
      }
      bool holds = true;
      for (const Assumption& a : decide.assumptions()) {
        absl::StatusOr<bool> h = a.Holds(other);
        holds = holds && h.ok() && *h;
      }
      if (!holds) continue;
      ++transferred;
      const Evaluator at{other};
      Line changed = line;
      for (size_t i = 0; i < changed.operands.size(); ++i) changed.operands[i] = at(runner.operands[i]);
      // The arguments' symbols come after the operands': convert again in the same order.
      Symbolically again;
      again.all = all;
      for (const Geometry& g : line.operands) {
        for (int64_t v : g.sizes) again(v);
        for (int64_t v : g.strides) again(v);
        again(g.offset);
      }
      const bool symbolic_args = line.rule == "view" || line.rule == "reshape" || line.rule == "expand" ||
                                 line.rule == "slice" || line.rule == "select" || line.rule == "narrow" ||
                                 line.rule == "unfold";
      const size_t first_index =
          symbolic_args && line.rule != "view" && line.rule != "reshape" && line.rule != "expand";
      for (size_t i = first_index; symbolic_args && i < changed.args.size(); ++i) {
        if (changed.args[i] == "None") continue;
        std::vector<int64_t> values = Ints(changed.args[i]);
        for (int64_t& v : values) v = at(again(v));
        changed.args[i] = Show(values);
      }
      SymbolicDecide fresh(&convert.ranges, convert.hints);
      const std::string symbolic = run(fresh, at);
      const std::string concrete = Concrete(changed);
      if (symbolic != concrete) {
        ++wrong;
        std::string text;
        for (const Assumption& a : decide.assumptions()) absl::StrAppend(&text, "  ", a.ToString());
        ADD_FAILURE() << line.text << "\n  at " << Show(changed.operands[0]) << " args "
                      << absl::StrJoin(changed.args, " ; ") << "\n  numbers " << concrete << "\n  symbols " << symbolic
                      << "\n  assuming" << text;
        break;
      }
    }
  }
  testing::Test::RecordProperty("assumptions", static_cast<int>(assumptions));
  testing::Test::RecordProperty("transferred", static_cast<int>(transferred));
  printf("%d assumptions, %d transferred\n", static_cast<int>(assumptions), static_cast<int>(transferred));
  EXPECT_GT(transferred, 2000);
}

TEST(ViewRulesTest, SymbolsOfAtLeastTwoGiveTheSameAndHoldWhereTheAssumptionsDo) { CheckSymbolic(/*all=*/false); }

TEST(ViewRulesTest, SymbolsThatMayBeZeroOrOneDoToo) { CheckSymbolic(/*all=*/true); }

TEST(ViewRulesTest, WhatTheRangesDecideNeedsNoAssumption) {
  SymbolRanges ranges;
  ranges.Set("s0", {2, SymbolRanges::kInfinity});
  const Expr s0 = Expr::Symbol("s0");
  const ExprGeometry g{{s0, 4, 8}, {32, 8, 1}, 0};
  SymbolicDecide decide(&ranges);
  absl::StatusOr<ExprGeometry> flat = view_rules::View(decide, g, {s0, Expr(-1)});
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_EQ(flat->ToString(), "[s0, 32] strides [32, 1] offset 0");
  absl::StatusOr<ExprGeometry> all = view_rules::View(decide, g, {Expr(-1)});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->ToString(), "[32*s0] strides [1] offset 0");
  absl::StatusOr<ExprGeometry> head =
      view_rules::Slice(decide, g, 0, std::optional<Expr>(0), std::optional<Expr>(10), Expr(1));
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->ToString(), "[min(s0, 10), 4, 8] strides [32, 8, 1] offset 0");
  absl::StatusOr<ExprGeometry> last = view_rules::Select(decide, g, 0, Expr(-1));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->ToString(), "[4, 8] strides [8, 1] offset 32*s0 - 32");
  EXPECT_THAT(decide.assumptions(), testing::IsEmpty());
}

TEST(ViewRulesTest, WhatNothingDecidesIsAnErrorThatSaysWhat) {
  SymbolRanges ranges;
  SymbolicDecide decide(&ranges);
  const ExprGeometry g{{Expr::Symbol("s0"), 4}, {4, 1}, 0};
  absl::StatusOr<ExprGeometry> out = view_rules::View(decide, g, {Expr(8), Expr(-1)});
  ASSERT_FALSE(out.ok());
  EXPECT_THAT(std::string(out.status().message()), testing::HasSubstr("whether mod(s0, 2) == 0 is not known"));
  SymbolicDecide with_hint(&ranges, {{"s0", 6}});
  ASSERT_TRUE(view_rules::View(with_hint, g, {Expr(8), Expr(-1)}).ok());
  std::vector<std::string> made;
  for (const Assumption& a : with_hint.assumptions()) made.push_back(a.ToString());
  EXPECT_THAT(made, testing::Contains("mod(s0, 2) == 0")) << absl::StrJoin(made, "; ");
}

TEST(ViewRulesTest, HugeSizesAreAnErrorNotAnOverflow) {
  const int64_t big = int64_t{1} << 40;
  const Geometry g{{big, big}, {1, 1}, 0};
  ConcreteDecide a, b, c;
  EXPECT_FALSE(view_rules::View(a, g, {-1}).ok());
  EXPECT_FALSE(view_rules::PointwiseOutput(b, {g}).ok() && view_rules::Unsqueeze(b, {{big}, {big}, 0}, 0).ok());
  EXPECT_FALSE(view_rules::Slice(c, g, 0, {5}, std::nullopt, INT64_MAX).ok());
  ConcreteDecide d;
  EXPECT_FALSE(view_rules::Select(d, g, 0, INT64_MIN).ok());
}

TEST(ViewRulesTest, AsStridedStaysInsideTheStorage) {
  ConcreteDecide d;
  const Geometry g = Geometry::Contiguous({24});
  EXPECT_TRUE(view_rules::AsStrided(d, g, {4, 4}, {5, 1}, {5}, {24}).ok());
  EXPECT_FALSE(view_rules::AsStrided(d, g, {4, 4}, {5, 1}, {6}, {24}).ok());
  EXPECT_TRUE(view_rules::AsStrided(d, g, {0, 4}, {5, 1}, {600}, {24}).ok());
}

TEST(ViewRulesTest, ASizeThatIsOneInTheExampleAloneIsNotBroadcast) {
  SymbolRanges ranges;
  ranges.Set("n", {.min = 2, .max = 64});
  SymbolicDecide decide(&ranges, {{"n", 4}});
  const Expr size = Expr::Symbol("n") - 3;
  for (const auto& shapes : {std::vector<std::vector<Expr>>{{2, size}, {1, 1}}, {{1, 1}, {2, size}}}) {
    auto sizes = view_rules::BroadcastSizes<SymbolicDecide>(decide, shapes);
    ASSERT_TRUE(sizes.ok()) << sizes.status();
    EXPECT_EQ(*sizes, (std::vector<Expr>{2, size}));
  }
  EXPECT_TRUE(decide.assumptions().empty());
}

}  // namespace
}  // namespace smelt
