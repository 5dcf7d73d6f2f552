// The function of a CPU kernel while it is emitted: its arguments, control flow and variables, and small computations on
// scalars and vectors.
//
//   KernelFunction fn(module, features, /*gathers=*/false, "kernel");
//   ... loads from the parameter block ...
//   fn.EnterBody();
//   fn.For(fn.begin(), fn.end(), fn.b().getInt64(1), [&](llvm::Value* tile) { ... });
//   fn.Finish();
//
// There is no IR optimization pipeline: loop-carried state is in variables that Finish promotes to registers, and
// everything else is emitted in its final form.
//
// Invariants: the entry block holds only allocas and values that follow from the parameter block, and it dominates
// everything else. The builder stands in a block without a terminator, both before and after each method except Finish.
#ifndef SMELT_CODEGEN_KERNEL_FUNCTION_H_
#define SMELT_CODEGEN_KERNEL_FUNCTION_H_

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/cpu_features.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// The alignment of an element; a boolean in memory is a byte.
inline llvm::Align AlignOf(llvm::Type* element) {
  return llvm::Align(std::max(1u, element->getScalarSizeInBits() / 8));
}

class KernelFunction {
  using AllocaInst = llvm::AllocaInst;
  using BasicBlock = llvm::BasicBlock;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // Creates the function and stands in its entry. `gathers`: for a machine on which gathering a vector at indices from
  // data is faster than loading it lane by lane.
  KernelFunction(llvm::Module& module, const CpuFeatures& features, bool gathers, const std::string& symbol);
  KernelFunction(const KernelFunction&) = delete;
  KernelFunction& operator=(const KernelFunction&) = delete;

  // Leaves the entry: the body runs only if the launch has tiles.
  void EnterBody();
  // Returns from the kernel with status 1 where `refuses` holds.
  void RefuseIf(Value* refuses);
  // Ends the body, promotes variables and removes repeated computations. Called once, last.
  void Finish();

  llvm::IRBuilder<>& b() { return b_; }
  ScalarEmitter& scalar() { return scalar_; }
  llvm::Module& module() { return m_; }
  const CpuFeatures& features() const { return f_; }
  Value* words() const { return fn_->getArg(0); }
  Value* begin() const { return fn_->getArg(1); }  // the tiles of the launch
  Value* end() const { return fn_->getArg(2); }
  Value* status() const { return fn_->getArg(3); }

  bool gathers() const { return gathers_; }
  // Notes that the code for a machine that gathers would differ.
  void NoteGather() { could_gather_ = true; }
  bool could_gather() const { return could_gather_; }
  // Ends the kernel with a fence, which stores past the cache need.
  void FenceAtEnd() { fences_ = true; }

  // ---- variables and control flow ----

  AllocaInst* Variable(Type* t);
  // Memory for the lanes of a vector, to be indexed at run time.
  AllocaInst* Temporary(Type* t);
  Value* Load(AllocaInst* a) { return b_.CreateLoad(a->getAllocatedType(), a); }
  BasicBlock* Block(const char* name) { return BasicBlock::Create(m_.getContext(), name, fn_); }
  // for (i = from; i < to; i += step) body(i)
  void For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body);
  void While(const std::function<Value*()>& condition, const std::function<void()>& body);
  void If(Value* condition, const std::function<void()>& then);
  // Return what the branch that runs returns, which may be null in both; `then` is likely.
  Value* IfElse(Value* condition, const std::function<Value*()>& then, const std::function<Value*()>& otherwise);
  std::vector<Value*> IfElseOfSome(Value* condition, const std::function<std::vector<Value*>()>& then,
                                   const std::function<std::vector<Value*>()>& otherwise);
  // Sets the kernel's status where `bad` holds, for vectors in a lane of `mask` (null: in any lane).
  void SetStatus(int code, Value* bad, Value* mask);

  // ---- types and values ----

  Type* Vec(Type* t, int lanes) { return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes); }
  Type* MemType(DType t) { return t == DType::kBool ? b_.getInt8Ty() : scalar_.TypeOf(t); }
  // Convert between values and what memory holds: booleans are bytes there.
  Value* FromMemory(DType t, Value* v);
  Value* ToMemory(DType t, Value* v) { return t == DType::kBool ? Widened(v) : v; }
  Value* Widened(Value* v);  // bits as bytes; others as they are
  // Returns `v`, a scalar or already a vector, in all lanes.
  Value* Splat(int lanes, Value* v);
  Value* Min(Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSLT(a, z), a, z); }
  Value* Any(Value* bits);
  Value* All(Value* bits);
  Value* Iota(Type* element, int lanes);
  // Lane k is set iff k < count, 1 <= count <= lanes.
  Value* MaskOf(Value* count, int lanes);
  bool MasksNatively(Type* element) const;

  // ---- memory ----

  Value* PlusOffset(Value* address, DType t, Value* offset) { return b_.CreateGEP(MemType(t), address, offset); }
  void PastCache(llvm::StoreInst* store);  // makes a store non-temporal
  // Prefetches into the nearest cache, or only into the one behind it.
  void Prefetch(Value* at, bool nearest = true);

 private:
  llvm::Module& m_;
  const CpuFeatures& f_;
  const bool gathers_;
  llvm::IRBuilder<> b_;
  ScalarEmitter scalar_;
  llvm::Function* fn_ = nullptr;
  BasicBlock *entry_ = nullptr, *exit_ = nullptr;
  std::vector<AllocaInst*> variables_;
  bool could_gather_ = false, fences_ = false;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_KERNEL_FUNCTION_H_
