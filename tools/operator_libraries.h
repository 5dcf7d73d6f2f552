// The option --op-library of the commands that run bundles.
#ifndef SMELT_TOOLS_OPERATOR_LIBRARIES_H_
#define SMELT_TOOLS_OPERATOR_LIBRARIES_H_

#include "absl/status/status.h"
#include "smelt/tools/command_line.h"

namespace smelt {

// Loads the shared libraries that --op-library names, and runs their code, which registers operators of the user's own
// (docs/custom_operators.md). Does nothing without the option.
absl::Status LoadOperatorLibraries(const CommandLine& line);

}  // namespace smelt

#endif  // SMELT_TOOLS_OPERATOR_LIBRARIES_H_
