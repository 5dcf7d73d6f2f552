// PTX of kernels, and what a bundle holds of a CUDA architecture. No LLVM in this header.
#ifndef SMELT_CODEGEN_LLVM_CUDA_H_
#define SMELT_CODEGEN_LLVM_CUDA_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/target.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// PTX, libdevice's functions inlined. Unimplemented, saying so, if the kernel needs libdevice and it is not found.
absl::StatusOr<std::string> CompileToPtx(const KernelSpec& spec, Target target, const std::string& symbol);

// The module before libdevice is linked, as text: what the emulation runs.
absl::StatusOr<std::string> PrintCudaIr(const KernelSpec& spec, const std::string& symbol);

// All kernels of one architecture as one module. Entries are named by KernelObject::symbol; an entry's offset and size
// are those of its machine code, or of its text where the image is PTX.
struct CudaImage {
  Image image;
  bool is_cubin = false;  // else PTX: there is no ptxas here, the driver will assemble it
};
absl::StatusOr<CudaImage> LinkCudaImage(absl::Span<const KernelObject* const> objects);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LLVM_CUDA_H_
