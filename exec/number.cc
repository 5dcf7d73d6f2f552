#include "smelt/exec/number.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/elements.h"

namespace smelt {
namespace {

using Result = absl::StatusOr<PythonValue>;

absl::Status Error(absl::string_view what) { return absl::FailedPreconditionError(what); }
absl::Status TooLarge() { return Error("OverflowError: an integer of more than 64 bits"); }
absl::Status NotOnNumbers() { return absl::UnimplementedError("is not supported on numbers"); }

PythonValue Int(int64_t v) { return PythonValue(v); }
PythonValue Float(double v) { return PythonValue(v); }
PythonValue Bool(bool v) { return PythonValue(v); }

// Checks a result of Python's math: for finite numbers (`of_finite`) it must not be infinite or NaN.
Result InRange(double v, bool of_finite) {
  if (of_finite && std::isnan(v)) return Error("ValueError: math domain error");
  if (of_finite && std::isinf(v)) return Error("OverflowError: (34, 'Numerical result out of range')");
  return Float(v);
}

absl::StatusOr<int64_t> Whole(double v) {
  if (!std::isfinite(v)) return Error("OverflowError: cannot convert float infinity or NaN to integer");
  if (!(v >= -0x1p63 && v < 0x1p63)) return TooLarge();
  return static_cast<int64_t>(v);
}

Result IntPower(int64_t base, int64_t exponent) {
  int64_t r = 1;
  for (int64_t e = exponent; e > 0; e >>= 1) {
    if ((e & 1) && __builtin_mul_overflow(r, base, &r)) return TooLarge();
    if (e > 1 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Int(r);
}

Result FloatPower(double x, double y) {
  if (x == 0 && y < 0) return Error("ZeroDivisionError: 0.0 cannot be raised to a negative power");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y))
    return Error("a negative number to the power of a fraction is complex, a real one is expected");
  return InRange(std::pow(x, y), std::isfinite(x) && std::isfinite(y));
}

Result Shift(bool left, int64_t i, int64_t by) {
  if (by < 0) return Error("ValueError: negative shift count");
  if (!left) return Int(i >> std::min<int64_t>(by, 63));
  if (i == 0) return Int(0);
  if (by > 62) return TooLarge();
  int64_t r;
  return __builtin_mul_overflow(i, int64_t{1} << by, &r) ? Result(TooLarge()) : Int(r);
}

Result Gcd(int64_t i, int64_t j) {
  const auto magnitude = [](int64_t v) { return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : uint64_t(v); };
  uint64_t u = magnitude(i), v = magnitude(j);
  while (v != 0) std::swap(u %= v, v);
  return u > uint64_t{INT64_MAX} ? Result(TooLarge()) : Int(static_cast<int64_t>(u));
}

// Division and its remainders.
Result IntDivision(PythonOp op, int64_t i, int64_t j) {
  if (j == 0) return Error("ZeroDivisionError: integer division or modulo by zero");
  if (j == -1) {
    if (op == PythonOp::kRemainder) return Int(0);
    return i == INT64_MIN ? Result(TooLarge()) : Int(-i);
  }
  const bool down = i % j != 0 && (i % j < 0) != (j < 0);
  if (op == PythonOp::kRemainder) return Int(i % j + (down ? j : 0));
  return Int(i / j - (op == PythonOp::kFloorDiv && down ? 1 : 0));
}

Result FloatDivision(PythonOp op, double x, double y) {
  switch (op) {
    case PythonOp::kFloorDiv:
    case PythonOp::kTruncDiv:
      if (y == 0) return Error("ZeroDivisionError: float divmod()");
      return Float(op == PythonOp::kFloorDiv ? std::floor(x / y) : std::trunc(x / y));
    case PythonOp::kFmod:
    case PythonOp::kMathRemainder:
      if (y == 0) return Error("ValueError: math domain error");
      return Float(op == PythonOp::kFmod ? std::fmod(x, y) : std::remainder(x, y));
    default: {
      if (y == 0) return Error("ZeroDivisionError: float modulo");
      const double r = std::fmod(x, y);
      return Float(r != 0 && (r < 0) != (y < 0) ? r + y : r);
    }
  }
}

std::complex<double> ToComplex(const PythonValue& v) {
  return v.IsComplex() ? v.as_complex() : std::complex<double>(*v.AsDouble());
}

Result ComplexBinary(PythonOp op, std::complex<double> u, std::complex<double> v) {
  switch (op) {
    case PythonOp::kAdd:
      return PythonValue(u + v);
    case PythonOp::kSub:
      return PythonValue(u - v);
    case PythonOp::kMul:
      return PythonValue(u * v);
    case PythonOp::kTrueDiv:
      if (v == 0.0) return Error("ZeroDivisionError: complex division by zero");
      return PythonValue(u / v);
    case PythonOp::kPow:
      return PythonValue(std::pow(u, v));
    default:
      return absl::UnimplementedError("is not supported for complex numbers");
  }
}

Result IntBinary(PythonOp op, int64_t i, int64_t j, bool bools) {
  int64_t r;
  switch (op) {
    case PythonOp::kAdd:
      return __builtin_add_overflow(i, j, &r) ? Result(TooLarge()) : Int(r);
    case PythonOp::kSub:
      return __builtin_sub_overflow(i, j, &r) ? Result(TooLarge()) : Int(r);
    case PythonOp::kMul:
      return __builtin_mul_overflow(i, j, &r) ? Result(TooLarge()) : Int(r);
    case PythonOp::kFloorDiv:
    case PythonOp::kTruncDiv:
    case PythonOp::kRemainder:
      return IntDivision(op, i, j);
    case PythonOp::kPow:
      return j < 0 ? FloatPower(static_cast<double>(i), static_cast<double>(j)) : IntPower(i, j);
    case PythonOp::kLt:
      return Bool(i < j);
    case PythonOp::kLe:
      return Bool(i <= j);
    case PythonOp::kGt:
      return Bool(i > j);
    case PythonOp::kGe:
      return Bool(i >= j);
    case PythonOp::kMin:
      return Int(std::min(i, j));
    case PythonOp::kMax:
      return Int(std::max(i, j));
    case PythonOp::kAnd:
      return bools ? Bool((i & j) != 0) : Int(i & j);
    case PythonOp::kOr:
      return bools ? Bool((i | j) != 0) : Int(i | j);
    case PythonOp::kXor:
      return bools ? Bool((i ^ j) != 0) : Int(i ^ j);
    case PythonOp::kLeftShift:
    case PythonOp::kRightShift:
      return Shift(op == PythonOp::kLeftShift, i, j);
    case PythonOp::kGcd:
      return Gcd(i, j);
    default:
      return NotOnNumbers();
  }
}

// Operators that give a float, or compare, whatever the numbers are.
Result FloatBinary(PythonOp op, double x, double y) {
  const bool finite = std::isfinite(x) && std::isfinite(y);
  switch (op) {
    case PythonOp::kAdd:
      return Float(x + y);
    case PythonOp::kSub:
      return Float(x - y);
    case PythonOp::kMul:
      return Float(x * y);
    case PythonOp::kTrueDiv:
      if (y == 0) return Error("ZeroDivisionError: division by zero");
      return Float(x / y);
    case PythonOp::kFloorDiv:
    case PythonOp::kTruncDiv:
    case PythonOp::kRemainder:
    case PythonOp::kFmod:
    case PythonOp::kMathRemainder:
      return FloatDivision(op, x, y);
    case PythonOp::kPow:
      return FloatPower(x, y);
    case PythonOp::kLt:
      return Bool(x < y);
    case PythonOp::kLe:
      return Bool(x <= y);
    case PythonOp::kGt:
      return Bool(x > y);
    case PythonOp::kGe:
      return Bool(x >= y);
    case PythonOp::kMin:
      return Float(std::min(x, y));
    case PythonOp::kMax:
      return Float(std::max(x, y));
    case PythonOp::kAtan2:
      return Float(std::atan2(x, y));
    case PythonOp::kCopysign:
      return Float(std::copysign(x, y));
    case PythonOp::kHypot:
      return Float(std::hypot(x, y));
    case PythonOp::kLog:
      if (y == 1) return Error("ZeroDivisionError: division by zero");
      return InRange(std::log(x) / std::log(y), finite);
    case PythonOp::kRound: {
      const double scale = std::pow(10.0, y);
      return Float(std::nearbyint(x * scale) / scale);
    }
    default:
      return NotOnNumbers();
  }
}

// Returns the function of Python's math that an operator is; null if it is none.
double (*MathFunction(PythonOp op))(double) {
  switch (op) {
    case PythonOp::kSqrt:
      return std::sqrt;
    case PythonOp::kExp:
      return std::exp;
    case PythonOp::kExpm1:
      return std::expm1;
    case PythonOp::kLog:
      return std::log;
    case PythonOp::kLog2:
      return std::log2;
    case PythonOp::kLog10:
      return std::log10;
    case PythonOp::kLog1p:
      return std::log1p;
    case PythonOp::kSin:
      return std::sin;
    case PythonOp::kCos:
      return std::cos;
    case PythonOp::kTan:
      return std::tan;
    case PythonOp::kAsin:
      return std::asin;
    case PythonOp::kAcos:
      return std::acos;
    case PythonOp::kAtan:
      return std::atan;
    case PythonOp::kSinh:
      return std::sinh;
    case PythonOp::kCosh:
      return std::cosh;
    case PythonOp::kTanh:
      return std::tanh;
    case PythonOp::kAsinh:
      return std::asinh;
    case PythonOp::kAcosh:
      return std::acosh;
    case PythonOp::kAtanh:
      return std::atanh;
    case PythonOp::kErf:
      return std::erf;
    case PythonOp::kErfc:
      return std::erfc;
    case PythonOp::kGamma:
      return std::tgamma;
    case PythonOp::kLgamma:
      return std::lgamma;
    default:
      return nullptr;
  }
}

}  // namespace

Result BinaryNumber(PythonOp op, const PythonValue& a, const PythonValue& b) {
  if (a.IsNumber() && b.IsNumber() && (a.IsComplex() || b.IsComplex()))
    return ComplexBinary(op, ToComplex(a), ToComplex(b));
  SMELT_ASSIGN_OR_RETURN(const double x, a.AsDouble());
  SMELT_ASSIGN_OR_RETURN(const double y, b.AsDouble());
  if (!a.IsDouble() && !b.IsDouble()) {
    Result r = IntBinary(op, *a.AsInt(), *b.AsInt(), a.IsBool() && b.IsBool());
    if (!absl::IsUnimplemented(r.status())) return r;
  }
  return FloatBinary(op, x, y);
}

Result UnaryNumber(PythonOp op, const PythonValue& a) {
  if (a.IsComplex()) {
    if (op == PythonOp::kNeg) return PythonValue(-a.as_complex());
    if (op == PythonOp::kAbs) return Float(std::abs(a.as_complex()));
    return absl::UnimplementedError("is not supported for complex numbers");
  }
  SMELT_ASSIGN_OR_RETURN(const double x, a.AsDouble());
  const bool integer = !a.IsDouble();
  const int64_t i = integer ? *a.AsInt() : 0;
  const auto whole = [&](double v) -> Result {
    if (integer) return Int(i);
    SMELT_ASSIGN_OR_RETURN(const int64_t w, Whole(v));
    return Int(w);
  };
  switch (op) {
    case PythonOp::kNeg:
    case PythonOp::kAbs:
      if (!integer) return Float(op == PythonOp::kNeg ? -x : std::fabs(x));
      if (i == INT64_MIN) return TooLarge();
      return Int(op == PythonOp::kNeg || i < 0 ? -i : i);
    case PythonOp::kFabs:
      return Float(std::fabs(x));
    case PythonOp::kNot:
      return Bool(x == 0);
    case PythonOp::kCeil:
      return whole(std::ceil(x));
    case PythonOp::kFloor:
      return whole(std::floor(x));
    case PythonOp::kTrunc:
      return whole(std::trunc(x));
    case PythonOp::kRound:
      return Float(std::nearbyint(x));
    case PythonOp::kIsNan:
      return Bool(std::isnan(x));
    case PythonOp::kIsInf:
      return Bool(std::isinf(x));
    case PythonOp::kIsFinite:
      return Bool(std::isfinite(x));
    case PythonOp::kDegrees:
      return Float(x * 180 / std::numbers::pi);
    case PythonOp::kRadians:
      return Float(x * std::numbers::pi / 180);
    case PythonOp::kFactorial: {
      if (!integer) return Error("TypeError: factorial() takes an integer");
      if (i < 0) return Error("ValueError: factorial() not defined for negative values");
      if (i > 20) return TooLarge();
      int64_t r = 1;
      for (int64_t k = 2; k <= i; ++k) r *= k;
      return Int(r);
    }
    default:
      break;
  }
  const auto function = MathFunction(op);
  return function == nullptr ? Result(NotOnNumbers()) : InRange(function(x), std::isfinite(x));
}

Result ItemOf(const Tensor& t) {
  if (t.NumElements() != 1)
    return Error(absl::StrCat("a Tensor with ", t.NumElements(), " elements cannot be converted to Scalar"));
  if (t.dtype() == DType::kBool) return Bool(LoadInt(t.data(), t.dtype()) != 0);
  if (IsComplex(t.dtype())) return PythonValue(LoadComplex(t.data(), t.dtype()));
  if (IsFloating(t.dtype())) return Float(LoadDouble(t.data(), t.dtype()));
  return Int(LoadInt(t.data(), t.dtype()));
}

absl::StatusOr<int64_t> ToInteger(const PythonValue& v) {
  if (v.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(const PythonValue item, ItemOf(v.tensor()));
    return ToInteger(item);
  }
  return v.IsDouble() ? Whole(std::trunc(v.as_double())) : v.AsInt();
}

absl::StatusOr<bool> TruthOf(const PythonValue& v) {
  if (v.IsTensor()) {
    if (v.tensor().NumElements() > 1) return Error("Boolean value of Tensor with more than one value is ambiguous");
    SMELT_ASSIGN_OR_RETURN(const PythonValue item, ItemOf(v.tensor()));
    return TruthOf(item);
  }
  if (v.IsComplex()) return v.as_complex() != 0.0;
  SMELT_ASSIGN_OR_RETURN(const double number, v.AsDouble());
  return number != 0;
}

absl::StatusOr<int64_t> RangeLength(int64_t low, int64_t high, int64_t step) {
  if (step == 0) return Error("range() arg 3 must not be zero");
  if (step > 0 ? low >= high : low <= high) return 0;
  // Distances of two int64 fit in a uint64.
  const auto from = static_cast<uint64_t>(step > 0 ? low : high), to = static_cast<uint64_t>(step > 0 ? high : low);
  const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t length = (to - from - 1) / by + 1;
  if (length > uint64_t{INT64_MAX}) return TooLarge();
  return static_cast<int64_t>(length);
}

absl::StatusOr<int64_t> RangeElement(int64_t index, int64_t start, int64_t step) {
  int64_t at;
  if (__builtin_mul_overflow(index, step, &at) || __builtin_add_overflow(at, start, &at)) return TooLarge();
  return at;
}

}  // namespace smelt
