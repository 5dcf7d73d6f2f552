#include "smelt/functionalize/new_geometry.h"

#include <string>
#include <vector>

#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"

namespace smelt {

bool ChangesGeometry(OpName op) { return GetOpTraits(op).resizes || GetOpInfo(op).kind == OpKind::kInplaceView; }

bool ReturnsItsOperand(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const FunctionSchema* schema = FindSchema(node.op);
  return schema != nullptr && node.outputs.size() == 1 && !node.inputs.empty() && !schema->arguments.empty() &&
         schema->arguments[0].alias.is_write && schema->returns[0].alias == schema->arguments[0].alias;
}

bool UseNewGeometry(Graph& g, NodeId n) {
  if (g.node(n).parent != g.top() || !ReturnsItsOperand(g, n) || !ChangesGeometry(g.node(n).op)) return false;
  const ValueId now = g.node(n).outputs[0], before = g.node(n).inputs[0];
  const std::vector<Use> uses(g.value(before).uses.begin(), g.value(before).uses.end());
  bool any = false;
  for (const Use& u : uses) {
    NodeId at = u.user;
    while (g.node(at).parent != g.top()) at = g.block(g.node(at).parent).owner;
    if (!g.IsBefore(n, at)) continue;
    g.SetInput(u.user, u.index, now);
    any = true;
  }
  return any;
}

void UseNewGeometries(Graph& g) {
  for (NodeId n : g.Nodes(g.top())) UseNewGeometry(g, n);
}

Pass UseNewGeometriesPass() {
  return {.name = "use-new-geometries",
          .description = "readers of a tensor whose geometry changed use its new name",
          .prerequisites = {"resolve-lists"},
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            UseNewGeometries(g);
            return edits.count() > 0;
          }};
}

}  // namespace smelt
