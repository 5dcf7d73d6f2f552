// Lowers a KernelSpec to LLVM IR for CUDA: the same kernel IR as for the CPU, distributed over threads. Internal to
// codegen: includes LLVM.
//
//   kernel<<<any grid, kCudaBlock>>>(words, begin, end, status)   // as in fuser/kernel_spec.h
//
// A launch may have any grid: threads and blocks stride over the tiles. The schedule decides which threads share a
// tile:
//
//   kPoints   each thread computes its own points, up to `vector` adjacent points along the last dim at once;
//             reductions run inside the thread (coalesced if the parallel dim is the contiguous one), and so do
//             scatters, element after element
//   kRows     a block computes one point: the reduction's elements are distributed over the threads, and partial
//             results are combined by shuffles and shared memory, in a fixed order. Elements that are scattered
//             to the same address are processed one at a time, in order: the bits are those of one thread
//   kSerial   one thread, in order, for specs that require it
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
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

inline constexpr int kCudaBlock = 256;  // threads
inline constexpr int kCudaWarp = 32;

struct CudaSchedule {
  enum Kind { kPoints, kRows, kSerial } kind = kPoints;
  int vector = 1;  // adjacent, aligned elements that a thread loads at once
};
CudaSchedule CudaScheduleFor(const KernelSpec& spec);

// Returns a module with one kernel, `symbol`. The spec must be valid.
absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernelForCuda(llvm::LLVMContext& context, const KernelSpec& spec,
                                                                 const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOWER_CUDA_H_
