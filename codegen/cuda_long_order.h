// Orders of lines that are longer than a block's memory, and counts of elements, on CUDA.
//
//   order_merge   merges sorted runs in twos: each thread moves one pair, to its place in its own run plus the number of
//                 pairs of the other run that come before it, found by halving: log2(run) loads, one after the other. A
//                 line of n elements takes log2(n / 2,048) launches, each of which reads and writes all pairs once
//   order_take    each thread takes one result into room of the caller, and a second launch stores it. The number of
//                 numbers before the first NaN, for medians, is found by halving
//   bincount      each thread adds 1 to the bin of an element, by an atomic addition. Additions of integers give the
//                 same sum in any order
#ifndef SMELT_CODEGEN_CUDA_LONG_ORDER_H_
#define SMELT_CODEGEN_CUDA_LONG_ORDER_H_

#include "smelt/codegen/cuda_library_function.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// Emits one function of `kernel`, a merge, what is taken from merged lines, or a count; `stage` is that of
// LibraryKernel::Launch.
void EmitLongOrder(CudaLibraryFunction& f, const LibraryKernel& kernel, int stage);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_LONG_ORDER_H_
