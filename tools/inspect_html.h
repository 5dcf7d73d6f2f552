// A bundle's plans as a page: what is launched, in order, which memory goes from step to step, bytes and kernels.
#ifndef SMELT_TOOLS_INSPECT_HTML_H_
#define SMELT_TOOLS_INSPECT_HTML_H_

#include <string>

#include "nlohmann/json.hpp"

namespace smelt {

// `inspected` is what `smelt inspect --json` prints. The page is one file that loads nothing.
std::string BundlePage(const nlohmann::ordered_json& inspected);

}  // namespace smelt

#endif  // SMELT_TOOLS_INSPECT_HTML_H_
