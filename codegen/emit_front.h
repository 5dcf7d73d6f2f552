// The first lanes of a short vector, read and written in words, for machines without masks for its elements.
//
// Invariant: the accesses may overlap each other, but touch nothing besides the first `ctx.count` elements.
#ifndef SMELT_CODEGEN_EMIT_FRONT_H_
#define SMELT_CODEGEN_EMIT_FRONT_H_

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/loop_context.h"

namespace smelt {

class FrontEmitter {
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  explicit FrontEmitter(KernelFunction& fn) : fn_(fn), b_(fn.b()) {}

  // Returns whether a vector is accessed so.
  bool InWords(const LoopContext& ctx, DType type, Value* guard) const;
  // Loads the first elements at a, each of `item` bytes, in at most 16 bytes; zero beyond.
  Value* LoadFront(const LoopContext& ctx, Type* type, Value* a, int item);
  void StoreFront(const LoopContext& ctx, Value* v, Value* a, int item);

 private:
  // Loads the first `bytes` at a, 1 to 8 and a multiple of `item`, as a number; zero beyond.
  Value* LoadBytes(Value* a, Value* bytes, int item);
  void StoreBytes(Value* word, Value* a, Value* bytes, int item);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_FRONT_H_
