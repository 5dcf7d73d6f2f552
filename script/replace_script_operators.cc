#include "smelt/script/replace_script_operators.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

// True when only errors and warnings use the text.
bool IsMessage(const Graph& g, ValueId text) {
  const auto& uses = g.value(text).uses;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return !g.IsReturn(use.user) &&
           (g.node(use.user).op == op::kPrimRaiseException || g.node(use.user).op.name() == op::kWarn);
  });
}

// Backwards, so that a text's readers are gone before the text is looked at.
void EraseMessages(Graph& g) {
  const std::vector<NodeId> nodes = g.AllNodes();
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    const std::string& name = g.node(*n).op.name();
    if ((name == op::kPrimPrint || name == op::kWarn) && g.node(*n).outputs.empty()) {
      g.Erase(*n);
    } else if ((name == op::kFormat || name == op::kPercentFormat) && IsMessage(g, g.node(*n).outputs[0])) {
      g.ReplaceAllUses(g.node(*n).outputs[0], g.node(*n).inputs[0]);
      g.Erase(*n);
    }
  }
}

}  // namespace

void ReplaceScriptOperators(Graph& g) {
  EraseMessages(g);
  for (NodeId n : g.AllNodes()) {
    const std::string& name = g.node(n).op.name();
    if (name == op::kPrimDevice || name == op::kPrimType) {  // the latter of a device: programs run on the CPU
      const ValueId cpu = InsertConstant(g, n, std::string("cpu"));
      g.SetType(cpu, g.value(g.node(n).outputs[0]).type);
      g.ReplaceAllUses(g.node(n).outputs[0], cpu);
      g.Erase(n);
    } else if (absl::StartsWith(name, op::kPrimIsPrefix)) {  // is_cuda, is_sparse, is_quantized, ...
      g.ReplaceAllUses(g.node(n).outputs[0], InsertConstant(g, n, name == op::kPrimIsCpu));
      g.Erase(n);
    } else if (name == op::kPrimData) {
      g.SetOp(n, OpName::Get(op::kDetach));
    }
  }
}

Pass ReplaceScriptOperatorsPass() {
  return {.name = "replace-script-operators",
          .description = "operators that only TorchScript has become simpler ones or go",
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            ReplaceScriptOperators(g);
            return edits.count() > 0;
          }};
}

}  // namespace smelt
