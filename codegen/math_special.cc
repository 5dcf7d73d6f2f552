#include "smelt/codegen/math_special.h"

#include <iterator>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/math_tables.h"

namespace smelt {

using llvm::Value;

Value* SpecialFunctions::Erf32(Value* x) {
  if (Exponentials powers(*this); powers.MakesPowersByRounding()) {
    Value* sign = f_.neon ? nullptr : b_.CreateAnd(Bits(x), KI(int64_t{1} << 31));
    Value* a = AtMost(f_.neon ? Abs(x) : FromBits(b_.CreateXor(Bits(x), sign)), 3.95);
    // The first coefficient is added last, as in Power2Less1.
    Value* p = PolyPairs(a, Mul(a, a), {std::begin(kErf32) + 1, std::end(kErf32)});
    Value* u = Mul(a, Fma(p, a, K(kErf32[0])));
    Value *n, *power;
    powers.RoundWithPower(u, 1, 0, &n, &power);
    Value* r = Sub(u, n);
    // Never negative.
    Value* difference = Sub(K(1), power);
    Value* power2_less1 = powers.Power2Less1(r);
    Value* positive = Fma(Neg(power), power2_less1, difference);
    return f_.neon ? CopySign(positive, x) : FromBits(b_.CreateOr(Bits(positive), sign));
  }
  Value* a = AtMost(Abs(x), 3.95);
  Value* u = Mul(a, Poly(a, kErf32));
  Value* n = Rint(u);
  Value* r = Sub(u, n);
  Value* q = Mul(r, Poly(r, kPower32));
  Value* power = f_.avx512 ? Scale(K(1), n) : PowerOfTwo(ToInt(Select(IsNan(x), K(0), n)));
  Value* difference = Sub(K(1), power);
  return CopySign(Fma(Neg(power), q, difference), x);
}

Value* SpecialFunctions::ErfcPositive(Value* a) {
  Value* c = AtMost(a, 28);
  Value* sum = Add(c, K(4));
  Value* t = Div(Sub(c, K(4)), sum);
  Value* p = Poly2(t, kErfc64);
  // e^(-a^2) needs the square to more than double's precision.
  Value *square, *low;
  TwoProduct(c, c, &square, &low);
  Value* e = Exp(Neg(square));
  e = Fma(Neg(low), e, e);
  Value* fma = Fma(K(2), c, K(1));
  return Div(Mul(e, p), fma);
}

Value* SpecialFunctions::Erf64(Value* x) {
  Value* a = Abs(x);
  Value* small = Mul(x, Poly2(Mul(a, a), kErf64));
  Value* large = CopySign(Sub(K(1), ErfcPositive(a)), x);
  return Select(Lt(a, K(1)), small, large);
}

Value* SpecialFunctions::Erfc64(Value* x) {
  Value* a = Abs(x);
  Value* small = Sub(K(1), Mul(x, Poly2(Mul(a, a), kErf64)));
  Value* large = ErfcPositive(a);
  Value* difference = Sub(K(2), large);
  large = Select(Lt(x, K(0)), difference, large);
  return Select(Lt(a, K(0.5)), small, large);
}

Value* SpecialFunctions::Erfinv32(Value* x) {
  Value* a = Abs(x);
  Value* sum = Add(a, K(1));
  Value* w = Neg(Log(Mul(Sub(K(1), a), sum)));
  Value* near = Poly(Sub(w, K(2.5)), kErfinvNear32);
  Value* far = Poly(Sub(Sqrt(w), K(3)), kErfinvFar32);
  Value* y = Mul(Select(Lt(w, K(5)), near, far), x);
  Value* signed_value = CopySign(Inf(), x);
  y = Select(Eq(a, K(1)), signed_value, y);
  return Select(b_.CreateFCmpUGT(a, K(1)), Nan(), y);
}

Value* SpecialFunctions::Erfinv(Value* x) {
  // Winitzki's formula gives a first guess within 2e-3, then Halley's iteration cubes the error each time. Near +-1 the
  // residual is computed from erfc, which does not cancel.
  Value* a = Abs(x);
  Value* rest = Sub(K(1), a);
  Value* l = Log(Mul(rest, Add(a, K(1))));
  Value* c = Fma(l, K(0.5), K(2 / (kPi * 0.147)));
  Value* product = Mul(l, K(1 / 0.147));
  Value* y = Sqrt(Sub(Sqrt(Sub(Mul(c, c), product)), c));
  for (int i = 0; i < 3; ++i) {
    Value* big = Gt(a, K(0.5));
    Value* difference = Sub(Mul(y, Poly2(Mul(y, y), kErf64)), a);
    Value* error = Select(big, Sub(rest, ErfcPositive(y)), difference);
    Value* d = Mul(error, Mul(Exp(Mul(y, y)), K(0.886226925452758013649083741671)));
    // y - d / (1 + y d)
    Value* next = Sub(y, Div(d, Fma(y, d, K(1))));
    y = next;
  }
  y = Select(Eq(a, K(1)), Inf(), y);
  Value* second = Mul(a, K(0.886226925452758013649083741671));
  y = Select(Lt(a, K(0x1p-30)), second, y);
  y = Select(b_.CreateFCmpUGT(a, K(1)), Nan(), y);
  return CopySign(y, x);
}

Value* SpecialFunctions::SinPi(Value* x) {
  Value* n = Rint(Mul(x, K(2)));
  // Large x are integers, or nearly; their fraction is exact.
  Value* f = Sub(x, Mul(n, K(0.5)));
  Value* r = Mul(f, K(kPi));
  Value* z = Mul(r, r);
  Value* poly = Poly2(z, kSin64);
  Value* sine = Fma(Mul(z, r), poly, r);
  Value* fma = Fma(z, K(-0.5), K(1));
  Value* second = Poly2(z, kCos64);
  Value* cosine = Fma(Mul(z, z), second, fma);
  Value* half = Mul(n, K(0.5));
  Value* odd = b_.CreateFCmpUNE(Floor(half), half);
  return Select(odd, cosine, sine);  // the sign does not matter to those who ask
}

Value* SpecialFunctions::LgammaPositive(Value* x) {
  // Gamma(x) = Gamma(x + n) / (x (x + 1) ... ); Stirling's series from 8 on.
  Value* product = K(1);
  Value* y = x;
  for (int i = 0; i < 8; ++i) {
    Value* small = Lt(y, K(8));
    product = Select(small, Mul(product, y), product);
    y = Select(small, Add(y, K(1)), y);
  }
  static constexpr double kStirling[] = {1.0 / 12,         -1.0 / 360,        1.0 / 1260, -1.0 / 1680,
                                         1.0 / 1188,       -691.0 / 360360,   1.0 / 156,  -3617.0 / 122400,
                                         43867.0 / 244188, -174611.0 / 125400};
  Value* inverse = Div(K(1), y);
  Value* z = Mul(inverse, inverse);
  Value* series = Mul(inverse, Poly(z, kStirling));
  Value* l = Log(y);
  // (y - 1/2)(log y - 1) + (log(2 pi) - 1) / 2 + ...
  Value* difference = Sub(l, K(1));
  Value* r = Add(Fma(Sub(y, K(0.5)), difference, K(0.418938533204672741780329736406)), series);
  return Sub(r, Log(product));
}

Value* SpecialFunctions::Lgamma(Value* x) {
  Value* a = Abs(x);
  Value* negative = Lt(x, K(0));
  Value* r = LgammaPositive(Select(negative, Add(a, K(1)), a));
  // Gamma(-a) = -pi / (sin(pi a) Gamma(a + 1))
  Value* reflected = Sub(Sub(K(1.14472988584940017414342735135), Log(Abs(SinPi(a)))), r);
  r = Select(negative, reflected, r);
  Value* is_equal = Eq(Floor(x), x);
  Value* pole = And(b_.CreateFCmpOLE(x, K(0)), is_equal);
  r = Select(pole, Inf(), r);
  r = Select(Eq(a, Inf()), Inf(), r);
  // Around its zeros at 1 and 2 the value is small: from there, lgamma(2 + t) = log(1 + t) + lgamma(1 + t).
  Value* second = Gt(x, K(1.5));
  Value* t = Sub(x, Select(second, K(2), K(1)));
  Value* near = Mul(t, Poly2(t, kLgamma64));
  near = Select(second, Add(Log1p(t), near), near);
  Value* sum = Add(near, K(0));
  r = Select(Lt(Abs(t), K(0.3)), sum, r);  // + 0: not -0
  // Near 0, -log(a) is all of it.
  Value* second2 = Neg(Log(a));
  r = Select(Lt(a, K(0x1p-60)), second2, r);
  return Select(IsNan(x), x, r);
}

Value* SpecialFunctions::LgammaForFloat(Value* x) {
  Value* a = Abs(x);
  Value* negative = Lt(x, K(0));
  // As above. Stirling's series starts at 5, and only the logarithm of y is needed at a time.
  Value* product = K(1);
  Value* y = Select(negative, Add(a, K(1)), a);
  for (int i = 0; i < 5; ++i) {
    Value* small = Lt(y, K(5));
    product = Select(small, Mul(product, y), product);
    y = Select(small, Add(y, K(1)), y);
  }
  static constexpr double kStirling[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  Value* inverse = Div(K(1), y);
  Value* series = Mul(inverse, Poly(Mul(inverse, inverse), kStirling));
  Value* difference = Sub(Log(y), K(1));
  Value* shifted = Add(Fma(Sub(y, K(0.5)), difference, K(0.418938533204672741780329736406)), series);
  Value* second = Gt(x, K(1.5));
  Value* t = Sub(x, Select(second, K(2), K(1)));
  Value* is_near = Lt(Abs(t), K(0.3));
  Value* z = Select(negative, Div(product, Abs(SinPi(a))), product);
  Value* second2 = Sub(x, K(1));
  Value* l = Log(Select(And(is_near, second), second2, z));
  Value* third = Sub(shifted, l);
  Value* r = Select(negative, Add(Sub(K(1.14472988584940017414342735135), shifted), l), third);
  Value* is_equal = Eq(Floor(x), x);
  Value* pole = And(b_.CreateFCmpOLE(x, K(0)), is_equal);
  r = Select(Or(pole, Eq(a, Inf())), Inf(), r);
  Value* near = Mul(t, Poly2(t, kLgamma64));
  near = Select(second, Add(l, near), near);
  r = Select(is_near, Add(near, K(0)), r);  // + 0: not -0
  return Select(IsNan(x), x, r);
}

Value* SpecialFunctions::Digamma(Value* x) {
  // psi(1 - x) - pi / tan(pi x) below 0; the series from 10 on.
  Value* negative = Lt(x, K(0));
  Value* y = Select(negative, Sub(K(1), x), x);
  Value* sum = K(0);
  for (int i = 0; i < 10; ++i) {
    Value* small = Lt(y, K(10));
    sum = Select(small, Add(sum, Div(K(1), y)), sum);
    y = Select(small, Add(y, K(1)), y);
  }
  static constexpr double kSeries[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                       1.0 / 132, -691.0 / 32760, 1.0 / 12};
  Value* inverse = Div(K(1), y);
  Value* z = Mul(inverse, inverse);
  Value* product = Mul(z, Poly(z, kSeries));
  Value* second = Mul(inverse, K(0.5));
  Value* r = Sub(Sub(Sub(Log(y), second), product), sum);
  Value* f = Sub(x, Rint(x));
  Value* t = Mul(f, K(kPi));
  Value* w = Mul(t, t);
  Value* poly = Poly2(w, kSin64);
  Value* sine = Fma(Mul(w, t), poly, t);
  Value* fma = Fma(w, K(-0.5), K(1));
  Value* second2 = Poly2(w, kCos64);
  Value* cosine = Fma(Mul(w, w), second2, fma);
  // |t| may be up to pi/2, beyond the polynomials' pi/4: by the double angle.
  Value* h = Mul(t, K(0.5));
  w = Mul(h, h);
  Value* second3 = Poly2(w, kSin64);
  sine = Fma(Mul(w, h), second3, h);
  Value* third = Fma(w, K(-0.5), K(1));
  Value* second4 = Poly2(w, kCos64);
  cosine = Fma(Mul(w, w), second4, third);
  Value* s = Mul(Mul(K(2), sine), cosine);
  Value* second5 = Add(cosine, sine);
  Value* c = Mul(Sub(cosine, sine), second5);
  Value* cotangent = Div(Mul(c, K(kPi)), s);
  r = Select(negative, Sub(r, cotangent), r);
  Value* pole = And(negative, Eq(Floor(x), x));
  r = Select(pole, Nan(), r);
  Value* signed_value = CopySign(Inf(), Neg(x));
  r = Select(Eq(x, K(0)), signed_value, r);
  r = Select(Eq(x, Inf()), Inf(), r);
  return Select(IsNan(x), x, r);
}

}  // namespace smelt
