#include "smelt/core/op/scalar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/float8.h"

namespace smelt {
namespace {

constexpr const char* kNames[] = {
    "arg",       "const",    "cast",      "add",   "sub",   "mul",    "div",    "div_trunc", "div_floor", "rem_trunc",
    "rem_floor", "neg",      "abs",       "min",   "max",   "fmin",   "fmax",   "pow",       "fma",       "atan2",
    "hypot",     "copysign", "nextafter", "and",   "or",    "xor",    "not",    "shl",       "shr",       "eq",
    "ne",        "lt",       "le",        "gt",    "ge",    "select", "isnan",  "isinf",     "signbit",   "floor",
    "ceil",      "trunc",    "round",     "sqrt",  "rsqrt", "exp",    "exp2",   "expm1",     "log",       "log2",
    "log10",     "log1p",    "sin",       "cos",   "tan",   "asin",   "acos",   "atan",      "sinh",      "cosh",
    "tanh",      "asinh",    "acosh",     "atanh", "erf",   "erfc",   "erfinv", "lgamma",    "digamma",   "sigmoid",
};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(ScalarOp::kNumOps));

struct TypeNameEntry {
  DType type;
  const char* name;
};
constexpr TypeNameEntry kTypeNames[] = {
    {DType::kBool, "bool"},
    {DType::kUInt8, "u8"},
    {DType::kInt8, "i8"},
    {DType::kInt16, "i16"},
    {DType::kInt32, "i32"},
    {DType::kInt64, "i64"},
    {DType::kFloat16, "f16"},
    {DType::kBFloat16, "bf16"},
    {DType::kFloat32, "f32"},
    {DType::kFloat64, "f64"},
    {DType::kFloat8E4M3FN, "f8e4m3fn"},
    {DType::kFloat8E5M2, "f8e5m2"},
};

std::string TypeText(DType t) {
  for (const TypeNameEntry& e : kTypeNames) {
    if (e.type == t) return e.name;
  }
  return std::string(Name(t));
}

bool IsReal(DType t) { return !IsComplex(t); }
bool IsInt(DType t) { return !IsFloating(t) && !IsComplex(t); }  // bool too

double RoundHalf(double v) {
  // Converts to float16 through float, as PyTorch does.
  const float f = static_cast<float>(v);
  if (std::isnan(f) || std::isinf(f)) return f;
  const double a = std::fabs(f);
  if (a >= 65520.0) return std::copysign(std::numeric_limits<double>::infinity(), f);
  if (a == 0) return f;
  int e;
  std::frexp(a, &e);                      // a = m * 2^e, m in [0.5, 1)
  const int ulp = std::max(e - 11, -24);  // 11 significant bits; denormals end at 2^-24
  return std::copysign(std::ldexp(std::nearbyint(std::ldexp(a, -ulp)), ulp), f);
}

double RoundBFloat(double v) {
  const float f = static_cast<float>(v);
  if (std::isnan(f)) return f;
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  bits += 0x7fff + ((bits >> 16) & 1);
  bits &= 0xffff0000u;
  float r;
  std::memcpy(&r, &bits, 4);
  return r;
}

double RoundFloat(DType t, double v) {
  switch (t) {
    case DType::kFloat16:
      return RoundHalf(v);
    case DType::kBFloat16:
      return RoundBFloat(v);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return Float8ToFloat(t, FloatToFloat8(t, static_cast<float>(v)));
    case DType::kFloat32:
      return static_cast<float>(v);
    default:
      return v;
  }
}

}  // namespace

int64_t WrapInt(DType t, int64_t v) {
  switch (t) {
    case DType::kBool:
      return v != 0;
    case DType::kUInt8:
      return static_cast<uint8_t>(v);
    case DType::kInt8:
      return static_cast<int8_t>(v);
    case DType::kInt16:
      return static_cast<int16_t>(v);
    case DType::kInt32:
      return static_cast<int32_t>(v);
    default:
      return v;
  }
}

