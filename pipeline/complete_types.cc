#include "smelt/pipeline/complete_types.h"

#include "absl/algorithm/container.h"
#include "smelt/pipeline/passes.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/script/infer_script_types.h"

namespace smelt {

absl::Status CompleteTypes(Graph& g, bool simplify) {
  PassContext context;
  context.Put(ScriptOptions{.simplify = simplify});
  PassRunOptions options;
  if (!simplify) options.disabled = {"simplify-script"};
  const absl::Status status = PassesOf({PassGroup::kScript}).Run(g, context, options);
  return FailedPass(status) == "infer-types" ? WithAllUnsupported(g, status) : status;
}

bool HasCompleteTypes(const Graph& g) {
  const auto complete = [&](ValueId v) {
    const Type& type = g.value(v).type;
    return !type.IsTensor() || type.tensor().IsComplete();
  };
  return absl::c_all_of(g.inputs(), complete) &&
         absl::c_all_of(g.AllNodes(), [&](NodeId n) { return absl::c_all_of(g.node(n).outputs, complete); });
}

}  // namespace smelt
