// smelt convert: converts many models to bundles.
#ifndef SMELT_TOOLS_CONVERT_COMMAND_H_
#define SMELT_TOOLS_CONVERT_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

int RunConvert(const std::vector<std::string>& args);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_CONVERT_COMMAND_H_
