#include "smelt/frontend/sympy_expr.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/symbol/expr.h"

namespace smelt {
namespace {

const Expr s0 = Expr::Symbol("s0"), s1 = Expr::Symbol("s1");
const std::string kFloatOfS0 = "ToFloat(Symbol('s0', positive=True, integer=True))";

Expr Parsed(const std::string& text) {
  const absl::StatusOr<Expr> e = ParseSympyExpr(text);
  EXPECT_TRUE(e.ok()) << text << ": " << e.status();
  return e.ok() ? *e : Expr::Poison();
}

TEST(SympyExpr, ReadsIntegerArithmetic) {
  EXPECT_EQ(Parsed("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-3))"), s0 * 2 - 3);
  EXPECT_EQ(Parsed("FloorDiv(Symbol('s0'), Integer(8))"), FloorDiv(s0, 8));
  EXPECT_EQ(Parsed("Max(Integer(1), PythonMod(Symbol('s0'), Integer(4)))"), Max(1, Mod(s0, 4)));
}

TEST(SympyExpr, ReadsFloatsThatAreCutOffToIntegers) {
  EXPECT_EQ(Parsed("TruncToInt(Mul(Float('2.0', precision=53), " + kFloatOfS0 + "))"), s0 * 2);
  EXPECT_EQ(Parsed("TruncToInt(Mul(Float('0.75', precision=53), " + kFloatOfS0 + "))"), FloorDiv(s0 * 3, 4));
  EXPECT_EQ(Parsed("TruncToInt(Add(Mul(Float('1.5', precision=53), " + kFloatOfS0 + "), Float('0.25', precision=53)))"),
            FloorDiv(s0 * 12 + 2, 8));
  EXPECT_EQ(Parsed("CeilToInt(IntTrueDiv(Symbol('s0'), Integer(2)))"), -FloorDiv(-s0, 2));
  // No quotient of a size by 3 is so close to an integer that float64 rounds it to that integer.
  EXPECT_EQ(Parsed("TruncToInt(IntTrueDiv(Symbol('s0'), Integer(3)))"), FloorDiv(s0, 3));
}

TEST(SympyExpr, RefusesFloatsThatAreRoundedOrStayFloats) {
  for (const std::string& text :
       {"TruncToInt(Mul(Float('1.1002003004005006', precision=53), " + kFloatOfS0 + "))",
        "CeilToInt(Mul(Float('1.1000000000000001', precision=53), " + kFloatOfS0 + "))",
        "TruncToInt(Mul(Float('0.69999999999999996', precision=53), " + kFloatOfS0 + "))",  // 90 times it are 62
        "TruncToInt(Mul(Float('0.28999999999999998', precision=53), " + kFloatOfS0 + "))",
        std::string("TruncToInt(Mul(IntTrueDiv(Symbol('s0'), Integer(3)), Float('3.0', precision=53)))"),
        "Mul(Float('2.0', precision=53), " + kFloatOfS0 + ")", std::string("IntTrueDiv(Symbol('s0'), Integer(2))"),
        "TruncToInt(Mul(Float('-0.5', precision=53), " + kFloatOfS0 + "))", "RoundToInt(" + kFloatOfS0 + ")",
        std::string("TruncToInt(IntTrueDiv(Symbol('s0'), Symbol('s1')))")}) {
    EXPECT_EQ(ParseSympyExpr(text).status().code(), absl::StatusCode::kUnimplemented) << text;
  }
}

TEST(SympyExpr, ReadsWhatASizeTimesADecimalNumberIsCutOffTo) {
  for (const char* number : {"1.1000000000000001", "0.33333333333333331", "0.10000000000000001", "1.2", "1.7",
                             "2.2000000000000002", "0.66666666666666663"}) {
    const std::string text = absl::StrCat("TruncToInt(Mul(Float('", number, "', precision=53), ", kFloatOfS0, "))");
    const auto e = ParseSympyExpr(text);
    if (!e.ok()) {
      ADD_FAILURE() << text << ": " << e.status();
      continue;
    }
    for (int64_t n = 0; n < 100000; ++n) {
      ASSERT_EQ(*e->Evaluate({{"s0", n}}), static_cast<int64_t>(std::strtod(number, nullptr) * static_cast<double>(n)))
          << number << " times " << n;
    }
  }
}

TEST(SympyExpr, RefusesPowersThatACallRaisesTo) {
  for (const char* text : {"PowByNatural(Integer(2), Symbol('s0'))", "Pow(Symbol('s0'), Integer(17))"}) {
    EXPECT_EQ(ParseSympyExpr(text).status().code(), absl::StatusCode::kUnimplemented) << text;
  }
}

TEST(SympyExpr, SaysWhereSyntaxIsBad) {
  for (const char* text : {"Float(2.0)", "Float('x')", "Float('2.0', precision", "TruncToInt()", "Mul(", "ToFloat()"}) {
    EXPECT_EQ(ParseSympyExpr(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace smelt
