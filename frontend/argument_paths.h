// Where in Python's arguments each input of an exported program comes from: the archive's conditions on sizes speak of
// those, by their own names, and its graph of inputs in lower case, numbered where names meet.
#ifndef SMELT_FRONTEND_ARGUMENT_PATHS_H_
#define SMELT_FRONTEND_ARGUMENT_PATHS_H_

#include <optional>
#include <string>
#include <vector>

#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

// L['d']['k'][0] is {"d", "k", "0"}; empty where it is part of a class whose parts nobody names.
using ArgumentPath = std::vector<std::string>;

// Of each user input, in order; nothing if the archive does not say, or not in the way that PyTorch does.
std::optional<std::vector<ArgumentPath>> ArgumentPaths(const Json& graph_module);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_ARGUMENT_PATHS_H_
