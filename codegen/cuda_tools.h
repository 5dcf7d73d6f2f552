// What the CUDA toolkit gives, where it is installed. Nothing here is needed to build smelt, or for a CPU's kernels.
#ifndef SMELT_CODEGEN_CUDA_TOOLS_H_
#define SMELT_CODEGEN_CUDA_TOOLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "smelt/codegen/target.h"

namespace smelt {

// Paths; empty for what is not there. Looked for once: in $CUDA_HOME alone if that is set, else where the toolkit's
// installer puts it (/usr/local/cuda) and where Debian does (nvidia-cuda-toolkit).
struct CudaTools {
  std::string libdevice;  // libdevice.10.bc, the functions of CUDA's math library as LLVM bitcode
  std::string ptxas;      // the assembler
};
const CudaTools& FindCudaTools();

// PTX to a cubin. Unimplemented, saying so, if there is no ptxas; Internal with its words if it refuses the text.
absl::StatusOr<std::string> RunPtxas(const std::string& ptx, Target target);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_TOOLS_H_