namespace {

int Bits(DType t) { return t == DType::kBool ? 1 : 8 * ItemSize(t); }

int64_t FloatToInt(DType t, double v) {
  if (t == DType::kBool) return v != 0;
  // Converts as x86 does and PyTorch shows: through 32 bits (int64: 64), whose smallest value stands for values out of
  // range.
  const double limit = t == DType::kInt64 ? 0x1p63 : 0x1p31;
  v = std::trunc(v);
  const bool fits = v >= -limit && v < limit;
  return WrapInt(t, fits ? static_cast<int64_t>(v) : t == DType::kInt64 ? INT64_MIN : INT32_MIN);
}

int64_t PowInt(DType t, int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, b = static_cast<uint64_t>(base);
  while (exponent > 0) {
    if (exponent & 1) result *= b;
    b *= b;
    exponent >>= 1;
  }
  return WrapInt(t, static_cast<int64_t>(result));
}

// Giles' approximation, then two Newton steps: full double precision away from the ends.
double ErfInv(double x) {
  if (std::isnan(x) || std::fabs(x) > 1) return std::nan("");
  if (std::fabs(x) == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  double w = -std::log((1 - x) * (1 + x)), p;
  if (w < 5) {
    w -= 2.5;
    p = 2.81022636e-08;
    for (double c : {3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                     0.246640727, 1.50140941})
      p = c + p * w;
  } else {
    w = std::sqrt(w) - 3;
    p = -0.000200214257;
    for (double c : {0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
                     1.00167406, 2.83297682})
      p = c + p * w;
  }
  double y = p * x;
  for (int i = 0; i < 3; ++i) {
    const double slope = M_2_SQRTPI * std::exp(-y * y);
    if (slope == 0) break;
    // Near 1, erf(y) - x cancels; erfc keeps the digits.
    const double error = std::fabs(x) < 0.9 ? std::erf(y) - x
                         : x > 0            ? (1 - x) - std::erfc(y)
                                            : std::erfc(-y) - (1 + x);
    y -= error / slope;
  }
  return y;
}

double Digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return std::nan("");
    double whole;
    const double r = std::modf(x, &whole);
    return Digamma(1 - x) - M_PI / std::tan(M_PI * r);
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  if (x == 10) return result + 2.25175258906672110764;
  double y = 0;
  if (x < 1.0e17) {
    const double z = 1 / (x * x);
    for (double c :
         {8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3, -4.16666666666666666667e-3,
          3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2})
      y = y * z + c;
    y *= z;
  }
  return result + std::log(x) - 0.5 / x - y;
}

double NextAfter(DType t, double a, double b) {
  if (t == DType::kFloat32) return std::nextafterf(static_cast<float>(a), static_cast<float>(b));
  return std::nextafter(a, b);
}

// A case for each operator of scalar functions.
double EvalFloat(ScalarOp op, DType t, double a, double b, double c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kDivTrunc:
      return std::trunc(RoundFloat(t, a / b));
    case ScalarOp::kDivFloor:
      return std::floor(RoundFloat(t, a / b));
    case ScalarOp::kRemTrunc:
      return std::fmod(a, b);
    case ScalarOp::kRemFloor: {
      double m = std::fmod(a, b);
      if (m != 0 && (b < 0) != (m < 0)) m += b;
      return m;
    }
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kMin:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
    case ScalarOp::kMax:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
    case ScalarOp::kFMin:
      return std::isnan(a) ? b : std::isnan(b) ? a : std::min(a, b);
    case ScalarOp::kFMax:
      return std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b);
    case ScalarOp::kPow:
      return std::pow(a, b);
    case ScalarOp::kFma:
      return t == DType::kFloat64 ? std::fma(a, b, c) : std::fmaf(a, b, c);
    case ScalarOp::kAtan2:
      return std::atan2(a, b);
    case ScalarOp::kHypot:
      return std::hypot(a, b);
    case ScalarOp::kCopysign:
      return std::copysign(a, b);
    case ScalarOp::kNextAfter:
      return NextAfter(t, a, b);
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kCeil:
      return std::ceil(a);
    case ScalarOp::kTrunc:
      return std::trunc(a);
    case ScalarOp::kRound:
      return std::nearbyint(a);
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kRsqrt:
      return 1 / std::sqrt(a);
    case ScalarOp::kExp:
      return std::exp(a);
    case ScalarOp::kExp2:
      return std::exp2(a);
    case ScalarOp::kExpm1:
      return std::expm1(a);
    case ScalarOp::kLog:
      return std::log(a);
    case ScalarOp::kLog2:
      return std::log2(a);
    case ScalarOp::kLog10:
      return std::log10(a);
    case ScalarOp::kLog1p:
      return std::log1p(a);
    case ScalarOp::kSin:
      return std::sin(a);
    case ScalarOp::kCos:
      return std::cos(a);
    case ScalarOp::kTan:
      return std::tan(a);
    case ScalarOp::kAsin:
      return std::asin(a);
    case ScalarOp::kAcos:
      return std::acos(a);
    case ScalarOp::kAtan:
      return std::atan(a);
    case ScalarOp::kSinh:
      return std::sinh(a);
    case ScalarOp::kCosh:
      return std::cosh(a);
    case ScalarOp::kTanh:
      return std::tanh(a);
    case ScalarOp::kAsinh:
      return std::asinh(a);
    case ScalarOp::kAcosh:
      return std::acosh(a);
    case ScalarOp::kAtanh:
      return std::atanh(a);
    case ScalarOp::kErf:
      return std::erf(a);
    case ScalarOp::kErfc:
      return std::erfc(a);
    case ScalarOp::kErfinv:
      return ErfInv(a);
    case ScalarOp::kLgamma: {
      int sign;
      return ::lgamma_r(a, &sign);
    }
    case ScalarOp::kDigamma:
      return Digamma(a);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    default:
      break;
  }
  SMELT_CHECK(false) << "no floating-point meaning of " << Name(op);
  return 0;
}

