// smelt kernels: runs the steps of a compilation one at a time, so that a build compiles equal kernels of many models
// once.
#ifndef SMELT_TOOLS_KERNELS_COMMAND_H_
#define SMELT_TOOLS_KERNELS_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunKernels(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_KERNELS_COMMAND_H_
