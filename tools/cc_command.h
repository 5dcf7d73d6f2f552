// smelt cc: generates a typed C++ header, and its implementation, for one bundle.
#ifndef SMELT_TOOLS_CC_COMMAND_H_
#define SMELT_TOOLS_CC_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

int RunCc(const std::vector<std::string>& args);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_CC_COMMAND_H_