int64_t EvalInt(ScalarOp op, DType t, int64_t a, int64_t b, bool* division_by_zero) {
  auto u = [](int64_t x) { return static_cast<uint64_t>(x); };
  auto divisor_is_zero = [&] {
    if (b == 0 && division_by_zero != nullptr) *division_by_zero = true;
    return b == 0;
  };
  switch (op) {
    case ScalarOp::kAdd:
      return static_cast<int64_t>(u(a) + u(b));
    case ScalarOp::kSub:
      return static_cast<int64_t>(u(a) - u(b));
    case ScalarOp::kMul:
      return static_cast<int64_t>(u(a) * u(b));
    case ScalarOp::kDivTrunc:
      if (divisor_is_zero()) return 0;
      return b == -1 ? static_cast<int64_t>(-u(a)) : a / b;
    case ScalarOp::kDivFloor: {
      if (divisor_is_zero()) return 0;
      if (b == -1) return static_cast<int64_t>(-u(a));
      const int64_t q = a / b;
      return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
    }
    case ScalarOp::kRemTrunc:
      if (divisor_is_zero()) return 0;
      return b == -1 ? 0 : a % b;
    case ScalarOp::kRemFloor: {
      if (divisor_is_zero()) return 0;
      if (b == -1) return 0;
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case ScalarOp::kNeg:
      return static_cast<int64_t>(-u(a));
    case ScalarOp::kAbs:
      return a < 0 ? static_cast<int64_t>(-u(a)) : a;
    case ScalarOp::kMin:
    case ScalarOp::kFMin:
      return std::min(a, b);
    case ScalarOp::kMax:
    case ScalarOp::kFMax:
      return std::max(a, b);
    case ScalarOp::kPow:
      return PowInt(t, a, b);
    case ScalarOp::kAnd:
      return a & b;
    case ScalarOp::kOr:
      return a | b;
    case ScalarOp::kXor:
      return a ^ b;
    case ScalarOp::kNot:
      return t == DType::kBool ? a == 0 : ~a;
    case ScalarOp::kShl:
      return b < 0 || b >= Bits(t) ? 0 : static_cast<int64_t>(u(a) << b);
    case ScalarOp::kShr:
      return b < 0 || b >= Bits(t) ? (a < 0 ? -1 : 0) : a >> b;
    default:
      break;
  }
  SMELT_CHECK(false) << "no integer meaning of " << Name(op);
  return 0;
}

template <typename T>
bool Compare(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::kEq:
      return a == b;
    case ScalarOp::kNe:
      return a != b;
    case ScalarOp::kLt:
      return a < b;
    case ScalarOp::kLe:
      return a <= b;
    case ScalarOp::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

bool IsComparison(ScalarOp op) { return op >= ScalarOp::kEq && op <= ScalarOp::kGe; }

// Evaluates one instruction on operand values; `from` is the type of its first operand (of the second for a select).
ScalarValue EvalInstr(const ScalarInstr& in, DType from, const ScalarValue* v, bool* division_by_zero) {
  ScalarValue r;
  r.i = 0;
  const DType t = in.type;
  if (in.op == ScalarOp::kConst) {
    if (IsInt(t)) {
      r.i = in.imm.i;
    } else {
      r.f = in.imm.f;
    }
  } else if (in.op == ScalarOp::kCast) {
    if (IsInt(t)) {
      r.i = IsInt(from) ? WrapInt(t, v[0].i) : FloatToInt(t, v[0].f);
    } else if (IsInt(from)) {
      // int64 to float32 rounds once, not through double.
      r.f = t == DType::kFloat64 ? static_cast<double>(v[0].i) : RoundFloat(t, static_cast<float>(v[0].i));
    } else {
      r.f = RoundFloat(t, v[0].f);
    }
  } else if (IsComparison(in.op)) {
    r.i = IsInt(from) ? Compare(in.op, v[0].i, v[1].i) : Compare(in.op, v[0].f, v[1].f);
  } else if (in.op == ScalarOp::kSelect) {
    r = v[0].i != 0 ? v[1] : v[2];
  } else if (in.op == ScalarOp::kIsNan) {
    r.i = !IsInt(from) && std::isnan(v[0].f);
  } else if (in.op == ScalarOp::kIsInf) {
    r.i = !IsInt(from) && std::isinf(v[0].f);
  } else if (in.op == ScalarOp::kSignbit) {
    r.i = IsInt(from) ? v[0].i < 0 : std::signbit(v[0].f);
  } else if (IsInt(t)) {
    const int n = NumOperands(in.op);
    r.i = WrapInt(t, EvalInt(in.op, t, v[0].i, n > 1 ? v[1].i : 0, division_by_zero));
  } else {
    const int n = NumOperands(in.op);
    r.f = RoundFloat(t, EvalFloat(in.op, t, v[0].f, n > 1 ? v[1].f : 0, n > 2 ? v[2].f : 0));
  }
  return r;
}

bool SameInstr(const ScalarInstr& a, const ScalarInstr& b) {
  return a.op == b.op && a.type == b.type && a.operands == b.operands && a.imm == b.imm;
}

std::string FloatText(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[40];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof(buffer), "%.*g", digits, v);
    if (std::strtod(buffer, nullptr) == v) break;
  }
  if (std::strpbrk(buffer, ".en") == nullptr) std::strcat(buffer, ".0");
  return buffer;
}

