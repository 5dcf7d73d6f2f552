// Runs a kernel's LLVM IR for CUDA on this machine's processor, for tests: there is no GPU in CI.
//
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<CudaEmulation> kernel, CudaEmulation::Create(spec));
//   kernel->Launch(/*grid=*/3, words, begin, end, &status);
//
// The IR is that which goes to NVPTX, before libdevice is linked: libdevice's functions are the C library's here, the
// threads of a block are fibers that run until a barrier or a shuffle, block after block.
#ifndef SMELT_CODEGEN_CUDA_EMULATION_H_
#define SMELT_CODEGEN_CUDA_EMULATION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

class CudaEmulation {
 public:
  static absl::StatusOr<std::unique_ptr<CudaEmulation>> Create(const KernelSpec& spec);
  virtual ~CudaEmulation() = default;
  // As <<<grid, kCudaBlock>>>. A barrier or shuffle that not all threads reach is a CHECK failure. One launch at a time
  // in a process.
  virtual void Launch(int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status) = 0;
  // Of the last launch: barriers and shuffles that the block met at.
  virtual int64_t meetings() const = 0;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_EMULATION_H_
