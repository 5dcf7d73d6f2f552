// Keys by which library kernels for CUDA order elements, and places in an order. Internal to codegen: includes LLVM.
#ifndef SMELT_CODEGEN_CUDA_ORDER_KEYS_H_
#define SMELT_CODEGEN_CUDA_ORDER_KEYS_H_

#include <cstdint>
#include <functional>

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Value.h"
#include "smelt/codegen/cuda_library_function.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// ceil(log2(n)) of n > 0.
llvm::Value* LogOf(CudaLibraryFunction& f, llvm::Value* n);
// The key of an element, a 64-bit number without a sign: keys are ordered as the values are, NaN above all numbers, and
// -0 equals 0.
llvm::Value* KeyOf(CudaLibraryFunction& f, llvm::Value* v, DType t);
// The key of NaN; 0 where there is none.
uint64_t NanKey(DType t);

// Halves the range from *low to *high `steps` times: what remains begins above the one in the middle where `lies_before`
// holds for it, and else ends at it.
void Halve(CudaLibraryFunction& f, llvm::AllocaInst* low, llvm::AllocaInst* high, llvm::Value* steps,
           const std::function<llvm::Value*(llvm::Value*)>& lies_before);
// Sets *place to that of the median that an order asks for, in a line of `length` elements in order of which `numbers`,
// the first ones, are no NaN. Sets the order's flag if the median is open. The words are those of an order.
void PlaceMedian(CudaLibraryFunction& f, llvm::Value* numbers, llvm::Value* length, llvm::AllocaInst* place);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_ORDER_KEYS_H_
