// Elements two, three or four apart along a loop: the parts of complex numbers, points, colors. The vectors between the
// first and the last element are read and written in order.
//
// Invariant: memory between the elements is never written, and none behind the last element is read.
#ifndef SMELT_CODEGEN_EMIT_APART_H_
#define SMELT_CODEGEN_EMIT_APART_H_

#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/loop_context.h"

namespace smelt {

class ApartEmitter {
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  explicit ApartEmitter(KernelFunction& fn) : fn_(fn), b_(fn.b()) {}

  // Returns for each of `vectors` neighbouring vectors a mask of the lanes that are among the first `count` of all.
  std::vector<Value*> MasksOf(const LoopContext& ctx, int vectors, Value* count);
  // Returns whether whole vectors are loaded, and the elements at distance `apart` are extracted from them.
  bool LoadsWholes(const LoopContext& ctx, Type* element, int64_t apart) const;
  Value* LoadApart(const LoopContext& ctx, Type* type, Value* a, int64_t apart);
  void StoreApart(const LoopContext& ctx, Value* value, Value* a, Type* element, int64_t apart);

 private:
  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_APART_H_
