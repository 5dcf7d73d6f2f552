// The arguments that an archive gives a node.
#ifndef SMELT_FRONTEND_PT2_ARGUMENTS_H_
#define SMELT_FRONTEND_PT2_ARGUMENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_inserter.h"
#include "smelt/frontend/pt2_scope.h"

namespace smelt {
namespace pt2_internal {

class Pt2Arguments {
 public:
  // Both must outlive this.
  Pt2Arguments(Graph& g, NodeInserter& insert) : g_(g), insert_(insert) {}

  // Appends the arguments in the schema's order, with its defaults.
  absl::Status ReadArguments(const FunctionSchema& schema, const Json& inputs, const Scope& scope, NodeId anchor,
                             std::vector<ValueId>& args);
  // Returns an argument of any kind as a value. `type` is the schema's (kAny if unknown).
  absl::StatusOr<ValueId> ReadValue(const Json& arg, const Scope& scope, NodeId anchor, const Type& type);
  // Appends the values of an operand list: {"as_tensors": [...]} or a mixed tuple.
  absl::Status ReadOperands(const Json& arg, const Scope& scope, NodeId anchor, std::vector<ValueId>& out);

 private:
  absl::StatusOr<ValueId> ReadList(const std::string& kind, const Json& v, const Scope& scope, NodeId anchor,
                                   const Type& type);

  Graph& g_;
  NodeInserter& insert_;
};

// Returns the argument at place `i` of a node's inputs.
absl::StatusOr<const Json*> Operand(const Json& inputs, size_t i);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_ARGUMENTS_H_
