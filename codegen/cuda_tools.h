// Tools of the CUDA toolkit, if it is installed. They are not needed to build smelt, or for CPU kernels.
#ifndef SMELT_CODEGEN_CUDA_TOOLS_H_
#define SMELT_CODEGEN_CUDA_TOOLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "smelt/codegen/target.h"

namespace smelt {

// Paths; empty if not found. They are looked for once: in $CUDA_HOME alone if that is set, else where the toolkit's
// installer puts it (/usr/local/cuda) and where Debian does (nvidia-cuda-toolkit).
struct CudaTools {
  std::string libdevice;  // libdevice.10.bc, the functions of CUDA's math library as LLVM bitcode
  std::string ptxas;      // the assembler
};
const CudaTools& FindCudaTools();

// Returns the line of `ptxas --version` that names the build: cubins of one build are equal. Empty if there is no
// ptxas. Starts the program once per process.
const std::string& PtxasBuild();

// Assembles PTX to a cubin. Returns Unimplemented, with the reason, if there is no ptxas, and Internal with ptxas's
// message if it rejects the text.
absl::StatusOr<std::string> RunPtxas(const std::string& ptx, Target target);

}  // namespace smelt

#endif  // SMELT_CODEGEN_CUDA_TOOLS_H_
