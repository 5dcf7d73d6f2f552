// KernelSpec to LLVM IR for CUDA: the same kernel IR as the CPU's, covered by threads. Internal to codegen: includes
// LLVM.
//
//   kernel<<<any grid, kCudaBlock>>>(words, begin, end, status)   // as fuser/kernel_spec.h says
//
// A launch may have any grid: threads and blocks stride over the tiles. Which threads share a tile is the schedule's:
//   kPoints   each thread its own points, up to `vector` neighbours along the last dim at once; reductions run inside
//             the thread (coalesced where the parallel dim is the contiguous one), scatters too, element after element
//   kRows     a block its own point: the reduction's elements are dealt to the threads, partial results meet in
//             shuffles and shared memory, in an order that depends on nothing. Elements that are scattered to one place
//             take turns there, in their order: the bits are those of one thread
//   kSerial   one thread, in order: specs that ask for it
//
// The module calls libdevice's functions (__nv_expf) by name; llvm_cuda.cc links them. Barriers, shuffles and special
// registers are LLVM's intrinsics. So a test may run the very module on a CPU: cuda_emulation.h.
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
  int vector = 1;  // elements a thread loads at once where they lie side by side, aligned
};
CudaSchedule CudaScheduleFor(const KernelSpec& spec);

// A module with one kernel, `symbol`. The spec is valid.
absl::StatusOr<std::unique_ptr<llvm::Module>> LowerKernelForCuda(llvm::LLVMContext& context, const KernelSpec& spec,
                                                                 const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LOWER_CUDA_H_
