// smelt compile MODEL -o OUT.smb
#ifndef SMELT_TOOLS_COMPILE_COMMAND_H_
#define SMELT_TOOLS_COMPILE_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunCompile(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_COMPILE_COMMAND_H_
