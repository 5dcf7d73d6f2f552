// torch.vmap: the nodes between _vmap_increment_nesting and _vmap_decrement_nesting describe the work on one example.
// Nodes that depend on the examples are read once for each of them, so that every operator keeps its meaning.
#ifndef SMELT_FRONTEND_PT2_VMAP_H_
#define SMELT_FRONTEND_PT2_VMAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_parts.h"

namespace smelt {
namespace pt2_internal {

class Pt2Nodes;

class Pt2Vmap {
 public:
  // Both must outlive this. `nodes` reads the nodes of each example.
  Pt2Vmap(Pt2Parts& parts, Pt2Nodes& nodes) : p_(parts), nodes_(nodes) {}

  // Returns whether a vmap begins with this node.
  static bool Begins(const Json& node);
  // Returns the place of the last node of the vmap that begins at place `first`.
  static absl::StatusOr<size_t> End(const Json& nodes, size_t first);
  // Reads the nodes from place `first` to `end`.
  absl::Status Read(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope, int depth);

 private:
  absl::Status ReadExamples(const Json& nodes, size_t first, size_t end, int64_t examples, BlockId block, Scope& scope,
                            int depth);
  absl::Status ReadTake(const Json& node, int64_t example, NodeId anchor, Scope& scope);
  // `batched` are the values that depend on the example. The joined value was made after `marker`, and only once.
  absl::Status ReadJoin(const Json& node, int64_t examples,
                        const absl::flat_hash_map<std::string, std::vector<ValueId>>& batched, NodeId marker,
                        absl::flat_hash_set<ValueId>& joined, NodeId anchor, Scope& scope);

  Pt2Parts& p_;
  Pt2Nodes& nodes_;
  int64_t examples_ = 1;  // of the surrounding vmaps
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_VMAP_H_
