// smelt bench BUNDLE: measures calls.
#ifndef SMELT_TOOLS_BENCH_COMMAND_H_
#define SMELT_TOOLS_BENCH_COMMAND_H_

#include "smelt/tools/command_line.h"

namespace smelt {

int RunBench(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_BENCH_COMMAND_H_
