// Exponentials, and what is made of them: sigmoid, tanh, sinh, cosh.
#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/math_emitter.h"
#include "smelt/codegen/math_tables.h"

namespace smelt {

using llvm::Value;

void MathEmitter::ReduceLn2(Value* x, Value** n, Value** r) {
  *n = Rint(Mul(x, K(kLog2e)));
  // The first part has few bits, so that its product with n is exact even without fma.
  const double high = is_double_ ? 0x1.62e42feep-1 : 0x1.63p-1;
  const double low = is_double_ ? 0x1.a39ef35793c76p-33 : -0x1.bd0106p-13;
  *r = Fma(*n, K(-high), x);
  *r = Fma(*n, K(-low), *r);
}

Value* MathEmitter::ExpTail(Value* r) { return is_double_ ? Poly2(r, kExp64) : Poly(r, kExp32); }

Value* MathEmitter::ExpAtMostHuge(Value* x) {
  Value *n, *r;
  const double lowest = is_double_ ? -746 : -104.5;
  ReduceLn2(AtLeast(x, lowest), &n, &r);
  Value* p = Fma(Mul(r, r), ExpTail(r), r);
  // What is 0 in the end is so before it is scaled: Intel's processors take some 150 cycles to a result that
  // underflows, and in masked rows (a causal softmax) half of them would.
  return Scale(Select(Lt(x, K(lowest)), K(0), Add(p, K(1))), n);
}

Value* MathEmitter::Exp2(Value* x) {
  Value* clamped = AtLeast(AtMost(x, is_double_ ? 1025 : 129), is_double_ ? -1080 : -151);
  Value* n = Rint(clamped);
  Value* f = Sub(clamped, n);
  Value* r = Mul(f, K(kLn2));
  Value* p = Fma(Mul(r, r), ExpTail(r), r);
  return Scale(Add(p, K(1)), n);
}

Value* MathEmitter::Expm1Core(Value* x) {
  Value *n, *r;
  ReduceLn2(x, &n, &r);
  Value* q = is_double_ ? Poly2(r, kExpm164) : Poly(r, kExpm132);
  Value* p = Fma(Mul(r, r), q, r);
  Value* half = PowerOfTwo(b_.CreateSub(ToInt(n), KI(1)));
  Value* y = Fma(half, p, Sub(half, K(0.5)));
  return Add(y, y);
}

Value* MathEmitter::Expm1(Value* x) {
  Value* clamped = AtLeast(AtMost(x, is_double_ ? 709.79 : 88.73), is_double_ ? -40 : -20);
  Value* y = Expm1Core(clamped);
  y = Select(Gt(x, K(is_double_ ? 709.782712893384 : 88.722839)), Inf(), y);
  return Select(Lt(Abs(x), K(is_double_ ? 0x1p-54 : 0x1p-25)), x, y);
}

Value* MathEmitter::Sigmoid(Value* x) {
  // e^-|x| <= 1: nothing overflows, and small results keep their bits. NaN goes through all of it.
  Value* e = ExpAtMostHuge(Neg(Abs(x)));
  Value* top = Select(Lt(x, K(0)), e, K(1));
  return Div(top, Add(e, K(1)));
}

Value* MathEmitter::Tanh(Value* x) {
  // t / (2 + t) with t = e^(-2|x|) - 1; the sign is that of x.
  Value* a = Mul(AtMost(Abs(x), is_double_ ? 20 : 10), K(-2));
  Value *n, *r;
  ReduceLn2(a, &n, &r);
  Value* q = is_double_ ? Poly2(r, kExpm164) : Poly(r, kExpm132);
  Value* p = Fma(Mul(r, r), q, r);
  // 2^n (1 + p) - 1
  Value* power = f_.avx512 ? Scale(K(1), n) : PowerOfTwo(ToInt(Select(IsNan(x), K(0), n)));
  Value* t = Fma(power, p, Sub(power, K(1)));
  return CopySign(Div(t, Add(t, K(2))), x);
}

Value* MathEmitter::Sinh(Value* x) {
  Value* a = Abs(x);
  Value* e = Expm1(a);
  Value* y = Mul(K(0.5), Add(e, Div(e, Add(e, K(1)))));
  Value* h = Exp(Mul(a, K(0.5)));
  y = Select(Gt(a, K(700)), Mul(Mul(h, K(0.5)), h), y);
  return CopySign(y, x);
}

Value* MathEmitter::Cosh(Value* x) {
  Value* a = Abs(x);
  Value* h = Exp(Mul(a, K(0.5)));
  Value* e = Exp(a);
  Value* y = Add(Mul(e, K(0.5)), Div(K(0.5), e));
  return Select(Gt(a, K(700)), Mul(Mul(h, K(0.5)), h), y);
}

}  // namespace smelt
