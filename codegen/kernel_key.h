// The name of a compiled kernel: equal keys mean equal machine code.
#ifndef SMELT_CODEGEN_KERNEL_KEY_H_
#define SMELT_CODEGEN_KERNEL_KEY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "smelt/codegen/target.h"

namespace smelt {

// Returns the digest of the code generator's own sources, which hold the features of each target, and LLVM's version:
// "sha256:... LLVM 22.1.8". Two builds of one version of LLVM make the same code, so that machines of any architecture
// share kernels. For CUDA also the digest of the libdevice that is linked in.
const std::string& CodeGeneratorIdentity(Target target);

// Returns the SHA-256 of the spec's text (KernelSpec::ToString), the target and the code generator's identity: 64
// hexadecimal digits.
std::string ComputeKernelKey(absl::string_view spec_text, Target target);

// Returns the text whose digest is the key, for people: lines "target ...", "generator ...", "spec ...".
std::string KernelKeyText(absl::string_view spec_text, Target target);

// The same for the library kernel (schema/library_kernels.h) whose function has this name. The generator's identity then
// includes the sources of library kernels.
std::string LibraryKeyText(absl::string_view entry, Target target);

}  // namespace smelt

#endif  // SMELT_CODEGEN_KERNEL_KEY_H_
