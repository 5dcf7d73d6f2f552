// The names of one graph of an archive while it is read.
#ifndef SMELT_FRONTEND_PT2_SCOPE_H_
#define SMELT_FRONTEND_PT2_SCOPE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

// The values of one graph by name, and their metadata in the archive.
struct Scope {
  const Json* graph = nullptr;
  absl::flat_hash_map<std::string, ValueId> values;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_SCOPE_H_
