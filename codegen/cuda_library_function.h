// The function of a library kernel while it is emitted. Internal to cuda_library.h. The headers of its subjects emit
// whole functions: cuda_attention.h, cuda_choice.h, cuda_long_order.h, cuda_order.h, cuda_product.h.
#ifndef SMELT_CODEGEN_CUDA_LIBRARY_FUNCTION_H_
#define SMELT_CODEGEN_CUDA_LIBRARY_FUNCTION_H_

#include <functional>
#include <string>
#include <vector>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/cuda_function.h"
#include "smelt/codegen/cuda_term.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

class CudaLibraryFunction {
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // `entry` is the function's name: kernel.Entry(), or that of another stage.
  CudaLibraryFunction(llvm::Module& module, const LibraryKernel& kernel, const std::string& entry);

  llvm::IRBuilder<>& b() { return f_.b(); }
  CudaFunction& f() { return f_; }
  ScalarEmitter& scalar() { return f_.scalar(); }

  Value* Arg(int n) const { return f_.Scalar(n); }
  Value* DoubleArg(int n) { return b().CreateBitCast(Arg(n), b().getDoubleTy()); }
  Value* Emit(const Term& t) { return t.Emit(b()); }
  // for (i = from; i < to; i += step)
  void For(const Term& from, const Term& to, const Term& step, const std::function<void(Value*)>& body);
  void If(const Term& condition, const std::function<void()>& then) { f_.If(Emit(condition), then); }
  // Calls body(i) for the items i < count that this thread has of all threads of the launch.
  void ForItems(const Term& count, const std::function<void(Value*)>& body);
  // The same for the numbers of elements of a tensor whose kStridedRank sizes stand from word `sizes` on.
  void ForElements(int sizes, const std::function<void(Value*)>& body);
  // Adds up a number of each thread of the block, all of which must come here. Returns what loads the sum of the numbers
  // of threads [0, t]. The sums stay until the next ones: a barrier must come before those.
  std::function<Value*(const Term& t)> SumOverBlock(Value* number);

  // The address of element `at` of memory whose first element's address is a word's value.
  Value* Address(Value* base, DType t, const Term& at);
  // An element as it is computed with: float32 for halves, else of its dtype.
  Value* Load(Value* address, DType t);
  void Store(Value* value, Value* address, DType t);
  Type* TypeOf(DType t) { return scalar().TypeOf(t); }
  // The offset of element number `n`, in row-major order of kStridedRank sizes, for strides from word `strides` on.
  std::vector<Value*> Offsets(Value* n, int sizes, const std::vector<int>& strides);

  // Memory that the threads of a block share, of `count` elements, aligned to 16 bytes.
  llvm::GlobalVariable* Shared(const char* suffix, Type* type, int count);

 private:
  llvm::Module& m_;
  const KernelSpec words_;  // nothing but words
  CudaFunction f_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_LIBRARY_FUNCTION_H_
