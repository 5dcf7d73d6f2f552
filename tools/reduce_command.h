// smelt reduce: reduces a model that fails on a case to a small text graph and case that fail in the same way.
#ifndef SMELT_TOOLS_REDUCE_COMMAND_H_
#define SMELT_TOOLS_REDUCE_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

extern const char kReduceHelp[];
int RunReduce(const std::vector<std::string>& args);

}  // namespace smelt

#endif  // SMELT_TOOLS_REDUCE_COMMAND_H_
