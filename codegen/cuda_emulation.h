// Runs a kernel's LLVM IR for CUDA on this machine's processor, for tests: there is no GPU in CI.
//
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<CudaEmulation> kernel, CudaEmulation::Create(spec));
//   kernel->Launch(/*grid=*/2, words, begin, end, &status);
//   EXPECT_EQ(kernel->race(), "");
//
// Tensor cores add in float32, in the order of the inner dim; those of a GPU keep a few bits less of small terms.
//
// The IR is the same as for NVPTX, before libdevice is linked. Functions of the C library replace libdevice's, and the
// threads of a block are fibers. They run in lockstep: no thread passes a memory access before all runnable threads
// have reached one. Blocks run one after the other. Each byte records which threads have read and written it since the
// last barrier of the block or of the warp, and in earlier blocks. So unordered accesses are found regardless of the
// order in which they ran.
#ifndef SMELT_CODEGEN_CUDA_EMULATION_H_
#define SMELT_CODEGEN_CUDA_EMULATION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/cuda_schedule.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

struct LibraryKernel;

class CudaEmulation {
 public:
  static absl::StatusOr<std::unique_ptr<CudaEmulation>> Create(const KernelSpec& spec, const CudaLimits& limits = {});
  // The same for a kernel of schema/library_kernels.h, emitted for a compute capability.
  static absl::StatusOr<std::unique_ptr<CudaEmulation>> CreateLibrary(const LibraryKernel& kernel, int capability);
  virtual ~CudaEmulation() = default;
  // Launches all stages of the kernel as <<<grid, kCudaBlock>>>, with a workspace of their own. A barrier or shuffle
  // that not all threads reach is a CHECK failure. Launches from several threads run one after the other.
  virtual void Launch(int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status) = 0;
  // Launches one stage, CudaLaunchFor(spec, symbol, limits).stages[stage], as a runtime does. The words are passed by
  // pointer here.
  virtual void LaunchStage(int stage, int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status,
                           void* workspace) = 0;
  // Returns a function that launches the kernel with a grid of 2 and has the signature of a kernel for a CPU. It lives
  // as long as this object.
  virtual KernelEntry entry() const = 0;
  // Returns the first two unordered accesses of all launches, one of them a write. Empty if there were none.
  virtual const std::string& race() const = 0;
  // Returns the number of barriers and shuffles that the block met at in the last launch.
  virtual int64_t meetings() const = 0;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_EMULATION_H_
