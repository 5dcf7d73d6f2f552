// Exponentials, and functions made of them. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_MATH_EXP_H_
#define SMELT_CODEGEN_MATH_EXP_H_

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/float_emitter.h"

namespace smelt {

class Exponentials : public FloatEmitter {
 public:
  using FloatEmitter::FloatEmitter;
  explicit Exponentials(const FloatEmitter& type) : FloatEmitter(type) {}

  // Beyond the limits the result is 0 or infinity anyway.
  Value* Exp(Value* x) { return ExpAtMostHuge(AtMost(x, is_double_ ? 710 : 89)); }
  // For x that is not above the overflow limit.
  Value* ExpAtMostHuge(Value* x);
  Value* Exp2(Value* x);
  Value* Expm1(Value* x);
  Value* Sigmoid(Value* x);
  Value* Tanh(Value* x);
  Value* Sinh(Value* x);
  Value* Cosh(Value* x);
  // For x <= 0 or NaN.
  Value* ExpAtMostZero(Value* x);

  // --- for functions that are made of powers of two ---

  // Returns whether exp and erf also compute 2^n from the last bits of the sum that rounds to n (RoundWithPower), as
  // sigmoid and tanh do: for float, if a machine has no scalef, and fma.
  bool MakesPowersByRounding() const { return !is_double_ && (f_.IsAvx2Only() || f_.neon); }
  // Computes the integer n nearest to x * c, |n| < 2^22, and 2^(n + k), with n + k within [-127, 127]; -127 gives 0.
  // Next to 1.5 * 2^23 the last bit of a float is worth 1: the bits of the sum are those of n, and with a bias those of
  // an exponent. For float.
  void RoundWithPower(Value* x, double c, int k, Value** n, Value** power);
  // 2^r - 1, |r| <= 1/2, float.
  Value* Power2Less1(Value* r);

 private:
  // x = n ln 2 + r, |r| <= ln 2 / 2.
  void ReduceLn2(Value* x, Value** n, Value** r);
  // (e^r - 1 - r) / r^2
  Value* ExpTail(Value* r);

  // The same in the fewest instructions, for float if the machine scales by an instruction.
  Value* ExpByScaling(Value* x);
  // The same for float if the machine has fma: 2^n is the product of two powers that are made by rounding.
  Value* ExpByHalves(Value* x);
  // Returns 2^-24 (e^x / 2^n), for x = n ln 2 + r, so that 2^(n + 24), by which it is multiplied, is a normal number or
  // 0.
  Value* ScaledExp(Value* r);
  // Returns expm1 for x within (-2 mantissas, overflow): 2^n * (e^r - 1) + (2^n - 1), with all terms halved so that 2^n
  // cannot overflow.
  Value* Expm1Core(Value* x);
  Value* Sigmoid32(Value* x);
  Value* Tanh32(Value* x);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_MATH_EXP_H_
