// smelt inspect FILE
#ifndef SMELT_TOOLS_INSPECT_COMMAND_H_
#define SMELT_TOOLS_INSPECT_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

extern const char kInspectHelp[];
int RunInspect(const std::vector<std::string>& args);

}  // namespace smelt

#endif  // SMELT_TOOLS_INSPECT_COMMAND_H_
