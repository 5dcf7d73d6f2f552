// Attention on CUDA, without memory for the scores.
//
// A block of 256 threads computes 64 rows of a head's result. It goes over tiles of 64 keys: the scores of the tile, as
// the product of queries and keys in steps of 16 through shared memory; the largest score and the sum of each row, which
// correct what earlier tiles have added up; the weights, in shared memory; and their product with the tile's values, in
// steps of 16 keys. Tiles outside the band are skipped, and the values of a tile that a mask excludes are not read.
// Everything is float32: queries, keys and values of 16 bits are converted on the way to shared memory.
//
// The cost of a tile is 64 * 64 * (depth + 128) multiply-adds: columns of the values are padded to 128. A thread runs 16
// FFMA for every 2 LDS.128 of the scores, and 32 for every 3 of the values.
//
// The second form, for types of 16 bits from sm_80 on, multiplies on tensor cores (mma.sync.m16n8k16). Its block
// computes 128 rows, 16 for each of its 8 warps, which hold the rows' queries, scores, sums and results in registers.
// The weights are rounded to the type of the values; their sums are of float32. While a tile of 64 keys is multiplied,
// the next one is on its way from global memory to registers; a tile costs two barriers. Keys lie in shared memory by
// rows, and values by columns, in pairs of keys. Columns beyond 64, of the depth or of the values, are skipped where
// there are none. For each tile a warp runs 64 HMMA.16816 and 128 LDS.32 for the scores (32 and 64 where the depth is at
// most 64), and as many for the values.
#ifndef SMELT_CODEGEN_CUDA_ATTENTION_H_
#define SMELT_CODEGEN_CUDA_ATTENTION_H_

#include "smelt/codegen/cuda_library_function.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// `kernel` is one of attention.
void EmitAttention(CudaLibraryFunction& f, const LibraryKernel& kernel);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_ATTENTION_H_
