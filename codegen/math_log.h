// Logarithms, powers, and the inverse hyperbolic functions. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_MATH_LOG_H_
#define SMELT_CODEGEN_MATH_LOG_H_

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/float_emitter.h"

namespace smelt {

class Logarithms : public FloatEmitter {
 public:
  using FloatEmitter::FloatEmitter;
  explicit Logarithms(const FloatEmitter& type) : FloatEmitter(type) {}

  Value* Log(Value* x);
  // Returns scale * log(m) + k * unit, in double.
  Value* LogOf(Value* x, double scale, double unit);
  Value* Log1p(Value* x);

  Value* Pow(Value* x, Value* y);
  // Computes in double, for a result that is rounded to float.
  Value* PowForFloat(Value* x, Value* y);

  Value* Asinh(Value* x);
  Value* Acosh(Value* x);
  Value* Atanh(Value* x);

 private:
  // x = m * 2^k with m in [sqrt(1/2), sqrt(2)), x positive and finite; k as floating point, of floats times 2^23, which
  // saves shifting it.
  void SplitLog(Value* x, Value** m, Value** k);
  // Returns log(x) for an x that is not a positive number, else y.
  Value* LogEdges(Value* x, Value* y);
  // Returns log(1 + f) plus k ln 2, k as SplitLog gives it; c is a correction to f.
  Value* LogCore(Value* f, Value* k, Value* c);
  // Computes log2(x) as a sum of two doubles, to about 2^-68, for positive finite x.
  void Log2Wide(Value* x, Value** high, Value** low);
  // Returns x to the y if x or y is not a positive finite number; else z.
  Value* PowEdges(Value* x, Value* y, Value* z);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_MATH_LOG_H_