std::string ConstText(const ScalarInstr& in) {
  if (in.type == DType::kBool) return in.imm.i != 0 ? "true" : "false";
  return absl::StrCat(IsInt(in.type) ? absl::StrCat(in.imm.i) : FloatText(in.imm.f), ":", TypeText(in.type));
}

// --- parsing ---

// Reads the form that ToString prints, and infix + - * / whose numbers take the other operand's type.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<ScalarFn> Parse() {
    SMELT_RETURN_IF_ERROR(Expect("("));
    while (!Accept(")")) {
      if (!fn_.arg_types.empty()) SMELT_RETURN_IF_ERROR(Expect(","));
      const std::string name = Word();
      if (name.empty()) return Error("expected an argument's name");
      SMELT_RETURN_IF_ERROR(Expect(":"));
      SMELT_ASSIGN_OR_RETURN(DType t, ReadType());
      ScalarInstr in;
      in.op = ScalarOp::kArg;
      in.type = t;
      in.imm.i = static_cast<int64_t>(fn_.arg_types.size());
      fn_.arg_types.push_back(t);
      SMELT_RETURN_IF_ERROR(Define(name, Push(in)));
    }
    SMELT_RETURN_IF_ERROR(Expect("->"));
    SMELT_RETURN_IF_ERROR(Expect("{"));
    while (true) {
      const std::string name = Word();
      if (name == "return") break;
      if (name.empty()) return Error("expected a name or return");
      SMELT_RETURN_IF_ERROR(Expect("="));
      SMELT_ASSIGN_OR_RETURN(Operand v, Sum());
      SMELT_ASSIGN_OR_RETURN(int id, Fix(v, std::nullopt));
      SMELT_RETURN_IF_ERROR(Define(name, id));
      SMELT_RETURN_IF_ERROR(Expect(";"));
    }
    while (!Accept(";")) {
      if (!fn_.results.empty()) SMELT_RETURN_IF_ERROR(Expect(","));
      SMELT_ASSIGN_OR_RETURN(Operand v, Sum());
      SMELT_ASSIGN_OR_RETURN(int id, Fix(v, std::nullopt));
      fn_.results.push_back(id);
    }
    SMELT_RETURN_IF_ERROR(Expect("}"));
    Skip();
    if (at_ != text_.size()) return Error("text after the function");
    SMELT_RETURN_IF_ERROR(VerifyScalarFn(fn_));
    return std::move(fn_);
  }

 private:
  // A value, or a number that has no type yet.
  struct Operand {
    int id = -1;
    bool is_float = false;
    int64_t i = 0;
    double f = 0;
  };

  absl::Status Error(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("scalar function: at \"", text_.substr(at_, 20), "\": ", what));
  }
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Accept(absl::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  absl::Status Expect(absl::string_view token) {
    return Accept(token) ? absl::OkStatus() : Error(absl::StrCat("expected ", token));
  }
  std::string Word() {
    Skip();
    size_t end = at_;
    if (end < text_.size() && (absl::ascii_isalpha(text_[end]) || text_[end] == '_')) {
      while (end < text_.size() && (absl::ascii_isalnum(text_[end]) || text_[end] == '_')) ++end;
    }
    std::string w(text_.substr(at_, end - at_));
    at_ = end;
    return w;
  }
  absl::StatusOr<DType> ReadType() {
    const std::string w = Word();
    for (const TypeNameEntry& e : kTypeNames) {
      if (w == e.name) return e.type;
    }
    return Error(absl::StrCat("no type is called \"", w, "\""));
  }
  int Push(const ScalarInstr& in) {
    fn_.instrs.push_back(in);
    return static_cast<int>(fn_.instrs.size()) - 1;
  }
  absl::Status Define(const std::string& name, int id) {
    if (!names_.emplace(name, id).second) return Error(absl::StrCat("\"", name, "\" is defined twice"));
    return absl::OkStatus();
  }
  absl::StatusOr<int> Fix(const Operand& v, std::optional<DType> type) {
    if (v.id >= 0) return v.id;
    if (!type) type = v.is_float ? DType::kFloat32 : DType::kInt64;
    ScalarInstr in;
    in.type = *type;
    if (IsInt(*type)) {
      if (v.is_float) return Error("a floating-point number where an integer is needed");
      in.imm.i = WrapInt(*type, v.i);
    } else {
      in.imm.f = RoundFloat(*type, v.is_float ? v.f : static_cast<double>(v.i));
    }
    return Push(in);
  }
  absl::StatusOr<Operand> Binary(ScalarOp op, Operand a, Operand b) {
    std::optional<DType> t;
    if (a.id >= 0) t = fn_.instrs[a.id].type;
    if (b.id >= 0) t = fn_.instrs[b.id].type;
    ScalarInstr in;
    in.op = op;
    SMELT_ASSIGN_OR_RETURN(in.operands[0], Fix(a, t));
    SMELT_ASSIGN_OR_RETURN(in.operands[1], Fix(b, t));
    in.type = fn_.instrs[in.operands[0]].type;
    return Operand{Push(in)};
  }
  absl::StatusOr<Operand> Sum() {
    if (++depth_ > 100) return Error("nested too deep");
    SMELT_ASSIGN_OR_RETURN(Operand a, Product());
    while (true) {
      Skip();
      const bool plus = at_ < text_.size() && text_[at_] == '+', minus = at_ < text_.size() && text_[at_] == '-';
      if (!plus && !minus) break;
      ++at_;
      SMELT_ASSIGN_OR_RETURN(Operand b, Product());
      SMELT_ASSIGN_OR_RETURN(a, Binary(plus ? ScalarOp::kAdd : ScalarOp::kSub, a, b));
    }
    --depth_;
    return a;
  }
  absl::StatusOr<Operand> Product() {
    SMELT_ASSIGN_OR_RETURN(Operand a, Atom());
    while (true) {
      const bool times = Accept("*"), over = !times && Accept("/");
      if (!times && !over) return a;
      SMELT_ASSIGN_OR_RETURN(Operand b, Atom());
      SMELT_ASSIGN_OR_RETURN(a, Binary(times ? ScalarOp::kMul : ScalarOp::kDiv, a, b));
    }
  }
  absl::StatusOr<Operand> Number(bool negative) {
    Skip();
    size_t end = at_;
    bool is_float = false;
    Operand v;
    if (text_.substr(at_, 3) == "inf" || text_.substr(at_, 3) == "nan") {
      v.is_float = true;
      v.f = text_[at_] == 'i' ? std::numeric_limits<double>::infinity() : std::nan("");
      end = at_ + 3;
    } else {
      while (end < text_.size() && (absl::ascii_isalnum(text_[end]) || text_[end] == '.' ||
                                    ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] == 'e')))) {
        if (!absl::ascii_isdigit(text_[end])) is_float = true;
        ++end;
      }
      const absl::string_view digits = text_.substr(at_, end - at_);
      v.is_float = is_float;
      // The sign belongs to the digits: -2^63 has no positive counterpart.
      const std::string all = absl::StrCat(negative ? "-" : "", digits);
      if (is_float ? !absl::SimpleAtod(all, &v.f) : !absl::SimpleAtoi(all, &v.i)) return Error("not a number");
      negative = false;
    }
    if (negative) v.f = -v.f;
    at_ = end;
    if (Accept(":")) {
      SMELT_ASSIGN_OR_RETURN(DType t, ReadType());
      SMELT_ASSIGN_OR_RETURN(int id, Fix(v, t));
      return Operand{id};
    }
    return v;
  }
  absl::StatusOr<Operand> Atom() {
    if (Accept("(")) {
      SMELT_ASSIGN_OR_RETURN(Operand v, Sum());
      SMELT_RETURN_IF_ERROR(Expect(")"));
      return v;
    }
    const bool negative = Accept("-");
    Skip();
    if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) return Number(negative);
    const size_t start = at_;
    const std::string name = Word();
    if (name == "inf" || name == "nan") {
      at_ = start;
      return Number(negative);
    }
    Operand v;
    if (name == "true" || name == "false") {
      ScalarInstr in;
      in.type = DType::kBool;
      in.imm.i = name == "true";
      v.id = Push(in);
    } else if (Accept("(")) {
      SMELT_ASSIGN_OR_RETURN(v, Call(name));
    } else {
      auto it = names_.find(name);
      if (it == names_.end()) return Error(absl::StrCat("\"", name, "\" is not defined"));
      v.id = it->second;
    }
    if (negative) {
      ScalarInstr in;
      in.op = ScalarOp::kNeg;
      in.type = fn_.instrs[v.id].type;
      in.operands[0] = v.id;
      v.id = Push(in);
    }
    return v;
  }
  absl::StatusOr<Operand> Call(const std::string& name) {
    int op = -1;
    for (int i = 0; i < static_cast<int>(ScalarOp::kNumOps); ++i) {
      if (name == kNames[i]) op = i;
    }
    if (op <= static_cast<int>(ScalarOp::kConst)) return Error(absl::StrCat("no function is called \"", name, "\""));
    ScalarInstr in;
    in.op = static_cast<ScalarOp>(op);
    std::vector<Operand> args;
    std::optional<DType> type;
    const bool select = in.op == ScalarOp::kSelect;
    while (!Accept(")")) {
      if (!args.empty()) SMELT_RETURN_IF_ERROR(Expect(","));
      SMELT_ASSIGN_OR_RETURN(Operand v, Sum());
      args.push_back(v);
      if (v.id >= 0 && !(select && args.size() == 1)) type = fn_.instrs[v.id].type;
    }
    if (static_cast<int>(args.size()) != NumOperands(in.op)) {
      return Error(absl::StrCat(name, " takes ", NumOperands(in.op), " operands, not ", args.size()));
    }
    for (size_t i = 0; i < args.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(in.operands[i], Fix(args[i], select && i == 0 ? DType::kBool : type));
    }
    const DType first = fn_.instrs[in.operands[select ? 1 : 0]].type;
    const bool predicate =
        IsComparison(in.op) || in.op == ScalarOp::kIsNan || in.op == ScalarOp::kIsInf || in.op == ScalarOp::kSignbit;
    in.type = predicate ? DType::kBool : first;
    if (in.op == ScalarOp::kCast) {
      SMELT_RETURN_IF_ERROR(Expect(":"));
      SMELT_ASSIGN_OR_RETURN(in.type, ReadType());
    }
    return Operand{Push(in)};
  }

  absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  ScalarFn fn_;
  std::map<std::string, int> names_;
};

}  // namespace

