#include "smelt/core/op/scalar.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

double Eval(const ScalarFn& f, std::vector<double> args) {
  std::vector<ScalarValue> values;
  for (double a : args) {
    ScalarValue v;
    v.f = a;
    values.push_back(v);
  }
  return EvaluateScalarFn(f, values, nullptr)[0].f;
}

int64_t EvalInt(const ScalarFn& f, std::vector<int64_t> args, bool* by_zero = nullptr) {
  std::vector<ScalarValue> values;
  for (int64_t a : args) {
    ScalarValue v;
    v.i = a;
    values.push_back(v);
  }
  return EvaluateScalarFn(f, values, by_zero)[0].i;
}

TEST(ScalarTest, TheGeluOfTheHeaderComputesGelu) {
  ScalarFn f = *ParseScalarFn("(x: f32) -> { h = x * 0.5; t = erf(x * 0.70710678118654752); return h * (t + 1.0); }");
  EXPECT_NEAR(Eval(f, {1.0}), 0.8413447460685429, 1e-7);
}

TEST(ScalarTest, PrintingAndParsingGivesAnEqualFunction) {
  for (const char* text : {
           "(x: f32) -> { h = x * 0.5; t = erf(x * 0.70710678118654752); return h * (t + 1.0); }",
           "(a: bf16, b: i64) -> { f = cast(a): f32; g = cast(b): f32; return cast(fma(f, g, 3.5)): bf16, isnan(f); }",
           "(a: i32, c: bool) -> { return select(c, a, -2147483648), -inf:f64 + 1.0, xor(c, true), nan:f32 * -0.0; }",
           "(a: i64) -> { return a + -9223372036854775808; }",
       }) {
    auto f = ParseScalarFn(text);
    ASSERT_TRUE(f.ok()) << f.status();
    auto again = ParseScalarFn(f->ToString());
    ASSERT_TRUE(again.ok()) << f->ToString() << again.status();
    EXPECT_EQ(f->ToString(), again->ToString());
  }
}

TEST(ScalarTest, WrongTextIsAnError) {
  for (const char* text : {"", "(x: f32)", "(x: f32) -> { return y; }", "(x: f32) -> { return frob(x); }",
                           "(x: f16) -> { return x + x; }", "(x: f32, y: f64) -> { return x + y; }",
                           "(x: f32) -> { return and(x, x); }", "(x: f32) -> { x = x; return x; }"}) {
    EXPECT_FALSE(ParseScalarFn(text).ok()) << text;
  }
  EXPECT_FALSE(ParseScalarFn("(x: f32) -> { return " + std::string(5000, '(')).ok());
}

TEST(ScalarTest, EachInstructionRoundsToItsType) {
  EXPECT_EQ(Eval(*ParseScalarFn("(x: f32) -> { return x + 1.0; }"), {std::ldexp(1.0, -24)}), 1.0);
  EXPECT_NE(Eval(*ParseScalarFn("(x: f64) -> { return x + 1.0; }"), {std::ldexp(1.0, -24)}), 1.0);
  // 1 + 2^-8 is halfway between 1 and 1 + 2^-7 in bfloat16, and is rounded to even.
  EXPECT_EQ(Eval(*ParseScalarFn("(x: f32) -> { return cast(x): bf16; }"), {1.00390625}), 1.0);
  EXPECT_EQ(Eval(*ParseScalarFn("(x: f32) -> { return cast(x): f16; }"), {65519.0}), 65504.0);
  EXPECT_TRUE(std::isinf(Eval(*ParseScalarFn("(x: f32) -> { return cast(x): f16; }"), {65520.0})));
  EXPECT_EQ(Eval(*ParseScalarFn("(x: f32) -> { return cast(x): f16; }"), {std::ldexp(1.0, -24) * 1.5}),
            std::ldexp(1.0, -23));
}

TEST(ScalarTest, AFusedMultiplyAddRoundsOnce) {
  const float a = 1.0f + std::ldexp(1.0f, -12);
  EXPECT_EQ(Eval(*ParseScalarFn("(a: f32) -> { return fma(a, a, -1.00048828125); }"), {a}), std::ldexp(1.0, -24));
  EXPECT_EQ(Eval(*ParseScalarFn("(a: f32) -> { return a * a + -1.00048828125; }"), {a}), 0.0);
}

