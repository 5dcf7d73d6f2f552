// smelt cc: generates a typed C++ header, and its implementation, for one bundle.
#ifndef SMELT_TOOLS_CC_COMMAND_H_
#define SMELT_TOOLS_CC_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunCc(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_CC_COMMAND_H_
