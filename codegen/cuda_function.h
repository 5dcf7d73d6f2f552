// The function of a CUDA kernel while it is emitted: its control flow, its threads, and the parameter block of a
// launch.
//
//   CudaFunction f(module, spec, "kernel");
//   f.For(f.thread(), f.Product(0, 1), f.b().getInt64(kCudaBlock), [&](llvm::Value* i) { ... });
//   f.b().CreateRetVoid();
//
// Invariants: the entry block holds only allocas and the values of the parameter block, which dominate everything else.
// The builder stands in a block without a terminator, both before and after each method. Sizes and strides never change
// once the constructor has returned.
#ifndef SMELT_CODEGEN_CUDA_FUNCTION_H_
#define SMELT_CODEGEN_CUDA_FUNCTION_H_

#include <functional>
#include <string>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/lower_scalar.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// LLVM's numbers of the address spaces.
inline constexpr unsigned kCudaGlobal = 1, kCudaShared = 3;

class CudaFunction {
  using AllocaInst = llvm::AllocaInst;
  using BasicBlock = llvm::BasicBlock;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // Creates the function, loads the parameter block, and stands in the body. Returns from the kernel without work where
  // the spec reads at indices into nothing.
  // A function that is no kernel serves a kernel's threads: it takes the words by a pointer, and has no threads() of its
  // own. Others may have written the memory of its params in the same launch.
  CudaFunction(llvm::Module& module, const KernelSpec& spec, const std::string& symbol, bool is_kernel = true);
  CudaFunction(const CudaFunction&) = delete;
  CudaFunction& operator=(const CudaFunction&) = delete;

  llvm::IRBuilder<>& b() { return b_; }
  ScalarEmitter& scalar() { return scalar_; }

  // ---- control flow ----

  AllocaInst* Variable(Type* t);
  Value* Get(AllocaInst* a) { return b_.CreateLoad(a->getAllocatedType(), a); }
  // for (i = from; i < to; i += step) body(i)
  void For(Value* from, Value* to, Value* step, const std::function<void(Value*)>& body);
  void If(Value* condition, const std::function<void()>& then);
  void IfElse(Value* condition, const std::function<void()>& then, const std::function<void()>& otherwise);
  // All threads of the block, or of the warp, wait for each other here.
  void Barrier();
  void WarpBarrier();
  void SetStatus(int code, Value* bad);
  // Returns memory that the threads of a block share: `slots` words.
  llvm::GlobalVariable* Shared(const char* suffix, int slots);

  // ---- threads and tiles ----

  Value* thread() const { return thread_; }  // of the block
  Value* block() const { return block_; }
  Value* blocks() const { return blocks_; }  // of the launch
  Value* begin() const { return begin_; }    // the tiles of the launch
  Value* end() const { return end_; }
  Value* workspace() const { return workspace_; }  // in global memory
  // The function's parameters, as each kernel has them: words, begin, end, status, workspace.
  llvm::Function* function() const { return fn_; }

  // ---- the parameter block ----

  Value* Size(int dim) const { return size_[dim]; }
  Value* Scalar(int n) const { return scalars_[n]; }
  // Returns the number of points of the dims [from, to).
  Value* Product(int from, int to);
  // Sets index[from..to) to the digits of a row-major number.
  void Decompose(Value* number, int from, int to, std::vector<Value*>& index);
  // Returns the distance of a param's elements along a dim in bytes; null if the dim does not matter.
  Value* StrideBytes(int param, int dim) const { return stride_[param][dim]; }
  // Returns the address of a param's element. `offset`, in elements, may be null.
  Value* Address(int param, const std::vector<Value*>& index, Value* offset);
  // Lets a load go past the coherent cache if no launch of this kernel writes its memory.
  void MarkConstant(llvm::LoadInst* load, int param);

 private:
  BasicBlock* Block(const char* name) { return BasicBlock::Create(c_, name, fn_); }
  Value* Register(llvm::Intrinsic::ID id) { return b_.CreateZExt(b_.CreateIntrinsic(id, {}), i64_); }
  Value* Word(Value* words, int n);
  void LoadWords(Value* words);
  void LeaveIfIndexesNothing();
  Value* Math(ScalarOp op, Value* x, Value* y);

  const KernelSpec& s_;
  llvm::Module& m_;
  llvm::LLVMContext& c_;
  llvm::IRBuilder<> b_;
  const CpuFeatures features_;
  ScalarEmitter scalar_;
  Type* const i64_;
  llvm::Function* fn_ = nullptr;
  BasicBlock* entry_ = nullptr;
  Value *begin_ = nullptr, *end_ = nullptr, *workspace_ = nullptr;
  Value *thread_ = nullptr, *block_ = nullptr, *blocks_ = nullptr;
  std::vector<Value*> size_, base_, scalars_;
  std::vector<std::vector<Value*>> stride_;  // bytes; null: the dim does not matter
  std::vector<bool> constant_;               // params that no launch of this kernel may write
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_FUNCTION_H_
