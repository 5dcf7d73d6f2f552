// Higher-order operators, whose operands are graphs.
#ifndef SMELT_FRONTEND_PT2_SUBGRAPHS_H_
#define SMELT_FRONTEND_PT2_SUBGRAPHS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_parts.h"

namespace smelt {
namespace pt2_internal {

class Pt2Nodes;

class Pt2Subgraphs {
 public:
  // Both must outlive this. `nodes` reads the graphs' nodes.
  Pt2Subgraphs(Pt2Parts& parts, Pt2Nodes& nodes) : p_(parts), nodes_(nodes) {}

  // Reads torch.ops.higher_order.NAME. `depth` is the number of graphs around it.
  absl::Status ReadOperator(const std::string& name, const Json& inputs, const Json& outputs, BlockId block,
                            Scope& scope, int depth);
  // Reads with_effects(token, operator, ...) -> token, ... as the call. The graph's order is that of the effects.
  absl::Status ReadEffect(const Json& inputs, const Json& outputs, const Json& node, BlockId block, Scope& scope,
                          int depth);

 private:
  // The rows of a scan or a map: `count` rows of `elements`.
  struct Trips {
    const Json& body;
    const std::vector<ValueId>&carried, &elements, &additional;
    const Expr& count;
  };

  // Reads a nested graph into `block`, whose parameters are the graph's inputs.
  absl::Status ReadSubgraph(const Json& arg, BlockId block, int depth);
  // Reads scan(graph, carried, rows, additional) and map_impl(graph, rows, additional), for a constant number of rows:
  // iteration by iteration.
  absl::Status ReadTrips(bool carries, const Json& inputs, const Json& outputs, BlockId block, Scope& scope, int depth);
  absl::Status ReadTripsAsLoop(const Trips& trips, const Json& outputs, BlockId block, Scope& scope, int depth);
  // Returns row `index`, an int, of a tensor.
  ValueId Row(ValueId of, ValueId index, NodeId anchor);
  // Reads a nested graph's nodes into `block` and returns its results.
  absl::StatusOr<std::vector<ValueId>> ReadInlined(const Json& arg, const std::vector<ValueId>& args, BlockId block,
                                                   int depth);
  absl::Status InlineSubgraph(const Json& arg, const std::vector<ValueId>& args, const Json& outputs, BlockId block,
                              Scope& outer, int depth);
  absl::Status CheckResults(NodeId n, size_t expected);

  Pt2Parts& p_;
  Pt2Nodes& nodes_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_SUBGRAPHS_H_
