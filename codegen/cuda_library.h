// Emits the kernels of schema/library_kernels.h. Internal to codegen: includes LLVM.
//
//   SMELT_ASSIGN_OR_RETURN(auto module, LowerLibraryKernel(context, kernel, /*capability=*/90));
//
// A module has the function LibraryKernel::Entry(), with the ABI of every CUDA kernel (lower_cuda.h) and kCudaBlock
// threads in a block. Like other kernels, these compute the same bits with any grid.
#ifndef SMELT_CODEGEN_CUDA_LIBRARY_H_
#define SMELT_CODEGEN_CUDA_LIBRARY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// Emits code for devices of at least this compute capability (90 for 9.0).
absl::StatusOr<std::unique_ptr<llvm::Module>> LowerLibraryKernel(llvm::LLVMContext& context,
                                                                 const LibraryKernel& kernel, int capability);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_LIBRARY_H_
