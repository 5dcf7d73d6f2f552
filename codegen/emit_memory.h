// The loads and stores of a kernel's instructions: as a vector, lane by lane, masked, guarded, past the cache.
//
// Invariants: an access touches exactly the elements of the active lanes whose guard holds. If a body serves whole
// vectors and parts of them (`ctx.whole`), the access is emitted for both, in two branches.
#ifndef SMELT_CODEGEN_EMIT_MEMORY_H_
#define SMELT_CODEGEN_EMIT_MEMORY_H_

#include <functional>
#include <vector>

#include "smelt/codegen/emit_apart.h"
#include "smelt/codegen/emit_front.h"
#include "smelt/codegen/emit_lanes.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/values.h"

namespace smelt {

class MemoryEmitter {
  using Value = llvm::Value;

 public:
  MemoryEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values)
      : fn_(fn),
        b_(fn.b()),
        plan_(plan),
        s_(plan.spec),
        words_(words),
        values_(values),
        lane_(fn, plan),
        front_(fn),
        apart_(fn) {}

  Value* EmitLoad(const LoopContext& ctx, const KernelInstr& in, int u);
  // Loads a vector in the order of memory. Each lane has its own guard, if there is one.
  Value* LoadVector(const LoopContext& ctx, const KernelInstr& in, int u, Value* offset, Value* guard);
  // Sets the values of instruction i, a load of bfloat16, in copies u (the even elements) and u + 1 (the odd ones).
  void LoadEvenOdd(const LoopContext& ctx, int i, int u);
  // Stores all copies; non-temporally or not, if the launch decides that.
  void EmitStores(const LoopContext& ctx, const KernelInstr& in, int copies);
  // Stores all copies of both of a pair: together, where their elements are adjacent in memory.
  void EmitInterleaved(const LoopContext& ctx, const KernelInstr& first, const KernelInstr& second, int copies);

  // Emits the access for a whole vector and for the active lanes, and selects one, if the loop body serves both.
  Value* WholeOrPart(const LoopContext& ctx, const std::function<Value*(const LoopContext&)>& access);
  std::vector<Value*> WholesOrParts(const LoopContext& ctx,
                                    const std::function<std::vector<Value*>(const LoopContext&)>& accesses);

 private:
  Value* LoadAdjacent(const LoopContext& ctx, const KernelInstr& in, Value* a, Value* guard);
  // Moves terms of `offsets` that are equal in all lanes to the address.
  void AddCommonTerms(const KernelInstr& in, int u, Value*& a, Value*& offsets);
  void EmitStore(const LoopContext& ctx, const KernelInstr& in, int u);
  void StorePair(const LoopContext& ctx, const KernelInstr& in, int u);
  void StoreEvenOdd(const LoopContext& ctx, const KernelInstr& in, int u);
  Value* EvenOddWords(const LoopContext& ctx, int i, int u);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  LaneEmitter lane_;
  FrontEmitter front_;
  ApartEmitter apart_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_MEMORY_H_
