// The distribution of a kernel over a CUDA device's threads: a function of its spec alone. The lowering (lower_cuda.h)
// emits it, and a bundle tells the runtime how to launch it.
//
// The schedule decides which threads share a tile:
//
//   kPoints   each thread computes its own points, up to `vector` adjacent points along the last dim at once;
//             reductions run inside the thread (coalesced if the parallel dim is the contiguous one), and so do
//             scatters, element after element
//   kRows     a block computes one point: the reduction's elements are distributed over the threads, and partial
//             results are combined by shuffles and shared memory, in a fixed order. Elements that are scattered
//             to the same address are processed one at a time, in order: the bits are those of one thread
//   kSerial   one thread, in order, for specs that require it
#ifndef SMELT_CODEGEN_CUDA_SCHEDULE_H_
#define SMELT_CODEGEN_CUDA_SCHEDULE_H_

#include <string>

#include "smelt/fuser/kernel_spec.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

inline constexpr int kCudaBlock = 256;  // threads
inline constexpr int kCudaWarp = 32;

struct CudaSchedule {
  enum Kind { kPoints, kRows, kSerial } kind = kPoints;
  int vector = 1;  // adjacent, aligned elements that a thread loads at once
};
CudaSchedule CudaScheduleFor(const KernelSpec& spec);

// Returns whether kernels take the parameter block by value. If it is too large for that, they take a pointer to it.
bool TakesWordsByValue(const KernelSpec& spec);

// Returns the launch of the kernel that is lowered as `symbol`.
fb::CudaKernelT CudaLaunchFor(const KernelSpec& spec, const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_SCHEDULE_H_
