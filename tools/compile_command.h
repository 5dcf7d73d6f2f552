// smelt compile MODEL -o OUT.smb
#ifndef SMELT_TOOLS_COMPILE_COMMAND_H_
#define SMELT_TOOLS_COMPILE_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

const std::string& CompileHelp();
int RunCompile(const std::vector<std::string>& args);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_COMPILE_COMMAND_H_
