// The reductions and scans of a CUDA kernel: accumulators in the registers of a thread, which the threads of a block
// combine through shuffles and shared memory.
//
//   CudaReductions reductions(f, spec);
//   reductions.Begin(phase);
//   f.For(..., [&](llvm::Value* k) { ...; reductions.Accumulate(i, values); });
//   reductions.End(phase, CudaReductions::Scope::kBlock, values);   // values[i] is the result, in all threads
//
// Invariants: an accumulator exists from the Begin of its phase on. The tree in which a block combines its threads is
// fixed, so that the bits of a result depend on nothing but the elements.
#ifndef SMELT_CODEGEN_CUDA_REDUCTIONS_H_
#define SMELT_CODEGEN_CUDA_REDUCTIONS_H_

#include <functional>
#include <utility>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "smelt/codegen/cuda_function.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

class CudaReductions {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // Threads that reduce together. A column is the threads of equal lane in the warps of a block.
  enum class Scope { kThread, kWarp, kColumn, kBlock };

  CudaReductions(CudaFunction& f, const KernelSpec& spec);

  void Begin(const KernelPhase& phase);
  // Adds the operands of instruction `i`; for a scan, sets values[i] to the result so far.
  void Accumulate(int i, std::vector<Value*>& values);
  // Adds the operands that are side by side, values[u] of the u-th; not for scans.
  void AccumulateAdjacent(int i, std::vector<std::vector<Value*>>& values);
  // Sets the values of the phase's reductions: those of all elements of the scope's threads. Combine and then Finish.
  void End(const KernelPhase& phase, Scope scope, std::vector<Value*>& values);
  void Combine(const KernelPhase& phase, Scope scope);
  void Finish(const KernelPhase& phase, std::vector<Value*>& values);
  // Writes what Combine has combined as partial result number `number` of the workspace.
  void WritePartial(const KernelPhase& phase, Value* number);
  // Adds a partial result of the workspace.
  void AccumulatePartial(const KernelPhase& phase, Value* number);
  // Returns the largest int64 among the threads of the block, in all of them.
  Value* LargestOfBlock(Value* v);

 private:
  // A running reduction or scan. Floating point sums carry what rounding lost, so that their error does not grow with
  // the length; scans run in double, as PyTorch's cumsum and the interpreter do.
  struct Accumulator {
    AllocaInst* value = nullptr;
    AllocaInst* lost = nullptr;   // of a sum
    AllocaInst* index = nullptr;  // of argmin, argmax
  };
  using Candidate = std::pair<Value*, Value*>;  // a value, and its index or null

  DType Element(const KernelInstr& in) const { return s_.instrs[in.operands[0]].type; }
  // Returns the dtype of a reduction's accumulator.
  DType Kept(const KernelInstr& in) const;
  Value* Identity(ReduceKind kind, DType t);
  static bool IsCompensated(const KernelInstr& in, DType t);
  Value* Combine(ReduceKind kind, DType t, Value* a, Value* z);
  // Returns whether z is to be taken out of two candidates (value, index): NaN wins, and among equals the lower index.
  Value* Better(ReduceKind kind, DType t, const Candidate& a, const Candidate& z);
  Candidate Merge(const KernelInstr& in, DType t, const Candidate& a, const Candidate& z);
  // Adds to the accumulator of instruction `i`, whose value it returns.
  Value* Add(int i, const Candidate& x);
  // The first thread of the warp gets the result.
  Candidate AcrossWarp(const KernelInstr& in, DType t, Candidate mine);
  // All threads get the result.
  Candidate AcrossBlock(const KernelInstr& in, DType t, const Candidate& mine);
  Candidate AcrossColumn(const KernelInstr& in, DType t, const Candidate& mine);
  // Merges the candidates in the slots of shared memory, in order.
  Candidate MergeSlots(const KernelInstr& in, DType t, const Candidate& like, int count,
                       const std::function<Value*(Value* number, int which)>& slot);
  Value* PartialAddress(const KernelPhase& phase, Value* number, int word);
  Value* ToWord(Value* v);
  Value* FromWord(Value* word, Type* type);
  // Returns the value of another thread of the warp: `distance` further, or the first one.
  Value* Down(Value* v, int distance);
  Value* OfFirst(Value* v);
  Value* Shuffle(llvm::Intrinsic::ID id, Value* v, int lane);

  CudaFunction& f_;
  const KernelSpec& s_;
  llvm::IRBuilder<>& b_;
  ScalarEmitter& scalar_;
  Type *const i64_, *const i32_;
  llvm::GlobalVariable* of_warps_ = nullptr;    // shared: a word per warp, twice
  llvm::GlobalVariable* of_threads_ = nullptr;  // shared: a word per thread, twice
  std::vector<Accumulator> accumulators_;
  std::vector<Candidate> combined_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_REDUCTIONS_H_
