// Maps each input of an exported program to its place in Python's arguments. The archive's conditions on sizes name
// these places, while its graph names inputs in lower case, and numbers them where names collide.
#ifndef SMELT_FRONTEND_ARGUMENT_PATHS_H_
#define SMELT_FRONTEND_ARGUMENT_PATHS_H_

#include <optional>
#include <string>
#include <vector>

#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

// L['d']['k'][0] is {"d", "k", "0"}; empty for a part of a class whose parts have no names.
using ArgumentPath = std::vector<std::string>;

// Returns the path of each user input, in order; nullopt if the archive does not state them in PyTorch's form.
std::optional<std::vector<ArgumentPath>> ArgumentPaths(const Json& graph_module);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_ARGUMENT_PATHS_H_