const char* Name(ScalarOp op) { return kNames[static_cast<int>(op)]; }

int NumOperands(ScalarOp op) {
  switch (op) {
    case ScalarOp::kArg:
    case ScalarOp::kConst:
      return 0;
    case ScalarOp::kFma:
    case ScalarOp::kSelect:
      return 3;
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
    case ScalarOp::kDivTrunc:
    case ScalarOp::kDivFloor:
    case ScalarOp::kRemTrunc:
    case ScalarOp::kRemFloor:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
    case ScalarOp::kPow:
    case ScalarOp::kAtan2:
    case ScalarOp::kHypot:
    case ScalarOp::kCopysign:
    case ScalarOp::kNextAfter:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
      return 2;
    default:
      return 1;
  }
}

bool IsExact(ScalarOp op) {
  if (op == ScalarOp::kPow || op == ScalarOp::kAtan2 || op == ScalarOp::kHypot) return false;
  return op <= ScalarOp::kRsqrt;
}

bool ScalarImm::operator==(const ScalarImm& o) const { return i == o.i && std::memcmp(&f, &o.f, sizeof(f)) == 0; }

std::string ScalarFn::ToString() const {
  std::vector<std::string> names(instrs.size());
  std::string text = "(", body;
  std::vector<std::string> arg_names(arg_types.size());
  for (size_t i = 0; i < arg_types.size(); ++i) {
    arg_names[i] = absl::StrCat("a", i);
    absl::StrAppend(&text, i > 0 ? ", " : "", arg_names[i], ": ", TypeText(arg_types[i]));
  }
  int count = 0;
  for (size_t i = 0; i < instrs.size(); ++i) {
    const ScalarInstr& in = instrs[i];
    if (in.op == ScalarOp::kArg) {
      names[i] = arg_names[in.imm.i];
    } else if (in.op == ScalarOp::kConst) {
      names[i] = ConstText(in);
    } else {
      names[i] = absl::StrCat("v", count++);
      absl::StrAppend(&body, names[i], " = ", Name(in.op), "(");
      for (int k = 0; k < NumOperands(in.op); ++k) absl::StrAppend(&body, k > 0 ? ", " : "", names[in.operands[k]]);
      absl::StrAppend(&body, ")", in.op == ScalarOp::kCast ? absl::StrCat(": ", TypeText(in.type)) : "", "; ");
    }
  }
  absl::StrAppend(&text, ") -> { ", body, "return ");
  for (size_t i = 0; i < results.size(); ++i) absl::StrAppend(&text, i > 0 ? ", " : "", names[results[i]]);
  return text + "; }";
}

