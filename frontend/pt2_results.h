// The outputs that an archive declares for a node, and the values that they become.
#ifndef SMELT_FRONTEND_PT2_RESULTS_H_
#define SMELT_FRONTEND_PT2_RESULTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_inserter.h"
#include "smelt/frontend/pt2_scope.h"
#include "smelt/frontend/pt2_types.h"

namespace smelt {
namespace pt2_internal {

// One declared output: its name ("" for none) and type.
struct OutputDecl {
  std::string name;
  Type type;
  std::optional<Expr> expr;
  std::vector<OutputDecl> elements;  // of a list
  bool is_list = false;
};

class Pt2Results {
 public:
  // All must outlive this.
  Pt2Results(Graph& g, NodeInserter& insert, Pt2Types& types) : g_(g), insert_(insert), types_(types) {}

  absl::StatusOr<OutputDecl> ReadOutput(const Json& output, const Scope& scope);
  // Reads outputs; a list is replaced by its elements.
  absl::StatusOr<std::vector<OutputDecl>> ReadOutputsSpread(const Json& outputs, const Scope& scope);
  // Binds the scope's name to a value that may have another name of its own; an empty name is none.
  absl::Status Bind(const std::string& name, ValueId v, Scope& scope);
  // Does the same for a value that the node makes: the value gets its name and number.
  absl::Status Define(const OutputDecl& d, ValueId v, Scope& scope);
  // Inserts a call and defines its outputs. `schema` is null if the operator is not known.
  absl::Status AddNode(OpName op, const std::vector<ValueId>& args, const Json& outputs, NodeId anchor, Scope& scope,
                       const FunctionSchema* schema);

 private:
  Graph& g_;
  NodeInserter& insert_;
  Pt2Types& types_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_RESULTS_H_
