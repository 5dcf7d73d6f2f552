// The launch data of CUDA kernels in a bundle: verified when the bundle is loaded, computed for each launch.
//
//   SMELT_ASSIGN_OR_RETURN(int64_t bytes, ComputeWorkspaceBytes(kernel, words, tiles));
//   for (int s = 0; s < kernel.stages.size(); ++s) {
//     SMELT_ASSIGN_OR_RETURN(int64_t blocks, ComputeBlocks(kernel, s, words, tiles));
//     if (blocks == 0) continue;
//     const fb::CudaStageT& stage = *kernel.stages[s];
//     // stage.entry<<<min(blocks, what the device holds at once), stage.threads, stage.shared_bytes>>>(
//     //     words, /*begin=*/0, /*end=*/tiles, status, workspace)
//   }
//
// The words are those of the launch, on the host. The kernel must have passed VerifyCudaKernel for their number.
#ifndef SMELT_SCHEMA_CUDA_LAUNCH_H_
#define SMELT_SCHEMA_CUDA_LAUNCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

// The largest parameter block, in words, that a kernel may take by value. PTX allows 4 KiB of parameters; three words
// are begin, end and status, and one is the workspace.
inline constexpr int kMaxCudaWordsByValue = 4096 / 8 - 4;

// Returns kDataLoss, with the field and its limits, if the numbers cannot be those of a launch whose parameter block
// has `num_words` words.
absl::Status VerifyCudaKernel(const fb::CudaKernelT& kernel, int num_words);

// Returns the number of blocks that have work in a stage, from 1 to 2^31 - 1, or 0 if these words need no launch of the
// stage. A launch with fewer blocks gives the same bits. kOutOfRange if a size is negative or the number of items is no
// int64.
absl::StatusOr<int64_t> ComputeBlocks(const fb::CudaKernelT& kernel, int stage, absl::Span<const int64_t> words,
                                      int64_t tiles);

// Returns the size of the workspace that all stages of the launch share, which needs no contents and is aligned to 16
// bytes. 0: the kernels take a null pointer. Errors are those of ComputeBlocks.
absl::StatusOr<int64_t> ComputeWorkspaceBytes(const fb::CudaKernelT& kernel, absl::Span<const int64_t> words,
                                              int64_t tiles);

}  // namespace smelt

#endif  // SMELT_SCHEMA_CUDA_LAUNCH_H_
