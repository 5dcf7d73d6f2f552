// smelt convert: converts many models to bundles.
#ifndef SMELT_TOOLS_CONVERT_COMMAND_H_
#define SMELT_TOOLS_CONVERT_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunConvert(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_CONVERT_COMMAND_H_
