#include "smelt/codegen/math_exp.h"

#include <iterator>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/math_tables.h"

namespace smelt {

using llvm::Value;

namespace {

constexpr double kLn2High32 = 0x1.63p-1, kLn2Low32 = -0x1.bd0106p-13;
// The exponential of anything less is 0.
constexpr double kLowestExp32 = -104;

}  // namespace

void Exponentials::ReduceLn2(Value* x, Value** n, Value** r) {
  *n = Rint(Mul(x, K(kLog2e)));
  // The first part has few bits, so that its product with n is exact even without fma.
  const double high = is_double_ ? 0x1.62e42feep-1 : kLn2High32;
  const double low = is_double_ ? 0x1.a39ef35793c76p-33 : kLn2Low32;
  *r = Fma(*n, K(-high), x);
  *r = Fma(*n, K(-low), *r);
}

void Exponentials::RoundWithPower(Value* x, double c, int k, Value** n, Value** power) {
  Value* shift = K(0x1.8p23 + 127 + k);
  Value* sum = c == 1 ? Add(x, shift) : Fma(x, K(c), shift);
  *n = Sub(sum, shift);
  *power = FromBits(b_.CreateShl(Bits(sum), mantissa_));
}

Value* Exponentials::ExpTail(Value* r) { return is_double_ ? Poly2(r, kExp64) : Poly(r, kExp32); }

Value* Exponentials::ExpByScaling(Value* x) {
  // 2^(n + r). log2 e is two floats: with one alone x * log2 e would be off by 1e-6 where x is far from 0.
  constexpr double kHigh = 0x1.715476p0, kLow = kLog2e - kHigh;
  Value* shift = K(0x1.8p23);
  Value* n = Sub(Fma(x, K(kHigh), shift), shift);
  Value* r = Fma(x, K(kLow), Fma(x, K(kHigh), Neg(n)));
  Value* power = Fma(Poly(r, kPower32), r, K(1));
  Value* scale = Scale(power, n);
  return Select(Lt(x, K(kLowestExp32)), K(0), scale);
}

Value* Exponentials::ExpByHalves(Value* x) {
  // The exponential of -104.5 is rounded to 0. The last bits of the sum are those of n + 254, so those of its halves are
  // exponents with their bias.
  Value* a = AtLeast(x, -104.5);
  Value* shift = K(0x1.8p23 + 254);
  Value* sum = Fma(a, K(kLog2e), shift);
  Value* n = Sub(sum, shift);
  Value* r = Fma(n, K(-kLn2High32), a);
  r = Fma(n, K(-kLn2Low32), r);
  Value* z = Mul(r, r);
  Value* power = Add(Fma(PolyPairs(r, z, {std::begin(kExp32), std::end(kExp32)}), z, r), K(1));
  Value* bits = Bits(sum);
  Value* half = b_.CreateLShr(bits, 1);
  Value* rest = b_.CreateSub(bits, half);
  Value* scaled = Mul(power, FromBits(b_.CreateShl(half, mantissa_)));
  return Mul(scaled, FromBits(b_.CreateShl(rest, mantissa_)));
}

Value* Exponentials::ExpAtMostHuge(Value* x) {
  if (!is_double_ && ScalesByInstruction()) return ExpByScaling(x);
  if (!is_double_ && f_.neon) return ExpByHalves(x);
  Value *n, *r;
  const double lowest = is_double_ ? -746 : kLowestExp32;
  ReduceLn2(AtLeast(x, lowest), &n, &r);
  Value* tail = ExpTail(r);
  Value* p = Fma(Mul(r, r), tail, r);
  // Results that end as 0 are set to 0 before scaling. Intel's processors take some 150 cycles for a result that
  // underflows, and in masked rows (a causal softmax) half of the results would.
  Value* sum = Add(p, K(1));
  return Scale(Select(Lt(x, K(lowest)), K(0), sum), n);
}

Value* Exponentials::ScaledExp(Value* r) {
  std::vector<double> c(std::begin(kExp32), std::end(kExp32));
  for (double& v : c) v *= 0x1p-24;
  Value* z = Mul(r, r);
  Value* fma = Fma(r, K(0x1p-24), K(0x1p-24));
  return Fma(PolyPairs(r, z, c), z, fma);
}

Value* Exponentials::ExpAtMostZero(Value* x) {
  if (!MakesPowersByRounding()) return ExpAtMostHuge(x);
  // Results that end as 0 have n = -151, whose power is 0, so nothing underflows on the way.
  Value* a = AtLeast(x, -104.5);
  Value *n, *power;
  RoundWithPower(a, kLog2e, 24, &n, &power);
  Value* r = Fma(n, K(-kLn2High32), a);
  r = Fma(n, K(-kLn2Low32), r);
  return Mul(ScaledExp(r), power);
}

Value* Exponentials::Exp2(Value* x) {
  Value* clamped = AtLeast(AtMost(x, is_double_ ? 1025 : 129), is_double_ ? -1080 : -151);
  Value* n = Rint(clamped);
  Value* f = Sub(clamped, n);
  Value* r = Mul(f, K(kLn2));
  Value* tail = ExpTail(r);
  Value* p = Fma(Mul(r, r), tail, r);
  return Scale(Add(p, K(1)), n);
}

Value* Exponentials::Expm1Core(Value* x) {
  Value *n, *r;
  ReduceLn2(x, &n, &r);
  Value* q = is_double_ ? Poly2(r, kExpm164) : Poly(r, kExpm132);
  Value* p = Fma(Mul(r, r), q, r);
  Value* half = PowerOfTwo(b_.CreateSub(ToInt(n), KI(1)));
  Value* y = Fma(half, p, Sub(half, K(0.5)));
  return Add(y, y);
}

Value* Exponentials::Expm1(Value* x) {
  Value* clamped = AtLeast(AtMost(x, is_double_ ? 709.79 : 88.73), is_double_ ? -40 : -20);
  Value* y = Expm1Core(clamped);
  y = Select(Gt(x, K(is_double_ ? 709.782712893384 : 88.722839)), Inf(), y);
  return Select(Lt(Abs(x), K(is_double_ ? 0x1p-54 : 0x1p-25)), x, y);
}

Value* Exponentials::Sigmoid32(Value* x) {
  // 2^-24 / (2^-24 + 2^-24 e^-x): 2^-24 e^-x overflows nowhere before the result is 0, and above 30 it is nothing
  // beside 2^-24. NaN passes through.
  Value* a = AtMost(AtLeast(x, -104.5), 30);
  Value *n, *power;
  RoundWithPower(a, -kLog2e, -24, &n, &power);
  Value* r = Fma(n, K(kLn2High32), a);  // of -x, negated
  r = Fma(n, K(kLn2Low32), r);
  std::vector<double> c(std::begin(kExp32), std::end(kExp32));
  for (size_t i = 1; i < c.size(); i += 2) c[i] = -c[i];
  Value* z = Mul(r, r);
  Value* negative = Neg(r);
  Value* p = Fma(PolyPairs(r, z, c), z, negative);  // e^-r - 1
  return Div(K(0x1p-24), Fma(p, power, Add(power, K(0x1p-24))));
}

Value* Exponentials::Sigmoid(Value* x) {
  if (!is_double_) return Sigmoid32(x);
  // e^-|x| <= 1: nothing overflows, and small results keep their bits. NaN passes through.
  Value* e = ExpAtMostHuge(Neg(Abs(x)));
  Value* top = Select(Lt(x, K(0)), e, K(1));
  return Div(top, Add(e, K(1)));
}

Value* Exponentials::Power2Less1(Value* r) {
  // The first coefficient is added last, where the rest is small: its rounding is the only one that counts.
  Value* q = PolyPairs(r, Mul(r, r), {std::begin(kPower32) + 1, std::end(kPower32)});
  return Mul(r, Fma(q, r, K(kPower32[0])));
}

Value* Exponentials::Tanh32(Value* x) {
  // u / (2 - u) with u = 1 - e^(-2|x|) = 1 - 2^(n + r), which is never negative.
  Value* a = AtMost(Abs(x), 10);
  Value *n, *power;
  RoundWithPower(a, -2 * kLog2e, 0, &n, &power);
  // The product's constant is rounded to float, by which 2^r is 1e-7 of itself off near |x| = 10, where it is nothing
  // beside 1.
  Value* r = Fma(a, K(-2 * kLog2e), Neg(n));
  Value* h = Power2Less1(r);
  Value* difference = Sub(K(1), power);
  Value* u = Fma(Neg(power), h, difference);
  return CopySign(Div(u, Sub(K(2), u)), x);
}

Value* Exponentials::Tanh(Value* x) {
  if (!is_double_) return Tanh32(x);
  // t / (2 + t) with t = e^(-2|x|) - 1; the sign is that of x.
  Value* a = Mul(AtMost(Abs(x), 20), K(-2));
  Value *n, *r;
  ReduceLn2(a, &n, &r);
  Value* poly = Poly2(r, kExpm164);
  Value* p = Fma(Mul(r, r), poly, r);
  // 2^n (1 + p) - 1
  Value* power = f_.avx512 ? Scale(K(1), n) : PowerOfTwo(ToInt(Select(IsNan(x), K(0), n)));
  Value* t = Fma(power, p, Sub(power, K(1)));
  return CopySign(Div(t, Add(t, K(2))), x);
}

Value* Exponentials::Sinh(Value* x) {
  Value* a = Abs(x);
  Value* e = Expm1(a);
  Value* y = Mul(K(0.5), Add(e, Div(e, Add(e, K(1)))));
  Value* h = Exp(Mul(a, K(0.5)));
  Value* product = Mul(Mul(h, K(0.5)), h);
  y = Select(Gt(a, K(700)), product, y);
  return CopySign(y, x);
}

Value* Exponentials::Cosh(Value* x) {
  Value* a = Abs(x);
  Value* h = Exp(Mul(a, K(0.5)));
  Value* e = Exp(a);
  Value* quotient = Div(K(0.5), e);
  Value* y = Add(Mul(e, K(0.5)), quotient);
  Value* product = Mul(Mul(h, K(0.5)), h);
  return Select(Gt(a, K(700)), product, y);
}

}  // namespace smelt
