// smelt cache stats|explain|verify|clear
#ifndef SMELT_TOOLS_CACHE_COMMAND_H_
#define SMELT_TOOLS_CACHE_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunCache(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_CACHE_COMMAND_H_
