// The passes of the pipeline, in its order. Those that want complete types complete those of a text.
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/fuse.h"
#include "smelt/pipeline/compile.h"
#include "smelt/tools/pass_registry.h"

namespace smelt {
namespace {

void Add(std::string name, std::string description, std::function<absl::Status(PassContext&)> run,
         std::vector<std::string> options = {}) {
  Pass pass;
  pass.options = std::move(options);
  pass.name = std::move(name);
  pass.description = std::move(description);
  pass.run = std::move(run);
  RegisterPass(std::move(pass));
}

// Of a text. What passes have made has its types, and operators that CompleteTypes does not know.
absl::Status CompleteTypesIfMissing(Graph& g) {
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).outputs) {
      const Type& type = g.value(v).type;
      if (type.IsTensor() && !type.tensor().IsComplete()) return CompleteTypes(g);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterPipelinePasses() {
  Add("infer-types", "completes the types of values from those of the inputs",
      [](PassContext& c) { return CompleteTypes(*c.graph); });
  Add("open-composites", "operators that hide a view or a write become what they do",
      [](PassContext& c) { return OpenComposites(*c.graph).status(); });
  Add("functionalize", "open-composites, then writes become values; what a caller sees is printed as a convention",
      [](PassContext& c) -> absl::Status {
        SMELT_RETURN_IF_ERROR(CompleteTypes(*c.graph));
        SMELT_RETURN_IF_ERROR(OpenComposites(*c.graph).status());
        SMELT_ASSIGN_OR_RETURN(FunctionalizeResult result, Functionalize(*c.graph, {}));
        SMELT_RETURN_IF_ERROR(VerifyFunctional(*c.graph));
        if (c.explain) c.output = result.convention.ToString();
        return absl::OkStatus();
      },
      {"explain"});
  Add("expand-composites", "operators become kernels and library calls", [](PassContext& c) -> absl::Status {
    SMELT_RETURN_IF_ERROR(CompleteTypesIfMissing(*c.graph));
    return ExpandComposites(*c.graph);
  });
  Add("fuse", "forms groups that are one kernel each (--explain says of each edge why it fused or did not)",
      [](PassContext& c) -> absl::Status {
        FuseOptions options;
        options.explain = c.explain;
        SMELT_RETURN_IF_ERROR(CompleteTypesIfMissing(*c.graph));
        SMELT_RETURN_IF_ERROR(ExpandComposites(*c.graph));
        const std::unique_ptr<AliasDb> alias = AliasDb::Build(*c.graph);
        options.alias_db = alias.get();
        const int late_reads = CountLateReads(*c.graph);
        SMELT_ASSIGN_OR_RETURN(FusionReport report, Fuse(*c.graph, options));
        SMELT_RETURN_IF_ERROR(VerifyFusionPlan(*c.graph, late_reads));
        for (const FusionEdge& e : report.edges) {
          absl::StrAppend(&c.output, "# ", e.producer, " -> ", e.consumer, ": ",
                          e.fused ? "fused: " : "not fused: ", e.reason, "\n");
        }
        return absl::OkStatus();
      },
      {"explain"});
}

}  // namespace smelt