int ScalarBuilder::Arg(DType t) {
  ScalarInstr in;
  in.op = ScalarOp::kArg;
  in.type = t;
  in.imm.i = static_cast<int64_t>(fn_.arg_types.size());
  fn_.arg_types.push_back(t);
  fn_.instrs.push_back(in);
  return static_cast<int>(fn_.instrs.size()) - 1;
}

namespace {
int Intern(ScalarFn& fn, const ScalarInstr& in) {
  for (size_t i = 0; i < fn.instrs.size(); ++i) {
    if (fn.instrs[i].op != ScalarOp::kArg && SameInstr(fn.instrs[i], in)) return static_cast<int>(i);
  }
  fn.instrs.push_back(in);
  return static_cast<int>(fn.instrs.size()) - 1;
}
}  // namespace

int ScalarBuilder::Const(DType t, double v) {
  if (IsInt(t)) return ConstInt(t, FloatToInt(t, v));
  ScalarInstr in;
  in.type = t;
  in.imm.f = RoundFloat(t, v);
  return Intern(fn_, in);
}

int ScalarBuilder::ConstInt(DType t, int64_t v) {
  ScalarInstr in;
  in.type = t;
  if (!IsInt(t)) {
    in.imm.f = t == DType::kFloat64 ? static_cast<double>(v) : RoundFloat(t, static_cast<float>(v));
  } else {
    in.imm.i = WrapInt(t, v);
  }
  return Intern(fn_, in);
}

