// Chooses the library call for a node: matmul, convolution, sort and similar operators, and random draws.
#ifndef SMELT_CODEGEN_LIBRARY_LOWERING_H_
#define SMELT_CODEGEN_LIBRARY_LOWERING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

// One call of the runtime's library; docs/bundle_format.md lists the ops and the order of their attributes.
struct LibraryNode {
  std::string op;
  std::vector<ValueId> inputs;  // an invalid id for an absent one
  std::vector<ValueId> outputs;
  std::vector<Expr> ints;
  std::vector<double> floats;
};
// nullopt: no library call implements the node. Unimplemented: one does, but not with these arguments.
absl::StatusOr<std::optional<LibraryNode>> LowerLibrary(const Graph& g, NodeId n);

struct RandomCall {
  fb::RandomKind kind;
  double p0 = 0, p1 = 1;
  ValueId probabilities;
};
absl::StatusOr<std::optional<RandomCall>> LowerRandom(const Graph& g, NodeId n);

}  // namespace smelt

#endif  // SMELT_CODEGEN_LIBRARY_LOWERING_H_
