// The error function and its inverse, the logarithm of the gamma function and its derivative. Internal to codegen:
// includes LLVM.
#ifndef SMELT_CODEGEN_MATH_SPECIAL_H_
#define SMELT_CODEGEN_MATH_SPECIAL_H_

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/float_emitter.h"
#include "smelt/codegen/math_exp.h"
#include "smelt/codegen/math_log.h"

namespace smelt {

class SpecialFunctions : public FloatEmitter {
 public:
  using FloatEmitter::FloatEmitter;
  explicit SpecialFunctions(const FloatEmitter& type) : FloatEmitter(type) {}

  // Returns 1 - 2^u with u = a P(a) = log2(erfc(a)). u is in [-26, 0], and small where a is small, so that nothing
  // cancels: with n the nearest integer to u and q = 2^(u - n) - 1, it is (1 - 2^n) - 2^n q. NaN passes through all
  // steps.
  Value* Erf32(Value* x);
  Value* Erf64(Value* x);
  Value* Erfc64(Value* x);
  Value* Erfinv32(Value* x);
  Value* Erfinv(Value* x);

  Value* Lgamma(Value* x);
  // Computes in double, for a result that is rounded to float.
  Value* LgammaForFloat(Value* x);
  Value* Digamma(Value* x);

 private:
  Value* Exp(Value* x) { return Exponentials(*this).Exp(x); }
  Value* Log(Value* x) { return Logarithms(*this).Log(x); }
  Value* Log1p(Value* x) { return Logarithms(*this).Log1p(x); }

  // Returns erfc(a) for a >= 0.
  Value* ErfcPositive(Value* a);
  // ln|sin(pi x)| / pi needs sin(pi x), for double x.
  Value* SinPi(Value* x);
  // Returns log Gamma(x), x > 0.
  Value* LgammaPositive(Value* x);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_MATH_SPECIAL_H_
