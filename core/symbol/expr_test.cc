#include "smelt/core/symbol/expr.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/hash/hash_testing.h"

namespace smelt {
namespace {

Expr E(absl::string_view text) {
  absl::StatusOr<Expr> e = Expr::Parse(text);
  EXPECT_TRUE(e.ok()) << e.status();
  return e.ok() ? *e : Expr::Poison();
}

TEST(ExprTest, ConstantsFold) {
  EXPECT_EQ(Expr(3) * 4 + 5 - 2, Expr(15));
  EXPECT_EQ(FloorDiv(-7, 2), Expr(-4));
  EXPECT_EQ(Mod(-7, 2), Expr(1));
  EXPECT_EQ(Mod(7, -2), Expr(-1));
  EXPECT_EQ(Min(3, -4), Expr(-4));
  EXPECT_EQ(Max(3, -4), Expr(3));
}

TEST(ExprTest, EqualPolynomialsAreEqual) {
  const Expr a = Expr::Symbol("a"), b = Expr::Symbol("b");
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(a * 4 * 8, Expr(4) * a * 8);
  EXPECT_EQ((a + 1) * (b + 1) - a * b - 1, b + a);
  EXPECT_EQ(a - a, Expr(0));
  EXPECT_TRUE((a - a).IsConstant());
  EXPECT_NE(a * b, a + b);
}

TEST(ExprTest, DivisionsThatComeOutAreGone) {
  EXPECT_EQ(E("floordiv(32*s0, 32)"), E("s0"));
  EXPECT_EQ(E("floordiv(6*s0*s1, 2*s0)"), E("3*s1"));
  EXPECT_EQ(E("floordiv(s0*s1 + s1, s0 + 1)"), E("s1"));
  EXPECT_EQ(E("floordiv(s0*s1 + s0, s0)"), E("s1 + 1"));
  EXPECT_EQ(E("mod(8*s0, 4)"), E("0"));
  EXPECT_EQ(E("mod(s0*s1, s1)"), E("0"));
  EXPECT_EQ(E("mod(8*s0 + 3, 4)"), E("3"));
  EXPECT_EQ(E("floordiv(floordiv(s0, 2), 3)"), E("floordiv(s0, 6)"));
  EXPECT_EQ(E("floordiv(4*s1 + mod(s0, 4), 4)"), E("s1"));
}

TEST(ExprTest, ModPlusFloorDivIsTheDividend) {
  EXPECT_EQ(E("mod(s0, 4) + 4*floordiv(s0, 4)"), E("s0"));
  EXPECT_EQ(E("mod(2*s0 + 1, 4) + 4*floordiv(2*s0 + 1, 4)"), E("2*s0 + 1"));
  EXPECT_EQ(E("s2*mod(s0, s1) + s1*s2*floordiv(s0, s1)"), E("s0*s2"));
}

TEST(ExprTest, WhatIsCutOrFilledUpToAMultipleIsOne) {
  const Expr n = Expr::Symbol("n"), b = Expr::Symbol("b");
  EXPECT_EQ(n - Mod(n, 4), FloorDiv(n, 4) * 4);
  EXPECT_EQ(n + 5 - Mod(n + 2, 4), FloorDiv(n + 2, 4) * 4 + 3);
  const Expr up = FloorDiv(n + 3, 4) * 4;
  EXPECT_EQ(n + Mod(Expr(4) - Mod(n, 4), 4), up);
  EXPECT_EQ(n + Mod(-n, 4), up);
  EXPECT_EQ((n * 6 + Mod(-n, 4) * 6) * b, up * b * 6);
  EXPECT_EQ(n + Mod(n, 2), FloorDiv(n + 1, 2) * 2);
  EXPECT_EQ(FloorDiv(n + Mod(-n, 4), 4), FloorDiv(n + 3, 4));
  EXPECT_EQ(Mod(n + Mod(-n, 4), 4), Expr(0));
}

TEST(ExprTest, MinAndMaxDropWhatNeverWins) {
  EXPECT_EQ(E("min(s0, s0 + 1)"), E("s0"));
  EXPECT_EQ(E("max(s0, s0 + 1)"), E("s0 + 1"));
  EXPECT_EQ(E("min(s0, min(s1, s0))"), E("min(s1, s0)"));
  EXPECT_EQ(E("max(mod(s0, 4), 3)"), E("3"));
  EXPECT_EQ(E("min(5, s0, 7)"), E("min(s0, 5)"));
}

TEST(ExprTest, PrintsHighDegreeFirst) {
  EXPECT_EQ(E("3 + s0 + 4*s0*s1").ToString(), "4*s0*s1 + s0 + 3");
  EXPECT_EQ(E("-s0 - 1").ToString(), "-s0 - 1");
  EXPECT_EQ(E("2*floordiv(s0, 2)").ToString(), "2*floordiv(s0, 2)");
  EXPECT_EQ(E("(x.stride0 + 1)*2").ToString(), "2*x.stride0 + 2");
  EXPECT_EQ(E("-9223372036854775808").ToString(), "-9223372036854775808");
}

TEST(ExprTest, OverflowIsPoisonAndPoisonEvaluatesToAnError) {
  EXPECT_TRUE((Expr(INT64_MAX) + 1).IsPoison());
  EXPECT_TRUE((Expr::Symbol("a") * INT64_MAX * 2).IsPoison());
  EXPECT_TRUE(FloorDiv(Expr::Symbol("a"), 0).IsPoison());
  EXPECT_TRUE(FloorDiv(INT64_MIN, -1).IsPoison());
  EXPECT_TRUE((-Expr(INT64_MIN)).IsPoison());
  EXPECT_FALSE(Expr::Poison().Evaluate({}).ok());
  EXPECT_TRUE((Expr::Poison() + 1).IsPoison());
  EXPECT_EQ(Expr::Poison().ToString(), "poison");
  EXPECT_TRUE(E("poison").IsPoison());
}

TEST(ExprTest, EvaluationNamesWhatIsMissingOrWrong) {
  EXPECT_EQ(E("s0 + 1").Evaluate({}).status().message(), "evaluating \"s0 + 1\": symbol \"s0\" has no value");
  EXPECT_EQ(E("floordiv(s0, s1)").Evaluate({{"s0", 1}, {"s1", 0}}).status().message(),
            "evaluating \"floordiv(s0, s1)\": division by zero: s1");
  EXPECT_FALSE(E("s0*s0").Evaluate({{"s0", INT64_MAX}}).ok());
}

TEST(ExprTest, BadTextIsAnError) {
  for (const char* text : {"", "s0 +", "(s0", "s0)", "floordiv(s0)", "sqrt(s0)", "1 2", "9223372036854775808",
                           "s0 // 2", "mod(1, 2, 3)", "*", "\xff"}) {
    EXPECT_FALSE(Expr::Parse(text).ok()) << text;
  }
  EXPECT_FALSE(Expr::Parse(std::string(100000, '(')).ok());
  EXPECT_FALSE(Expr::Parse(std::string(100000, '-')).ok());
  EXPECT_EQ(Expr::Parse("s0 + sqrt(2)").status().message(),
            "expression \"s0 + sqrt(2)\", column 6: unknown function \"sqrt\"; "
            "there are floordiv, mod, min, max");
}

TEST(ExprTest, AHostileExpressionIsRefusedQuickly) {
  std::string sum = "(a";
  for (int i = 0; i < 60; ++i) sum += "+b" + std::to_string(i);
  sum += ")";
  EXPECT_TRUE(E(sum + "*" + sum + "*" + sum + "*" + sum).IsPoison());
  Expr e = Expr::Symbol("a");
  for (int i = 0; i < 64; ++i) e = FloorDiv(e, e + 1);  // as a tree it doubles each time
  EXPECT_TRUE(e.IsPoison());
}

TEST(ExprTest, AProductOfMoreFactorsThanAnyTensorHasDimsIsPoison) {
  std::string product = "s0";
  for (int i = 0; i < 127; ++i) product += "*s" + std::to_string(i % 5);
  EXPECT_FALSE(E(product).IsPoison());
  EXPECT_TRUE(E(product + "*s0").IsPoison());
  std::string long_one = "s0";  // read in time that grows as its length does
  for (int i = 0; i < 100000; ++i) long_one += "*s0";
  EXPECT_TRUE(E(long_one).IsPoison());
}

TEST(ExprTest, ASumOfManyTermsIsThatOfFewAtATime) {
  std::string sum = "5";
  Expr expected = 5;
  for (int i = 0; i < 200; ++i) {
    sum += " + " + std::to_string(i + 1) + "*s" + std::to_string(i % 70) + " - s1";
    expected = expected + Expr(i + 1) * Expr::Symbol("s" + std::to_string(i % 70)) - Expr::Symbol("s1");
  }
  EXPECT_EQ(E(sum), expected);
}

TEST(ExprTest, AMinimumOfMoreThan32IsPoison) {
  std::string min = "min(s0";
  for (int i = 1; i < 32; ++i) min += ", s" + std::to_string(i);
  EXPECT_FALSE(E(min + ")").IsPoison());
  EXPECT_TRUE(E(min + ", s32)").IsPoison());
}

TEST(ExprTest, SubstituteReplacesAndSimplifies) {
  EXPECT_EQ(E("floordiv(s0*s1, 4) + s2").Substitute({{"s0", E("8*s3")}, {"s2", Expr(1)}}), E("2*s1*s3 + 1"));
  EXPECT_EQ(E("min(s0, 3)").Substitute({{"s0", Expr(2)}}), Expr(2));
  EXPECT_EQ(E("s0 + s1").Substitute({{"s0", E("s1")}, {"s1", E("s0")}}), E("s0 + s1"));
}

TEST(ExprTest, SymbolsAreSortedAndOnce) {
  EXPECT_EQ(E("b*a + floordiv(c, a)").Symbols(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(E("s0").IsSymbol());
  EXPECT_EQ(E("s0").SymbolName(), "s0");
  EXPECT_FALSE(E("2*s0").IsSymbol());
}

TEST(ExprTest, HashAgreesWithEquality) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({Expr(0), Expr(1), E("s0"), E("s1"), E("s0*s1"), E("s0 + s1"),
                                                           E("floordiv(s0, 2)"), E("mod(s0, 2)"), E("min(s0, s1)"),
                                                           Expr::Poison()}));
}

// Evaluates random expressions as trees, without simplification, and compares with the simplified ones.
struct Random {
  std::mt19937_64 rng{20};
  int64_t Int(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(rng); }
};
struct Values {
  absl::flat_hash_map<std::string, int64_t> symbols;
};

// An expression, and its value by plain arithmetic for each assignment (nullopt: a division by zero).
struct Checked {
  Expr e;
  std::vector<std::optional<int64_t>> values;
};

int64_t PythonFloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Checked RandomExpr(Random& r, const std::vector<Values>& at, int depth) {
  Checked out;
  const int64_t kind = depth == 0 ? r.Int(0, 1) : r.Int(0, 8);
  if (kind == 0) {
    const int64_t c = r.Int(-6, 6);
    out.e = c;
    out.values.assign(at.size(), c);
    return out;
  }
  if (kind == 1) {
    const std::string name = std::string("s") + static_cast<char>('0' + r.Int(0, 2));
    out.e = Expr::Symbol(name);
    for (const Values& v : at) out.values.push_back(v.symbols.at(name));
    return out;
  }
  Checked a = RandomExpr(r, at, depth - 1), b = RandomExpr(r, at, depth - 1);
  if (kind >= 5 && kind <= 6 && r.Int(0, 1)) {
    b.e = r.Int(0, 1) ? r.Int(1, 6) : r.Int(-6, -1);
    b.values.assign(at.size(), *b.e.Constant());
  }
  switch (kind) {
    case 2:
      out.e = a.e + b.e;
      break;
    case 3:
      out.e = a.e - b.e;
      break;
    case 4:
      out.e = a.e * b.e;
      break;
    case 5:
      out.e = FloorDiv(a.e, b.e);
      break;
    case 6:
      out.e = Mod(a.e, b.e);
      break;
    case 7:
      out.e = Min(a.e, b.e);
      break;
    default:
      out.e = Max(a.e, b.e);
      break;
  }
  for (size_t i = 0; i < at.size(); ++i) {
    std::optional<int64_t> v;
    if (a.values[i].has_value() && b.values[i].has_value()) {
      const int64_t x = *a.values[i], y = *b.values[i];
      if (kind == 2) v = x + y;
      if (kind == 3) v = x - y;
      if (kind == 4) v = x * y;
      if (kind == 5 && y != 0) v = PythonFloorDiv(x, y);
      if (kind == 6 && y != 0) v = x - y * PythonFloorDiv(x, y);
      if (kind == 7) v = std::min(x, y);
      if (kind == 8) v = std::max(x, y);
    }
    out.values.push_back(v);
  }
  return out;
}

Expr FromView(const Expr& e) {
  Expr::View v = e.Decompose();
  switch (v.op) {
    case Expr::Op::kConstant:
      return v.constant;
    case Expr::Op::kSymbol:
      return Expr::Symbol(v.symbol);
    default:
      break;
  }
  EXPECT_EQ(v.operands.size(), 2);
  const Expr a = FromView(v.operands[0]), b = FromView(v.operands[1]);
  switch (v.op) {
    case Expr::Op::kAdd:
      return a + b;
    case Expr::Op::kMul:
      return a * b;
    case Expr::Op::kFloorDiv:
      return FloorDiv(a, b);
    case Expr::Op::kMod:
      return Mod(a, b);
    case Expr::Op::kMin:
      return Min(a, b);
    default:
      return Max(a, b);
  }
}

TEST(ExprTest, RandomExpressionsKeepTheirValuePrintAndDecompose) {
  Random r;
  for (int i = 0; i < 20000; ++i) {
    std::vector<Values> at(6);
    for (Values& v : at) v.symbols = {{"s0", r.Int(-9, 9)}, {"s1", r.Int(0, 9)}, {"s2", r.Int(1, 9)}};
    const Checked c = RandomExpr(r, at, 4);
    SCOPED_TRACE(c.e.ToString());
    if (!c.e.IsPoison()) {
      for (size_t k = 0; k < at.size(); ++k) {
        if (!c.values[k].has_value()) continue;
        absl::StatusOr<int64_t> value = c.e.Evaluate(at[k].symbols);
        ASSERT_TRUE(value.ok()) << value.status();
        ASSERT_EQ(*value, *c.values[k]);
      }
    }
    ASSERT_EQ(E(c.e.ToString()), c.e);
    ASSERT_EQ(FromView(c.e), c.e);
  }
}

TEST(SymbolRangesTest, RandomRangesHoldAndDecisionsAreRight) {
  Random r;
  int decided = 0, total = 0;
  for (int i = 0; i < 4000; ++i) {
    SymbolRanges ranges;
    std::vector<Values> at(12);
    for (const char* s : {"s0", "s1", "s2"}) {
      const int64_t lo = r.Int(-3, 3), width = r.Int(0, 8);
      const bool open = r.Int(0, 1);
      ranges.Set(s, {lo, open ? SymbolRanges::kInfinity : lo + width});
      for (Values& v : at) v.symbols[s] = open ? lo + r.Int(0, 30) : r.Int(lo, lo + width);
    }
    const Checked a = RandomExpr(r, at, 3), b = RandomExpr(r, at, 2);
    const SymbolRanges::Range range = ranges.Of(a.e);
    const std::optional<bool> equal = ranges.Equal(a.e, b.e), less = ranges.Less(a.e, b.e),
                              less_or_equal = ranges.LessOrEqual(a.e, b.e);
    ++total;
    decided += less.has_value();
    for (size_t k = 0; k < at.size(); ++k) {
      if (!a.values[k].has_value() || a.e.IsPoison()) continue;
      SCOPED_TRACE(a.e.ToString() + " vs " + b.e.ToString());
      ASSERT_GE(*a.values[k], range.min);
      ASSERT_LE(*a.values[k], range.max);
      if (!b.values[k].has_value()) continue;
      if (equal.has_value()) {
        ASSERT_EQ(*equal, *a.values[k] == *b.values[k]);
      }
      if (less.has_value()) {
        ASSERT_EQ(*less, *a.values[k] < *b.values[k]);
      }
      if (less_or_equal.has_value()) {
        ASSERT_EQ(*less_or_equal, *a.values[k] <= *b.values[k]);
      }
    }
  }
  RecordProperty("decided", decided);
  EXPECT_GT(decided, total / 5);
}

TEST(SymbolRangesTest, SimplifyKeepsTheValueWithinTheRanges) {
  Random r;
  int shorter = 0;
  for (int i = 0; i < 2000; ++i) {
    SymbolRanges ranges;
    std::vector<Values> at(8);
    for (const char* s : {"s0", "s1", "s2"}) {
      const int64_t lo = r.Int(-2, 4), width = r.Int(0, 5);
      ranges.Set(s, {lo, lo + width});
      for (Values& v : at) v.symbols[s] = r.Int(lo, lo + width);
    }
    const Checked c = RandomExpr(r, at, 3);
    const Expr simple = ranges.Simplify(c.e);
    shorter += simple.ToString().size() < c.e.ToString().size();
    SCOPED_TRACE(c.e.ToString() + " -> " + simple.ToString());
    for (size_t k = 0; k < at.size(); ++k) {
      if (!c.values[k].has_value() || c.e.IsPoison() || simple.IsPoison()) continue;
      absl::StatusOr<int64_t> value = simple.Evaluate(at[k].symbols);
      ASSERT_TRUE(value.ok()) << value.status();
      ASSERT_EQ(*value, *c.values[k]);
    }
  }
  EXPECT_GT(shorter, 100);
  SymbolRanges ranges;
  ranges.Set("s0", {8, SymbolRanges::kInfinity});
  EXPECT_EQ(ranges.Simplify(E("min(s0, 4) + floordiv(3, s0) + mod(3, s0)")), Expr(7));
}

TEST(SymbolRangesTest, ACaseThatNeverHoldsDoesNotHideThatTwoSizesAreEqual) {
  SymbolRanges ranges;
  ranges.Set("s0", {4, 64});
  EXPECT_EQ(ranges.Equal(E("s0 - max(s0 - 4, 0) - 2"), 2), true);
  EXPECT_EQ(ranges.Equal(E("s0 - max(s0 - 5, 0)"), 5), std::nullopt);
}

TEST(SymbolRangesTest, WhatIsKnownNotToBeZeroDecides) {
  SymbolRanges ranges;
  ranges.Set("s0", {400, SymbolRanges::kInfinity});
  const Expr frames = E("floordiv(s0 + 80, 160) - 2");  // at least 1
  EXPECT_EQ(ranges.Equal(frames, 1), std::nullopt);
  ranges.SetNonZero(E("max(floordiv(s0 + 80, 160) - 3, 3 - floordiv(s0 + 80, 160))"));
  EXPECT_EQ(ranges.Equal(frames, 1), false);
  EXPECT_EQ(ranges.Equal(1, frames), false);
  EXPECT_EQ(ranges.LessOrEqual(2, frames), true);
  EXPECT_EQ(ranges.Less(1, frames), true);
  EXPECT_EQ(ranges.Equal(frames, 2), std::nullopt);
  EXPECT_EQ(ranges.LessOrEqual(3, frames), std::nullopt);
  ranges.Set("s1", {0, 5});
  ranges.SetNonZero(E("s1 - 5"));
  EXPECT_EQ(ranges.LessOrEqual(5, E("s1")), false);
  EXPECT_EQ(ranges.LessOrEqual(4, E("s1")), std::nullopt);
}

TEST(SymbolRangesTest, DecidesWhatShapesAsk) {
  SymbolRanges ranges;
  ranges.Set("s0", {2, SymbolRanges::kInfinity});
  ranges.Set("s1", {2, 64});
  EXPECT_EQ(ranges.Equal(E("s0"), 1), false);
  EXPECT_EQ(ranges.Equal(E("2*s0"), 5), false);
  EXPECT_EQ(ranges.Less(E("s0"), E("s0*s1")), true);
  EXPECT_EQ(ranges.LessOrEqual(E("s0"), E("s0*s1 - s0")), true);
  EXPECT_EQ(ranges.LessOrEqual(E("floordiv(s0, 2)"), E("s0")), true);
  EXPECT_EQ(ranges.LessOrEqual(E("min(s0, 10)"), E("s0")), true);
  EXPECT_EQ(ranges.LessOrEqual(0, E("s0 - min(s0, 10)")), true);
  EXPECT_EQ(ranges.Less(E("s1"), 65), true);
  EXPECT_EQ(ranges.Equal(E("s0"), E("s1")), std::nullopt);
  EXPECT_EQ(ranges.Equal(Expr::Poison(), Expr::Poison()), std::nullopt);
  EXPECT_EQ(ranges.Get("unheard").min, 0);
}

}  // namespace
}  // namespace smelt
