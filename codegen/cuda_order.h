// Orders and searches on CUDA.
//
//   order         a block sorts a line of up to 2,048 elements in shared memory: pairs of a key, an unsigned number in the
//                 values' order, and an index. A bitonic network of n log^2 n / 4 comparisons, which compares indices
//                 where keys are equal, so that the order is stable. For a whole line of 2,048 elements a thread makes
//                 264 exchanges between 66 barriers. Then the first elements are stored, or the one in the middle. Lines
//                 may be sorted in place
//   order_pieces  the same for each 2,048 elements of a longer line. cuda_long_order.h merges them
//   search        each thread finds one value by halving: log2(n) loads, one after the other
#ifndef SMELT_CODEGEN_CUDA_ORDER_H_
#define SMELT_CODEGEN_CUDA_ORDER_H_

#include "smelt/codegen/cuda_library_function.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// `kernel` is an order of whole lines or of pieces, or a search.
void EmitOrder(CudaLibraryFunction& f, const LibraryKernel& kernel);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_ORDER_H_
