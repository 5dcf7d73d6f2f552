// The reductions and scans of a CUDA kernel: accumulators in the registers of a thread, which the threads of a block
// combine through shuffles and shared memory.
//
//   CudaReductions reductions(f, spec);
//   reductions.Begin(phase);
//   f.For(..., [&](llvm::Value* k) { ...; reductions.Accumulate(i, values); });
//   reductions.End(phase, /*block=*/true, values);   // values[i] is the result, in all threads
//
// Invariants: an accumulator exists from the Begin of its phase on. The tree in which a block combines its threads is
// fixed, so that the bits of a result depend on nothing but the elements.
#ifndef SMELT_CODEGEN_CUDA_REDUCTIONS_H_
#define SMELT_CODEGEN_CUDA_REDUCTIONS_H_

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
  CudaReductions(CudaFunction& f, const KernelSpec& spec);

  // Makes the shared memory of a block, without which only threads reduce.
  void ShareAmongBlock();
  void Begin(const KernelPhase& phase);
  // Adds the operands of instruction `i`; for a scan, sets values[i] to the result so far.
  void Accumulate(int i, std::vector<Value*>& values);
  // Sets the values of the phase's reductions: those of the thread's elements, or of all elements of the block.
  void End(const KernelPhase& phase, bool block, std::vector<Value*>& values);
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
  // All threads get the result.
  Candidate AcrossBlock(const KernelInstr& in, DType t, Value* value, Value* index);
  Value* ToWord(Value* v);
  Value* FromWord(Value* word, Type* type);
  // Returns the value of the thread `distance` further in the warp.
  Value* Down(Value* v, int distance);

  CudaFunction& f_;
  const KernelSpec& s_;
  llvm::IRBuilder<>& b_;
  ScalarEmitter& scalar_;
  Type *const i64_, *const i32_;
  llvm::GlobalVariable* shared_ = nullptr;  // a word per warp, twice
  std::vector<Accumulator> accumulators_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_REDUCTIONS_H_
