// smelt cache stats|explain|verify|clear
#ifndef SMELT_TOOLS_CACHE_COMMAND_H_
#define SMELT_TOOLS_CACHE_COMMAND_H_

#include <string>
#include <vector>

namespace smelt {

extern const char kCacheHelp[];
int RunCache(const std::vector<std::string>& args);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_CACHE_COMMAND_H_
