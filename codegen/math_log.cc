#include "smelt/codegen/math_log.h"

#include <iterator>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/math_tables.h"

namespace smelt {

using llvm::Value;

void Logarithms::SplitLog(Value* x, Value** m, Value** k) {
  // Subnormal numbers are scaled to normal ones, whose exponents in the bits may then be negative.
  Value* tiny = Lt(x, K(is_double_ ? 0x1p-1022 : 0x1p-126));
  Value* raised = Bits(Mul(x, K(is_double_ ? 0x1p54 : 0x1p25)));
  raised = b_.CreateSub(raised, KI(int64_t{is_double_ ? 54 : 25} << mantissa_));
  Value* bits = Select(tiny, raised, Bits(x));
  // Subtracting sqrt(1/2)'s bits rounds the exponent so that the mantissa falls around 1.
  Value* rounded = b_.CreateSub(bits, KI(is_double_ ? 0x3fe6a09e667f3bcd : 0x3f3504f3));
  Value* exponent;
  if (is_double_) {
    exponent = b_.CreateAShr(rounded, mantissa_);
    *m = FromBits(b_.CreateSub(bits, b_.CreateShl(exponent, mantissa_)));
  } else {
    exponent = b_.CreateAnd(rounded, KI(-(int64_t{1} << mantissa_)));
    *m = FromBits(b_.CreateSub(bits, exponent));
  }
  *k = FromInt(exponent);
}

Value* Logarithms::LogEdges(Value* x, Value* y) {
  Value* negative = Neg(Inf());
  y = Select(Eq(x, K(0)), negative, y);
  y = Select(Eq(x, Inf()), Inf(), y);
  return Select(b_.CreateFCmpULT(x, K(0)), Nan(), y);
}

Value* Logarithms::LogCore(Value* f, Value* k, Value* c) {
  const double unit = is_double_ ? 1 : 0x1p-23;  // of k
  const double high = unit * (is_double_ ? 0x1.62e42feep-1 : 0x1.63p-1);
  const double low = unit * (is_double_ ? 0x1.a39ef35793c76p-33 : -0x1.bd0106p-13);
  if (is_double_) {
    Value* s = Div(f, Add(f, K(2)));
    Value* z = Mul(s, s);
    Value* half = Mul(Mul(f, f), K(0.5));
    Value* r = Mul(z, Poly2(z, kLog64));
    Value* fma = c ? Fma(k, K(low), c) : Mul(k, K(low));
    Value* tail = Fma(s, Add(half, r), fma);
    Value* difference = Sub(f, Sub(half, tail));
    return Add(Mul(k, K(high)), difference);
  }
  Value* z = Mul(f, f);
  Value* cube = Mul(z, f);
  // NEON's fmla overwrites the summand, so each constant summand is copied: every second one here.
  Value* p = Mul(cube, f_.neon ? PolyPairs(f, z, {std::begin(kLog32), std::end(kLog32)}) : Poly(f, kLog32));
  Value* tail = Fma(k, K(low), p);
  if (c) tail = Add(tail, c);
  tail = Fma(z, K(-0.5), tail);
  return Fma(k, K(high), Add(f, tail));
}

Value* Logarithms::Log(Value* x) {
  Value *m, *k;
  SplitLog(x, &m, &k);
  return LogEdges(x, LogCore(Sub(m, K(1)), k, nullptr));
}

Value* Logarithms::LogOf(Value* x, double scale, double unit) {
  Value *m, *k;
  SplitLog(x, &m, &k);
  Value* y = LogCore(Sub(m, K(1)), K(0), nullptr);
  return LogEdges(x, Fma(k, K(unit), Mul(y, K(scale))));
}

Value* Logarithms::Log1p(Value* x) {
  Value* u = Add(x, K(1));
  Value *m, *k;
  SplitLog(u, &m, &k);
  // The part that rounding 1 + x lost, from whichever of the two is smaller.
  Value* difference = Sub(x, Sub(u, K(1)));
  Value* second = Sub(K(1), Sub(u, x));
  Value* lost = Select(Gt(x, K(1)), second, difference);
  Value* c = Div(lost, u);
  Value* y = LogCore(Sub(m, K(1)), k, c);
  y = Select(Eq(u, Inf()), Inf(), y);
  Value* negative = Neg(Inf());
  y = Select(Eq(x, K(-1)), negative, y);
  y = Select(b_.CreateFCmpULT(x, K(-1)), Nan(), y);
  return Select(Lt(Abs(x), K(is_double_ ? 0x1p-54 : 0x1p-25)), x, y);
}

void Logarithms::Log2Wide(Value* x, Value** high, Value** low) {
  Value *m, *k;
  SplitLog(x, &m, &k);
  Value* f = Sub(m, K(1));
  // s = f / (2 + f) in two parts; 2 + f itself may need two.
  Value *d, *d_low;
  FastTwoSum(K(2), f, &d, &d_low);
  Value* s = Div(f, d);
  Value *p, *e;
  TwoProduct(s, d, &p, &e);
  Value* product = Mul(s, d_low);
  Value* s_low = Div(Sub(Sub(Sub(f, p), e), product), d);
  // log(m) = 2 s + s^3 (2/3 + z Q(z))
  Value *z, *z_low;
  TwoProduct(s, s, &z, &z_low);
  z_low = Fma(Add(s, s), s_low, z_low);
  Value* q = Mul(z, Poly2(z, kLogWide64));
  Value *a, *a_low;  // 2/3 + q
  FastTwoSum(K(2.0 / 3), q, &a, &a_low);
  a_low = Add(a_low, K(2.0 / 3 * 0x1p-54));  // what 2/3 lost: 2^-53 / 3
  Value *t, *t_low;                          // z * a
  TwoProduct(z, a, &t, &t_low);
  t_low = Add(t_low, Fma(z, a_low, Mul(z_low, a)));
  Value *v, *v_low;  // 2 + z * a
  FastTwoSum(K(2), t, &v, &v_low);
  v_low = Add(v_low, t_low);
  Value *l, *l_low;  // s * v = log(m)
  TwoProduct(s, v, &l, &l_low);
  l_low = Add(l_low, Fma(s, v_low, Mul(s_low, v)));
  // times log2(e), in two parts
  constexpr double kLow = 2.0355273740931033e-17;
  Value *g, *g_low;
  TwoProduct(l, K(kLog2e), &g, &g_low);
  g_low = Add(g_low, Fma(l, K(kLow), Mul(l_low, K(kLog2e))));
  Value *h, *h_low;
  TwoSum(k, g, &h, &h_low);
  FastTwoSum(h, Add(h_low, g_low), high, low);
}

Value* Logarithms::Pow(Value* x, Value* y) {
  Value* a = Abs(x);
  Value* is_less = Lt(a, Inf());
  Value* a_ok = And(Gt(a, K(0)), is_less);
  Value *h, *l;
  Log2Wide(Select(a_ok, a, K(1)), &h, &l);
  // y * log2|x| in two parts; outside of (-1100, 1100) the result is 0 or infinity.
  Value* yc = AtLeast(AtMost(y, 0x1p1000), -0x1p1000);
  Value *p, *e;
  Value* y_small = Select(Lt(Abs(yc), K(0x1p70)), yc, K(0));
  TwoProduct(h, y_small, &p, &e);
  e = Fma(l, y_small, e);
  Value* rough = Mul(h, yc);
  Value* inside = Lt(Abs(rough), K(1100));
  p = Select(inside, p, K(0));
  e = Select(inside, e, K(0));
  Value* n = Rint(p);
  Value* f = Add(Sub(p, n), e);
  Value* r = Mul(f, K(kLn2));
  Value* poly = Poly2(r, kExp64);
  Value* q = Fma(Mul(r, r), poly, r);
  Value* z = Scale(Add(q, K(1)), n);
  z = Select(inside, z, Select(Gt(rough, K(0)), Inf(), K(0)));
  return PowEdges(x, y, z);
}

Value* Logarithms::PowForFloat(Value* x, Value* y) {
  Value* a = Abs(x);
  Value* is_less = Lt(a, Inf());
  Value* a_ok = And(Gt(a, K(0)), is_less);
  Value *m, *k;
  SplitLog(Select(a_ok, a, K(1)), &m, &k);
  Value* log = Fma(LogCore(Sub(m, K(1)), K(0), nullptr), K(kLog2e), k);
  Value* p = AtLeast(AtMost(Mul(log, AtLeast(AtMost(y, 0x1p1000), -0x1p1000)), 200), -200);
  Value* n = Rint(p);
  Value* r = Mul(Sub(p, n), K(kLn2));
  Value* sum = Add(r, K(1));
  Value* poly = Poly2(r, kExp32);
  return PowEdges(x, y, Scale(Fma(Mul(r, r), poly, sum), n));
}

Value* Logarithms::PowEdges(Value* x, Value* y, Value* z) {
  Value* a = Abs(x);
  Value* is_less = Lt(a, Inf());
  Value* a_ok = And(Gt(a, K(0)), is_less);
  // |x| that is 0 or infinite: to a positive power itself, to a negative one the inverse.
  Value* positive = Gt(y, K(0));
  Value* grows = b_.CreateICmpEQ(Eq(a, Inf()), positive);
  z = Select(a_ok, z, Select(grows, Inf(), K(0)));
  // Negative x: y must be an integer; odd ones keep the sign.
  Value* y_integer = Eq(Floor(y), y);
  Value* half = Mul(y, K(0.5));
  Value* second = Lt(Abs(y), K(0x1p53));
  Value* y_odd = And(y_integer, And(b_.CreateFCmpUNE(Floor(half), half), second));
  Value* negative = b_.CreateICmpSLT(Bits(x), KI(0));
  Value* second2 = Neg(z);
  z = Select(And(negative, y_odd), second2, z);
  Value* negated = b_.CreateNot(y_integer);
  Value* is_greater = Gt(x, Neg(Inf()));
  Value* bad = And(And(Lt(x, K(0)), is_greater), negated);
  z = Select(bad, Nan(), z);
  Value* is_equal = Eq(Abs(y), Inf());
  z = Select(And(Eq(a, K(1)), is_equal), K(1), z);
  z = Select(b_.CreateFCmpUNO(x, y), Nan(), z);
  Value* second3 = Eq(x, K(1));
  return Select(Or(Eq(y, K(0)), second3), K(1), z);
}

Value* Logarithms::Asinh(Value* x) {
  Value* a = Abs(x);
  Value* z = Mul(a, a);
  Value* y = Log1p(Add(a, Div(z, Add(Sqrt(Add(z, K(1))), K(1)))));
  Value* sum = Add(Log(a), K(kLn2));
  y = Select(Gt(a, K(0x1p28)), sum, y);
  return CopySign(y, x);
}

Value* Logarithms::Acosh(Value* x) {
  Value* t = Sub(x, K(1));
  Value* y = Log1p(Add(t, Sqrt(Fma(t, t, Add(t, t)))));
  Value* sum = Add(Log(x), K(kLn2));
  y = Select(Gt(x, K(0x1p28)), sum, y);
  return Select(b_.CreateFCmpULT(x, K(1)), Nan(), y);
}

Value* Logarithms::Atanh(Value* x) {
  Value* a = Abs(x);
  Value* difference = Sub(K(1), a);
  Value* y = Mul(K(0.5), Log1p(Div(Add(a, a), difference)));
  return CopySign(y, x);
}

}  // namespace smelt
