// How Python's arguments and results are nested, as an archive says it, and where among Python's arguments each input
// of the exported program comes from.
#ifndef SMELT_FRONTEND_CALL_STRUCTURE_READER_H_
#define SMELT_FRONTEND_CALL_STRUCTURE_READER_H_

#include <string>
#include <vector>

#include "smelt/core/convention/call_structure.h"
#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

// Either part is empty where the archive does not say it, or not in the way that PyTorch does.
CallStructure ReadCallStructure(const Json& graph_module);

// L['d']['k'][0] is {"d", "k", "0"}; empty where it is part of a class whose parts nobody names. The archive's
// conditions on sizes speak of arguments in this way.
using ArgumentPath = std::vector<std::string>;

// Returns the path of each leaf of the arguments, in order.
std::vector<ArgumentPath> ArgumentPaths(const Structure& arguments);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_CALL_STRUCTURE_READER_H_
