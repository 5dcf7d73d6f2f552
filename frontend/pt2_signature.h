// The inputs and outputs of an archive's program, with what its signature says of them.
#ifndef SMELT_FRONTEND_PT2_SIGNATURE_H_
#define SMELT_FRONTEND_PT2_SIGNATURE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_arguments.h"
#include "smelt/frontend/pt2_scope.h"
#include "smelt/frontend/pt2_types.h"
#include "smelt/frontend/pt2_weights.h"

namespace smelt {
namespace pt2_internal {

class Pt2Signature {
 public:
  // All must outlive this.
  Pt2Signature(Graph& g, Pt2Types& types, Pt2Arguments& arguments, Pt2Weights& weights)
      : g_(g), types_(types), arguments_(arguments), weights_(weights) {}

  absl::Status ReadInputs(const Json& graph, const Json& signature, Scope& scope);
  absl::Status ReadOutputs(const Json& graph, const Json& signature, Scope& scope);

 private:
  absl::Status ReadInput(const Json& input, const Json& spec, Scope& scope);
  // `written` maps the new contents of an input to the input. If the model returns those contents, or a view of them,
  // it returns that input, or a view of it: in the archive a copy of the contents would be another value.
  absl::Status ReturnWhatIsWritten(const absl::flat_hash_map<ValueId, ValueId>& written);

  Graph& g_;
  Pt2Types& types_;
  Pt2Arguments& arguments_;
  Pt2Weights& weights_;
};

// Returns the name of an input of a graph, "" for a constant.
absl::StatusOr<std::string> InputName(const Json& input);
// Gives an input its type, from the metadata, through `add`, and enters it in the scope.
absl::StatusOr<ValueId> DeclareInput(Graph& g, Pt2Types& types, const Json& input, const std::string& name,
                                     Scope& scope, absl::FunctionRef<ValueId(Type)> add);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_SIGNATURE_H_