TEST(ScalarTest, IntegersWrapAndDivideAsTheirNamesSay) {
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: i8) -> { return a + 1; }"), {127}), -128);
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: u8) -> { return -a; }"), {1}), 255);
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: i64, b: i64) -> { return div_floor(a, b); }"), {-7, 2}), -4);
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: i64, b: i64) -> { return div_trunc(a, b); }"), {-7, 2}), -3);
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: i64, b: i64) -> { return rem_floor(a, b); }"), {-7, 2}), 1);
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: i64, b: i64) -> { return rem_trunc(a, b); }"), {-7, 2}), -1);
  bool by_zero = false;
  EXPECT_EQ(EvalInt(*ParseScalarFn("(a: i64, b: i64) -> { return div_floor(a, b); }"), {-7, 0}, &by_zero), 0);
  EXPECT_TRUE(by_zero);
}

TEST(ScalarTest, MinAndMaxKeepNanAndTheirFCousinsDoNot) {
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(Eval(*ParseScalarFn("(a: f32) -> { return max(a, 1.0); }"), {nan})));
  EXPECT_EQ(Eval(*ParseScalarFn("(a: f32) -> { return fmax(a, 1.0); }"), {nan}), 1.0);
}

TEST(ScalarTest, TheBuilderFoldsConstantsAndSharesEqualInstructions) {
  ScalarBuilder b;
  const int x = b.Arg(DType::kFloat32);
  const int two = b.Op(ScalarOp::kAdd, DType::kFloat32, b.Const(DType::kFloat32, 1), b.Const(DType::kFloat32, 1));
  const int p = b.Op(ScalarOp::kMul, DType::kFloat32, x, two), q = b.Op(ScalarOp::kMul, DType::kFloat32, x, two);
  EXPECT_EQ(p, q);
  ScalarFn f = b.Finish({p});
  EXPECT_EQ(f.ToString(), "(a0: f32) -> { v0 = mul(a0, 2.0:f32); return v0; }");
  EXPECT_TRUE(VerifyScalarFn(f).ok());
}

TEST(ScalarTest, TheBuilderLeavesFunctionsOfConstantsThatTheCLibraryRounds) {
  ScalarBuilder b;
  const int two = b.Const(DType::kFloat64, 2);
  const ScalarFn f =
      b.Finish({b.Op(ScalarOp::kExp, DType::kFloat64, two), b.Op(ScalarOp::kPow, DType::kFloat64, two, two),
                b.Op(ScalarOp::kSqrt, DType::kFloat64, two),
                b.Op(ScalarOp::kPow, DType::kInt64, b.ConstInt(DType::kInt64, 3), b.ConstInt(DType::kInt64, 2))});
  const std::string text = f.ToString();
  EXPECT_THAT(text, testing::HasSubstr("exp(2.0:f64)"));
  EXPECT_THAT(text, testing::HasSubstr("pow(2.0:f64, 2.0:f64)"));
  EXPECT_THAT(text, testing::HasSubstr("1.4142135623730951:f64"));
  EXPECT_THAT(text, testing::HasSubstr("9:i64"));
}

TEST(ScalarTest, AFoldedNanHasNoSign) {
  // x86-64 makes NaNs with a sign, AArch64 without.
  constexpr double kInf = std::numeric_limits<double>::infinity();
  ScalarBuilder b;
  const int infinity = b.Const(DType::kFloat64, kInf);
  const ScalarFn f = b.Finish({b.Op(ScalarOp::kSub, DType::kFloat64, infinity, infinity)});
  ASSERT_EQ(f.instrs.size(), 1);
  EXPECT_TRUE(std::isnan(f.instrs[0].imm.f));
  EXPECT_FALSE(std::signbit(f.instrs[0].imm.f));
}

TEST(ScalarTest, InverseErfAndDigammaAreExactToDoublePrecision) {
  ScalarFn erfinv = *ParseScalarFn("(x: f64) -> { return erfinv(x); }");
  for (double y : {-2.5, -0.7, 0.001, 0.4, 1.9, 3.2}) EXPECT_NEAR(Eval(erfinv, {std::erf(y)}), y, 1e-10) << y;
  ScalarFn digamma = *ParseScalarFn("(x: f64) -> { return digamma(x); }");
  EXPECT_NEAR(Eval(digamma, {1.0}), -0.57721566490153286, 1e-14);  // minus Euler's constant
  EXPECT_NEAR(Eval(digamma, {0.5}), -1.9635100260214235, 1e-14);
}

}  // namespace
}  // namespace smelt
