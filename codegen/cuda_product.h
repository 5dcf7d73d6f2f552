// Products of matrices and convolutions on CUDA: tiles in shared memory.
//
// A block of 256 threads computes a tile of the result, 64 x 64 or (`wide`) 128 x 128. It takes the inner dim in steps
// of 16 (8 if wide), or of 32 on tensor cores. While it multiplies one step from shared memory, the next one is on its
// way from global memory to registers; there is one barrier for each step. Each thread loads 16 bytes at once where an
// operand is contiguous along one of its dims and aligned, else element by element, whatever the strides.
//
//   float32, float64, integers   each thread computes 4 x 4 (8 x 8) elements by fused multiply-add, in the order of the
//                                inner dim: both sizes of tiles, and all grids, give the same bits. Integers wrap
//   float16, bfloat16            from sm_80 on mma.sync.m16n8k16 with float32 sums, eight warps of 32 x 16 (64 x 32)
//                                elements; before that as float32. Rounded once
//
// A tile with many columns of the inner dim, where there are few tiles, is split: each of several blocks stores its sums
// of one slice in the workspace, and a second function adds them in order, an element for each thread. It gives the same
// bits with any grid, but not those of the forms that are not split.
//
// A convolution is the product of the taps that each place of the result sees, without a copy of them: rows are places,
// columns are the channels of the result of a group, and the inner dim runs over taps and, inside, over the channels of
// the group. A tap outside the input adds zeros. So few channels (3 of an image) fill a step badly, and separate
// channels a tile: then the cost is that of the whole tile.
//
// A kernel of points may go on with the result (LibraryKernel::epilogue_key). Then a block, once it has stored a tile,
// computes the points of the tile's elements: adjacent threads take adjacent elements, which are still in the caches.
// Each element is rounded as if the kernels were two. Of a split product, the second function does so.
//
// The cost is 2 * rows * columns * inner of whole tiles. For each step, a thread of a float32 tile of 64 x 64 runs 256
// FFMA, 32 LDS.128, 2 LDG.128 and 5 STS; of a wide one 512 FFMA, 32 LDS.128, 2 LDG.128 and 5 STS.
#ifndef SMELT_CODEGEN_CUDA_PRODUCT_H_
#define SMELT_CODEGEN_CUDA_PRODUCT_H_

#include "absl/status/status.h"
#include "llvm/IR/Module.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// Emits all functions of `kernel`, a product or a convolution, for devices of at least this compute capability (80 for
// 8.0): two where the inner dim is split. Unimplemented if the kernel that goes on with the result cannot be an epilogue.
absl::Status EmitProduct(llvm::Module& module, const LibraryKernel& kernel, int capability);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_PRODUCT_H_
