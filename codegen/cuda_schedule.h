// The distribution of a kernel over a CUDA device's threads: a function of its spec alone. The lowering (lower_cuda.h)
// emits it, and a bundle tells the runtime how to launch it.
//
// The schedule decides which threads share a tile:
//
//   kPoints   each thread computes its own points, up to `vector` adjacent points along the last dim at once;
//             reductions run inside the thread (coalesced if the parallel dim is the contiguous one), and so do
//             scatters, element after element
//   kColumns  reductions along an outer dim: a block computes 32 adjacent points, or one thread a point where points
//             have few elements
//   kRows     a warp computes one point that has few elements, and a block one that has more: the reduction's
//             elements are distributed over the threads, and partial results are combined by shuffles and shared
//             memory, in a fixed order. Elements that are scattered to the same address are processed one at a
//             time, in order: the bits are those of one thread
//   kSerial   one thread, in order, for specs that require it
//
// Reductions of kColumns and some of kRows are split if they are long: blocks reduce chunks of `split` elements to
// partial results in the workspace, which a second stage combines.
#ifndef SMELT_CODEGEN_CUDA_SCHEDULE_H_
#define SMELT_CODEGEN_CUDA_SCHEDULE_H_

#include <string>

#include "smelt/fuser/kernel_spec.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

inline constexpr int kCudaBlock = 256;  // threads
inline constexpr int kCudaWarp = 32;

// The sizes at which schedules change. Tests lower them, so that small sizes take the paths of large ones.
struct CudaLimits {
  int short_row = 1024;     // the largest number of elements of a point that a warp reduces in kRows
  int few_elements = 32;    // ... and a thread in kColumns
  int row_chunk = 8192;     // elements of a part of a split row; a multiple of 8
  int column_chunk = 1024;  // ... of a split column
  int short_side = 16;      // the smallest size of a dim that is worth a tile
};

struct CudaSchedule {
  enum Kind { kPoints, kColumns, kRows, kSerial } kind = kPoints;
  int vector = 1;  // adjacent, aligned elements that a thread loads at once
  int split = 0;   // elements of a reduction's chunk; 0: it is never split
  // kPoints: the dim along which params that are not contiguous along the last one are. Blocks take tiles of both dims,
  // whose elements of such params go through shared memory. -1: there are none.
  int tile_dim = -1;
};
CudaSchedule CudaScheduleFor(const KernelSpec& spec, const CudaLimits& limits = {});

// Returns whether the vectorized dim is a parallel one. Tiles are then rows of it, or its elements if it is the only
// parallel dim.
bool VectorIsParallel(const KernelSpec& spec);

// Returns whether the instruction loads a param that is contiguous along dim `tile_dim`, and not along the last one.
bool IsTransposedLoad(const KernelSpec& spec, int instr, int tile_dim);

// Returns the number of words of a partial result of the reductions in `phase`.
int PartialWords(const KernelSpec& spec, const KernelPhase& phase);

// Returns whether kernels take the parameter block by value. If it is too large for that, they take a pointer to it.
bool TakesWordsByValue(const KernelSpec& spec);

// Returns whether each point of the kernel can follow when the element that it reads of another kernel's result is there:
// the kernel has points only, which never refuse a call, and few words.
bool CanBeEpilogue(const KernelSpec& spec);

// Returns the launch of the kernel that is lowered as `symbol`.
fb::CudaKernelT CudaLaunchFor(const KernelSpec& spec, const std::string& symbol, const CudaLimits& limits = {});

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_SCHEDULE_H_
