// smelt inspect FILE
#ifndef SMELT_TOOLS_INSPECT_COMMAND_H_
#define SMELT_TOOLS_INSPECT_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunInspect(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_INSPECT_COMMAND_H_
