// The instructions of a kernel at one position of its loops.
//
//   instrs.EmitInstrs(ctx, phase.instrs, copies);   // the body of a loop
//
// Invariants: an instruction whose lanes and copies are all equal is computed once, as a scalar. Loads and stores stay
// in the order of the spec. Hoisted instructions are skipped.
#ifndef SMELT_CODEGEN_EMIT_INSTRS_H_
#define SMELT_CODEGEN_EMIT_INSTRS_H_

#include <vector>

#include "smelt/codegen/emit_memory.h"
#include "smelt/codegen/emit_reductions.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

class InstrEmitter {
  using Value = llvm::Value;

 public:
  InstrEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values,
               ReductionEmitter& reductions)
      : fn_(fn),
        b_(fn.b()),
        plan_(plan),
        s_(plan.spec),
        words_(words),
        values_(values),
        reductions_(reductions),
        memory_(fn, plan, words, values) {}

  // Emits `copies` of each, and sets their values.
  void EmitInstrs(const LoopContext& ctx, const std::vector<int>& instrs, int copies);
  // Returns the value of one of them in copy u; null for a reduction. Not for stores.
  Value* EmitInstr(const LoopContext& ctx, int i, int u);

 private:
  // Loads instrs[from], and others after it, at once; sets which ones in `loaded`.
  void LoadTogether(const LoopContext& ctx, const std::vector<int>& instrs, size_t from, std::vector<bool>& loaded);
  // Computes all copies in one vector.
  void EmitTogether(const LoopContext& ctx, int i, int copies);
  Value* EmitScalar(const LoopContext& ctx, int i, int u);
  Value* EmitScalarOp(const LoopContext& ctx, const KernelInstr& in, const DType* types, Value* const* v, int lanes);
  Value* EmitIndex(const LoopContext& ctx, int dim, int u);
  // Returns the index along the loop's dim of the first lane of copy `u`.
  Value* FirstIndex(const LoopContext& ctx, int u);
  // Compares the index along the loop's dim with a number that is equal in all lanes. Vectors of indices take many
  // registers, so lanes are counted instead. nullptr if it is another comparison.
  Value* CompareLanes(const LoopContext& ctx, const KernelInstr& in, int u);
  // Returns whether instruction `i` is x < 0.
  bool IsNegative(int i, int x) const;
  Value* EmitCheckIndex(const LoopContext& ctx, int i, int u);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  ReductionEmitter& reductions_;
  MemoryEmitter memory_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_INSTRS_H_
