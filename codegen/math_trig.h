// Sine, cosine, tangent and their inverses. Arguments that need unbounded work (sin of 1e30) are computed by a loop over
// the vector's lanes. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_MATH_TRIG_H_
#define SMELT_CODEGEN_MATH_TRIG_H_

#include <functional>

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/float_emitter.h"
#include "smelt/core/op/scalar.h"

namespace smelt {

class Trigonometry : public FloatEmitter {
 public:
  using FloatEmitter::FloatEmitter;
  explicit Trigonometry(const FloatEmitter& type) : FloatEmitter(type) {}

  // Sine, cosine or tangent, of double.
  Value* SinCosTan64(ScalarOp op, Value* x);
  // The same of float, with fma: pi/2 in three parts of float; arguments beyond their range are computed in double.
  Value* SinCosTan32(ScalarOp op, Value* x);

  // Arc sine or arc cosine.
  Value* ArcSine(ScalarOp op, Value* x);
  Value* Atan(Value* x) { return CopySign(AtanPositive(Abs(x)), x); }
  // For double only: for float, the quotient in double is exact enough.
  Value* Atan2(Value* y, Value* x);

 private:
  // Calls body(lane number) for every lane that is set in `lanes`; later code sees what it stores to memory.
  void ForSetLanes(Value* lanes, const std::function<void(Value*)>& body);
  llvm::AllocaInst* Memory(Type* t);

  // double reduce(double a, ptr quadrant): for a >= 2^20, returns a minus the nearest multiple of pi/2, and stores the
  // number of the multiple mod 4.
  llvm::Function* ReduceLarge();

  // Replaces lanes of r and q (doubles and int64) where |x| is large; x is a double.
  void FixLarge(Value* large, Value* x, Value** r, Value** q);

  // Computes x minus the nearest multiple q of pi/2, for sin, cos and tan; in double.
  void ReducePi(Value* x, Value** r, Value** q);

  // Returns atan of a >= 0, where a is v / w (w null: v), by thirds of the quarter circle.
  Value* AtanPositive(Value* a);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_MATH_TRIG_H_
