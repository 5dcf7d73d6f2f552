// A matrix product is cut into tiles by its sizes alone; each tile is one oneDNN primitive on one thread, or one call
// of Gemm or PairedGemm on a machine without oneDNN. An operand is read in place if one of its strides is 1, otherwise it
// is first copied to dense scratch memory. A constant right operand is packed in one form, which tiles of any number of
// rows read.
#ifndef SMELT_RUNTIME_LIBRARY_TILED_MATMUL_H_
#define SMELT_RUNTIME_LIBRARY_TILED_MATMUL_H_

#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul_problem.h"
#include "smelt/runtime/library/packed_weights.h"

namespace smelt::library_internal {

// Computes tiles with oneDNN where it is there, and a few rows and packed weights with our own loops, for float32,
// bfloat16, float16, and int8 or uint8 by int8 with results in int32. `dense` says whether the result is dense: only then
// does it report parts to a listener.
MakeResult MakeTiledMatmul(MatmulProblem p, bool dense, PackedWeights* packed);
// Returns whether tiles add products of int8 exactly on this machine: in 32 bits, as pairs of them do not fit in 16.
bool HasExactInt8(const MatmulProblem& p);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_TILED_MATMUL_H_
