#include "smelt/script/infer_script_types.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/script/simplify_script.h"

namespace smelt {

absl::Status InferScriptTypes(Graph& g, bool simplify) {
  absl::Status inferred = InferTypes(g);
  // A simplification may remove the node that stopped inference.
  while (simplify && SimplifyScript(g, /*inferred=*/true)) inferred = InferTypes(g);
  return inferred;
}

Pass InferTypesPass() {
  return {.name = "infer-types",
          .description = "completes the types of values from those of the inputs",
          .prerequisites = {"complete-input-types", "use-new-geometries"},
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            SMELT_RETURN_IF_ERROR(InferScriptTypes(g, context.Get<ScriptOptions>().simplify));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