int ScalarBuilder::Op(ScalarOp op, DType t, int a, int b, int c) {
  ScalarInstr in;
  in.op = op;
  in.type = t;
  in.operands = {a, b, c};
  const int n = NumOperands(op);
  bool constant = true;
  ScalarValue values[3];
  for (int k = 0; k < n; ++k) {
    SMELT_CHECK(in.operands[k] >= 0 && in.operands[k] < static_cast<int>(fn_.instrs.size()))
        << Name(op) << " operand " << k;
    const ScalarInstr& operand = fn_.instrs[in.operands[k]];
    if (operand.op != ScalarOp::kConst) {
      constant = false;
    } else if (IsInt(operand.type)) {
      values[k].i = operand.imm.i;
    } else {
      values[k].f = operand.imm.f;
    }
  }
  for (int k = n; k < 3; ++k) in.operands[k] = -1;
  const DType from = fn_.instrs[a].type;
  // Other functions of constants are left to the kernel.
  if (constant && (IsInt(t) || IsExact(op))) {
    bool by_zero = false;
    const ScalarValue v = EvalInstr(in, from, values, &by_zero);
    if (!by_zero) {
      ScalarInstr folded;
      folded.type = t;
      if (IsInt(t)) {
        folded.imm.i = v.i;
      } else {
        // The sign of a NaN that an invalid operation makes is the machine's.
        folded.imm.f = std::isnan(v.f) ? std::numeric_limits<double>::quiet_NaN() : v.f;
      }
      return Intern(fn_, folded);
    }
  }
  if (op == ScalarOp::kCast && from == t) return a;
  if (op == ScalarOp::kSelect && in.operands[1] == in.operands[2]) return in.operands[1];
  return Intern(fn_, in);
}

int ScalarBuilder::Cast(int a, DType t) {
  if (TypeOf(a) == t) return a;
  return Op(ScalarOp::kCast, t, a);
}

std::vector<int> ScalarBuilder::Inline(const ScalarFn& f, const std::vector<int>& args) {
  SMELT_CHECK_EQ(f.arg_types.size(), args.size());
  std::vector<int> map(f.instrs.size());
  for (size_t i = 0; i < f.instrs.size(); ++i) {
    const ScalarInstr& in = f.instrs[i];
    auto operand = [&](int k) { return in.operands[k] < 0 ? -1 : map[in.operands[k]]; };
    if (in.op == ScalarOp::kArg) {
      map[i] = args[in.imm.i];
    } else if (in.op == ScalarOp::kConst) {
      map[i] = Intern(fn_, in);
    } else {
      map[i] = Op(in.op, in.type, operand(0), operand(1), operand(2));
    }
  }
  std::vector<int> results;
  for (int r : f.results) results.push_back(map[r]);
  return results;
}

ScalarFn ScalarBuilder::Finish(std::vector<int> results) {
  // Only used instructions remain; arguments remain too, since they are positions.
  std::vector<bool> used(fn_.instrs.size(), false);
  for (int r : results) used[r] = true;
  for (int i = static_cast<int>(fn_.instrs.size()) - 1; i >= 0; --i) {
    if (fn_.instrs[i].op == ScalarOp::kArg) used[i] = true;
    if (!used[i]) continue;
    for (int o : fn_.instrs[i].operands) {
      if (o >= 0) used[o] = true;
    }
  }
  ScalarFn out;
  out.arg_types = fn_.arg_types;
  std::vector<int> map(fn_.instrs.size(), -1);
  for (size_t i = 0; i < fn_.instrs.size(); ++i) {
    if (!used[i]) continue;
    ScalarInstr in = fn_.instrs[i];
    for (int& o : in.operands) {
      if (o >= 0) o = map[o];
    }
    map[i] = static_cast<int>(out.instrs.size());
    out.instrs.push_back(in);
  }
  for (int r : results) out.results.push_back(map[r]);
  fn_ = ScalarFn();
  return out;
}

