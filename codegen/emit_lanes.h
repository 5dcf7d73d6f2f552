// Accesses to memory lane by lane: of elements whose places are far apart or come from data, or without masks.
//
// Invariants: only active lanes are accessed, and of a guarded access only those whose guard holds; with side effects in
// the order of the lanes.
#ifndef SMELT_CODEGEN_EMIT_LANES_H_
#define SMELT_CODEGEN_EMIT_LANES_H_

#include <functional>
#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/loop_context.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

class LaneEmitter {
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  LaneEmitter(KernelFunction& fn, const Schedule& plan) : fn_(fn), b_(fn.b()), plan_(plan) {}

  // In all methods, `in` is the load or store, lane k's place is a + k * stride bytes + offsets[k] elements, and
  // `offsets` and `guard` may be null.

  // Returns the address of each lane.
  std::vector<Value*> LaneAddresses(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* stride,
                                    Value* offsets);
  // Returns the same as a vector of pointers.
  Value* LaneVector(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* stride, Value* offsets);
  // Returns the lanes that are active and whose guard holds; null: all.
  Value* CombinedMask(const LoopContext& ctx, Value* guard);
  // Processes one lane after the other, in order: body(lane number, address).
  void ForLanes(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* stride, Value* offsets, Value* guard,
                const std::function<void(Value*, Value*)>& body);
  // Other lanes are 0.
  Value* LoadLanes(const LoopContext& ctx, const KernelInstr& in, Type* type, Value* a, Value* stride, Value* offsets,
                   Value* guard);

 private:
  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_LANES_H_
