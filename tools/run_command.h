// smelt run BUNDLE --case=FILE, or with plain tensors.
#ifndef SMELT_TOOLS_RUN_COMMAND_H_
#define SMELT_TOOLS_RUN_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunRun(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_RUN_COMMAND_H_
