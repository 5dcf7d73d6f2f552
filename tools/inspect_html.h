// Shows a bundle's plans as a page: the launches in order, the memory that goes from step to step, bytes and kernels.
#ifndef SMELT_TOOLS_INSPECT_HTML_H_
#define SMELT_TOOLS_INSPECT_HTML_H_

#include <string>

#include "nlohmann/json.hpp"

namespace smelt {

// `inspected` is the output of `smelt inspect --json`. The page is one file that loads nothing.
std::string BundlePage(const nlohmann::ordered_json& inspected);

}  // namespace smelt

#endif  // SMELT_TOOLS_INSPECT_HTML_H_
