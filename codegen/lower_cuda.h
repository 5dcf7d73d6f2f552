// Lowers a KernelSpec to LLVM IR for CUDA: the same kernel IR as for the CPU, distributed over threads. Internal to
// codegen: includes LLVM.
//
//   entry<<<any grid, kCudaBlock>>>(words, begin, end, status, workspace)   // as in fuser/kernel_spec.h
//
// The words are passed by value where they fit (cuda_schedule.h). A launch may have any grid: threads and blocks stride
// over the work.
//
// The module calls libdevice's functions (__nv_expf) by name; llvm_cuda.cc links them. Barriers, shuffles and special
// registers are LLVM's intrinsics. So a test may run the same module on a CPU: cuda_emulation.h.
#ifndef SMELT_CODEGEN_LOWER_CUDA_H_
#define SMELT_CODEGEN_LOWER_CUDA_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Returns a module with the functions of CudaLaunchFor(spec, symbol, limits). The spec must be valid.
absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernelForCuda(llvm::LLVMContext& context, const KernelSpec& spec,
                                                                 const std::string& symbol,
                                                                 const CudaLimits& limits = {});

// Adds a function that computes one point of a kernel of points, for threads of another kernel:
//
//   symbol(words, number, end, status, workspace)
//
// `number` is the point's, in row-major order of the parallel dims. The last three are passed on. It may read what
// other threads of the launch have written.
llvm::Function* LowerPointForCuda(llvm::Module& module, const KernelSpec& spec, const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOWER_CUDA_H_
