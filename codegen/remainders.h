// Remainders, the length of a vector of two, and the next number: functions of two arguments that are exact or nearly.
// Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_REMAINDERS_H_
#define SMELT_CODEGEN_REMAINDERS_H_

#include <functional>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/float_emitter.h"

namespace smelt {

class Remainders : public FloatEmitter {
 public:
  using FloatEmitter::FloatEmitter;
  explicit Remainders(const FloatEmitter& type) : FloatEmitter(type) {}

  Value* Hypot(Value* x, Value* y);

  Value* NextAfter(Value* x, Value* y);

  // C's fmod of floats, exactly, in double: each iteration subtracts a multiple of y of at most 27 bits.
  Value* Fmod32(Value* x, Value* y);
  // The same for double, with integers: 11 bits of the quotient per iteration.
  Value* Fmod64(Value* x, Value* y);

 private:
  // Loops body(state) while some lane needs another iteration; the state is in phis. body returns the next state and
  // whether a lane needs another iteration.
  void While(std::vector<Value*>& state, const std::function<Value*(std::vector<Value*>&)>& body);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_REMAINDERS_H_
