// Keys by which library kernels for CUDA order elements. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_CUDA_ORDER_KEYS_H_
#define SMELT_CODEGEN_CUDA_ORDER_KEYS_H_

#include <cstdint>

#include "llvm/IR/Value.h"
#include "smelt/codegen/cuda_library_function.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// ceil(log2(n)) of n > 0.
llvm::Value* LogOf(CudaLibraryFunction& f, llvm::Value* n);
// The key of an element, a 64-bit number without a sign: keys are ordered as the values are, NaN above all numbers, and
// -0 equals 0.
llvm::Value* KeyOf(CudaLibraryFunction& f, llvm::Value* v, DType t);
// The key of NaN; 0 where there is none.
uint64_t NanKey(DType t);

// Merges and results of long lines, runs, and counts, cuda_long_order.cc. `stage` is that of LibraryKernel::Launch.
void EmitLongOrder(CudaLibraryFunction& f, const LibraryKernel& kernel, int stage);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_ORDER_KEYS_H_
