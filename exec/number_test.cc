#include "smelt/exec/number.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

PythonValue Int(int64_t v) { return PythonValue(v); }
PythonValue Float(double v) { return PythonValue(v); }

TEST(NumberTest, ArithmeticRefusesIntegersThatNeedMoreThan64Bits) {
  const struct {
    PythonOp op;
    int64_t a, b;
  } calls[] = {{PythonOp::kAdd, INT64_MAX, 1},        {PythonOp::kSub, INT64_MIN, 1},
               {PythonOp::kMul, int64_t{1} << 62, 2}, {PythonOp::kFloorDiv, INT64_MIN, -1},
               {PythonOp::kTruncDiv, INT64_MIN, -1},  {PythonOp::kPow, 2, 63},
               {PythonOp::kLeftShift, 1, 63},         {PythonOp::kGcd, INT64_MIN, 0}};
  for (const auto& call : calls) {
    const auto r = BinaryNumber(call.op, Int(call.a), Int(call.b));
    EXPECT_TRUE(absl::IsFailedPrecondition(r.status()));
    EXPECT_TRUE(absl::StrContains(r.status().message(), "OverflowError")) << r.status();
  }
  EXPECT_FALSE(UnaryNumber(PythonOp::kNeg, Int(INT64_MIN)).ok());
  EXPECT_FALSE(UnaryNumber(PythonOp::kAbs, Int(INT64_MIN)).ok());
  EXPECT_FALSE(UnaryNumber(PythonOp::kFactorial, Int(21)).ok());
}

TEST(NumberTest, TheLargestResultsThatFitAreComputed) {
  EXPECT_EQ(BinaryNumber(PythonOp::kAdd, Int(INT64_MAX - 1), Int(1))->as_int(), INT64_MAX);
  EXPECT_EQ(BinaryNumber(PythonOp::kMul, Int(-(int64_t{1} << 62)), Int(2))->as_int(), INT64_MIN);
  EXPECT_EQ(BinaryNumber(PythonOp::kPow, Int(-2), Int(63))->as_int(), INT64_MIN);
  EXPECT_EQ(BinaryNumber(PythonOp::kRemainder, Int(INT64_MIN), Int(-1))->as_int(), 0);
  EXPECT_EQ(BinaryNumber(PythonOp::kLeftShift, Int(1), Int(62))->as_int(), int64_t{1} << 62);
  EXPECT_EQ(UnaryNumber(PythonOp::kFactorial, Int(20))->as_int(), 2432902008176640000);
}

TEST(NumberTest, DivisionRoundsDownAndTheRemainderHasTheDivisorsSign) {
  EXPECT_EQ(BinaryNumber(PythonOp::kFloorDiv, Int(-7), Int(2))->as_int(), -4);
  EXPECT_EQ(BinaryNumber(PythonOp::kRemainder, Int(-7), Int(2))->as_int(), 1);
  EXPECT_EQ(BinaryNumber(PythonOp::kRemainder, Int(7), Int(-2))->as_int(), -1);
  EXPECT_EQ(BinaryNumber(PythonOp::kTruncDiv, Int(-7), Int(2))->as_int(), -3);
  EXPECT_EQ(BinaryNumber(PythonOp::kRemainder, Float(-7.5), Int(2))->as_double(), 0.5);
  EXPECT_EQ(BinaryNumber(PythonOp::kFmod, Float(-7.5), Int(2))->as_double(), -1.5);
}

TEST(NumberTest, DivisionByZeroIsPythonsException) {
  for (PythonOp op : {PythonOp::kTrueDiv, PythonOp::kFloorDiv, PythonOp::kTruncDiv, PythonOp::kRemainder}) {
    for (const PythonValue& zero : {Int(0), Float(0)}) {
      const auto r = BinaryNumber(op, Int(1), zero);
      EXPECT_TRUE(absl::StrContains(r.status().message(), "ZeroDivisionError")) << r.status();
    }
  }
}

TEST(NumberTest, ABoolIsAnIntegerExceptForBitwiseOperatorsOnTwoBools) {
  const PythonValue yes(true), no(false);
  EXPECT_EQ(BinaryNumber(PythonOp::kAdd, yes, yes)->as_int(), 2);
  EXPECT_TRUE(BinaryNumber(PythonOp::kXor, yes, no)->as_bool());
  EXPECT_EQ(BinaryNumber(PythonOp::kXor, yes, Int(3))->as_int(), 2);
}

TEST(NumberTest, RoundingToIntegersRefusesWhatNoIntegerHolds) {
  EXPECT_EQ(UnaryNumber(PythonOp::kFloor, Float(-1.5))->as_int(), -2);
  EXPECT_EQ(UnaryNumber(PythonOp::kCeil, Float(-1.5))->as_int(), -1);
  EXPECT_EQ(*ToInteger(Float(-1.5)), -1);
  EXPECT_EQ(*ToInteger(Float(-0x1p63)), INT64_MIN);
  EXPECT_FALSE(ToInteger(Float(0x1p63)).ok());
  EXPECT_FALSE(ToInteger(Float(std::nan(""))).ok());
  EXPECT_FALSE(UnaryNumber(PythonOp::kFloor, Float(INFINITY)).ok());
}

TEST(NumberTest, MathRefusesWhatPythonsMathRefuses) {
  EXPECT_TRUE(absl::StrContains(UnaryNumber(PythonOp::kSqrt, Int(-1)).status().message(), "ValueError"));
  EXPECT_TRUE(absl::StrContains(UnaryNumber(PythonOp::kExp, Int(1000)).status().message(), "OverflowError"));
  EXPECT_TRUE(absl::StrContains(BinaryNumber(PythonOp::kPow, Int(0), Int(-1)).status().message(), "ZeroDivisionError"));
  EXPECT_EQ(UnaryNumber(PythonOp::kExp, Float(INFINITY))->as_double(), INFINITY);
}

TEST(NumberTest, ComplexNumbersAreComputedAndNotOrdered) {
  const PythonValue i(std::complex<double>(0, 1));
  EXPECT_EQ(BinaryNumber(PythonOp::kMul, i, i)->as_complex(), std::complex<double>(-1, 0));
  EXPECT_EQ(BinaryNumber(PythonOp::kAdd, i, Int(2))->as_complex(), std::complex<double>(2, 1));
  EXPECT_TRUE(absl::IsUnimplemented(BinaryNumber(PythonOp::kLt, i, i).status()));
}

TEST(NumberTest, RangesAreAsLongAsPythonsAndNeverOverflow) {
  EXPECT_EQ(*RangeLength(0, 10, 3), 4);
  EXPECT_EQ(*RangeLength(10, 0, -3), 4);
  EXPECT_EQ(*RangeLength(3, 3, 1), 0);
  EXPECT_EQ(*RangeLength(INT64_MIN, INT64_MAX, INT64_MAX), 3);
  EXPECT_EQ(*RangeLength(0, INT64_MAX, INT64_MAX), 1);
  EXPECT_FALSE(RangeLength(INT64_MIN, INT64_MAX, 1).ok());
  EXPECT_FALSE(RangeLength(0, 1, 0).ok());
  EXPECT_EQ(*RangeElement(3, 10, -4), -2);
  EXPECT_FALSE(RangeElement(2, 0, INT64_MAX).ok());
}

}  // namespace
}  // namespace smelt
