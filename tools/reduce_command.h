// smelt reduce: reduces a model that fails on a case to a small text graph and case that fail in the same way.
#ifndef SMELT_TOOLS_REDUCE_COMMAND_H_
#define SMELT_TOOLS_REDUCE_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunReduce(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_REDUCE_COMMAND_H_
