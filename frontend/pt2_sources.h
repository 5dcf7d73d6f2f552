// The lines of the model's own code that an archive's nodes come from.
#ifndef SMELT_FRONTEND_PT2_SOURCES_H_
#define SMELT_FRONTEND_PT2_SOURCES_H_

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

class Pt2Sources {
 public:
  // Returns the innermost frame of the node's stack trace that belongs to the model's own code, or null.
  std::shared_ptr<const SourceLocation> SourceOf(const Json& node);

 private:
  absl::flat_hash_map<std::string, std::shared_ptr<const SourceLocation>> sources_;  // by the trace's text
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_SOURCES_H_
