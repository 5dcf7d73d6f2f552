// Choices of elements, and runs of equal ones, on CUDA: what counts of the elements is stored in their order.
//
//   nonzero, masked_select   the elements that are chosen
//   runs                     the first elements of runs; the number of each element's run
//
// One block takes a chunk of 2,048 elements at a time. Each thread has eight adjacent ones, a scan in shared memory gives
// the places of those that count (17 barriers), and the block stores them.
//
// The wide forms share the chunks among the blocks of three launches. The first one counts what each chunk has, into the
// workspace. In the second, one block adds these counts up, 2,048 at a time: for 16 million elements in four rounds. The
// third one stores, after the count of all chunks before. So elements are read twice. The order in which blocks run
// decides nothing. The lengths of runs need the next run's beginning: one more launch, an item for each run.
#ifndef SMELT_CODEGEN_CUDA_CHOICE_H_
#define SMELT_CODEGEN_CUDA_CHOICE_H_

#include "smelt/codegen/cuda_library_function.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// Emits one function of `kernel`, a choice or runs; `stage` is that of LibraryKernel::Launch.
void EmitChoice(CudaLibraryFunction& f, const LibraryKernel& kernel, int stage);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_CHOICE_H_