absl::StatusOr<ScalarFn> ParseScalarFn(absl::string_view text) { return Parser(text).Parse(); }

absl::Status VerifyScalarFn(const ScalarFn& f) {
  auto error = [](size_t i, const ScalarInstr& in, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("scalar function: instruction ", i, " (", Name(in.op), "): ", what));
  };
  for (DType t : f.arg_types) {
    if (!IsReal(t)) return absl::InvalidArgumentError("scalar function: a complex argument");
  }
  for (size_t i = 0; i < f.instrs.size(); ++i) {
    const ScalarInstr& in = f.instrs[i];
    if (in.op >= ScalarOp::kNumOps) return absl::InvalidArgumentError("scalar function: no such operation");
    const int n = NumOperands(in.op);
    for (int k = 0; k < 3; ++k) {
      if (k < n ? in.operands[k] < 0 || in.operands[k] >= static_cast<int>(i) : in.operands[k] != -1) {
        return error(i, in, absl::StrCat("operand ", k, " is ", in.operands[k]));
      }
    }
    if (!IsReal(in.type)) return error(i, in, "a complex result");
    auto type = [&](int k) { return f.instrs[in.operands[k]].type; };
    const bool half = OpMathType(in.type) != in.type;
    if (in.op == ScalarOp::kArg) {
      if (in.imm.i < 0 || in.imm.i >= static_cast<int64_t>(f.arg_types.size()) || f.arg_types[in.imm.i] != in.type) {
        return error(i, in, "no such argument of that type");
      }
    } else if (in.op == ScalarOp::kConst || in.op == ScalarOp::kCast) {
    } else if (IsComparison(in.op)) {
      if (in.type != DType::kBool || type(0) != type(1))
        return error(i, in, "operands of two types, or the result is not bool");
    } else if (in.op == ScalarOp::kSelect) {
      if (type(0) != DType::kBool || type(1) != in.type || type(2) != in.type) return error(i, in, "wrong types");
    } else if (in.op == ScalarOp::kIsNan || in.op == ScalarOp::kIsInf || in.op == ScalarOp::kSignbit) {
      if (in.type != DType::kBool) return error(i, in, "the result is not bool");
    } else {
      if (half) return error(i, in, "arithmetic in a dtype of 16 or 8 bits");
      for (int k = 0; k < n; ++k) {
        if (type(k) != in.type) return error(i, in, "operands are not of the result's type");
      }
      const bool integer = IsInt(in.type);
      const bool bits = in.op >= ScalarOp::kAnd && in.op <= ScalarOp::kShr;
      const bool both = in.op == ScalarOp::kAdd || in.op == ScalarOp::kSub || in.op == ScalarOp::kMul ||
                        in.op == ScalarOp::kDivTrunc || in.op == ScalarOp::kDivFloor || in.op == ScalarOp::kRemTrunc ||
                        in.op == ScalarOp::kRemFloor || in.op == ScalarOp::kNeg || in.op == ScalarOp::kAbs ||
                        in.op == ScalarOp::kMin || in.op == ScalarOp::kMax || in.op == ScalarOp::kFMin ||
                        in.op == ScalarOp::kFMax || in.op == ScalarOp::kPow;
      if (!both && bits != integer) return error(i, in, integer ? "an integer result" : "a floating-point result");
    }
  }
  for (int r : f.results) {
    if (r < 0 || r >= static_cast<int>(f.instrs.size()))
      return absl::InvalidArgumentError("scalar function: no such result");
  }
  if (f.results.empty()) return absl::InvalidArgumentError("scalar function: no result");
  return absl::OkStatus();
}

std::vector<ScalarValue> EvaluateScalarFn(const ScalarFn& f, const std::vector<ScalarValue>& args,
                                          bool* division_by_zero) {
  SMELT_CHECK_EQ(f.arg_types.size(), args.size());
  // Reused, because the evaluator calls this once per element.
  thread_local std::vector<ScalarValue> values;
  values.resize(f.instrs.size());
  for (size_t i = 0; i < f.instrs.size(); ++i) {
    const ScalarInstr& in = f.instrs[i];
    if (in.op == ScalarOp::kArg) {
      values[i] = args[in.imm.i];
      continue;
    }
    ScalarValue operands[3];
    const int n = NumOperands(in.op);
    for (int k = 0; k < n; ++k) operands[k] = values[in.operands[k]];
    values[i] = EvalInstr(in, n > 0 ? f.instrs[in.operands[0]].type : in.type, operands, division_by_zero);
  }
  std::vector<ScalarValue> results;
  results.reserve(f.results.size());
  for (int r : f.results) results.push_back(values[r]);
  return results;
}

}  // namespace smelt
