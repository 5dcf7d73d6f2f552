// The version of this compiler, and everything that machines must have in common to make the same bytes.
#ifndef SMELT_TOOLS_VERSION_H_
#define SMELT_TOOLS_VERSION_H_

#include <string>

namespace smelt {

// "smelt 0.1.0: bundle format 1, kernels by sha256:... LLVM 22.1.8 build 7c0e..."
std::string VersionText();

}  // namespace smelt

#endif  // SMELT_TOOLS_VERSION_H_
