// PTX of kernels, and the CUDA images of a bundle. This header does not include LLVM.
#ifndef SMELT_CODEGEN_LLVM_CUDA_H_
#define SMELT_CODEGEN_LLVM_CUDA_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/link_image.h"
#include "smelt/codegen/target.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// Returns PTX with libdevice's functions inlined. Unimplemented, with the reason, if the kernel needs libdevice and it
// is not found.
absl::StatusOr<std::string> CompileToPtx(const KernelSpec& spec, Target target, const std::string& symbol);

// Returns PTX of a library kernel (schema/library_kernels.h), as an object whose symbol is the kernel's entry.
absl::StatusOr<KernelObject> CompileLibraryKernel(const LibraryKernel& kernel, Target target);

// Returns the module before libdevice is linked, as text, which the emulation runs.
absl::StatusOr<std::string> PrintCudaIr(const KernelSpec& spec, const std::string& symbol);

// All kernels of one architecture as one module. Entries are named by KernelObject::symbol; an entry's offset and size
// are those of its machine code, or of its text where the image is PTX.
struct CudaImage {
  Image image;
  bool is_cubin = false;  // else PTX: there is no ptxas here, so the driver will assemble it
  std::string ptx;        // besides a cubin: the same kernels, for devices that the cubin does not run on
};
// `assemble` makes a cubin of PTX, as RunPtxas does; if it is Unimplemented, the image is PTX.
using CudaAssembler = absl::FunctionRef<absl::StatusOr<std::string>(const std::string& ptx, Target target)>;
absl::StatusOr<CudaImage> LinkCudaImage(absl::Span<const KernelObject* const> objects, CudaAssembler assemble);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LLVM_CUDA_H_
