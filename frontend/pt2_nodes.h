// The nodes of an archive's graphs.
#ifndef SMELT_FRONTEND_PT2_NODES_H_
#define SMELT_FRONTEND_PT2_NODES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_numbers.h"
#include "smelt/frontend/pt2_parts.h"
#include "smelt/frontend/pt2_subgraphs.h"
#include "smelt/frontend/pt2_vmap.h"

namespace smelt {
namespace pt2_internal {

class Pt2Nodes {
 public:
  // The parts must outlive this.
  explicit Pt2Nodes(Pt2Parts& parts) : p_(parts), numbers_(parts), subgraphs_(parts, *this), vmap_(parts, *this) {}

  // Reads the nodes of a graph to the end of `block`. `depth` is the number of graphs around it.
  absl::Status ReadNodes(const Json& graph, BlockId block, Scope& scope, int depth);
  // Reads those from place `first` up to `end`.
  absl::Status ReadNodesBetween(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope, int depth);
  // Reads the call of a node, or of an effect within one. `node` gives the metadata.
  absl::Status ReadCall(const std::string& target, const Json& inputs, const Json& outputs, const Json& node,
                        BlockId block, Scope& scope, int depth);

 private:
  absl::Status ReadNode(const Json& node, BlockId block, Scope& scope, int depth);
  // Reads prims.fma(a, b, c), into which a strict export turns addcmul_ and addcdiv_: PyTorch's CPU kernels round the
  // product.
  absl::Status ReadFma(const Json& inputs, const Json& outputs, NodeId anchor, Scope& scope);

  Pt2Parts& p_;
  Pt2Numbers numbers_;
  Pt2Subgraphs subgraphs_;
  Pt2Vmap vmap_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_NODES_H_
