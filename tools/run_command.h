// smelt run BUNDLE --case=FILE, or with plain tensors.
#ifndef SMELT_TOOLS_RUN_COMMAND_H_
#define SMELT_TOOLS_RUN_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

extern const char kRunHelp[];
int RunRun(const std::vector<std::string>& args);

}  // namespace smelt

#endif  // SMELT_TOOLS_RUN_COMMAND_H_
