#include "smelt/codegen/index_checks.h"

#include <memory>
#include <optional>
#include <variant>

#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

bool IsIntegers(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.IsTensor() && t.tensor().sizes && (t.tensor().dtype == DType::kInt64 || t.tensor().dtype == DType::kInt32);
}

// `outer_of` maps values of `g` to the values of the graph in question that they are.
template <typename OuterOf>
void Collect(const Graph& g, BlockId b, OuterOf outer_of, std::vector<IndexUse>& out) {
  for (NodeId n : g.Nodes(b)) {
    const Node& node = g.node(n);
    const IndexRule rule = GetOpTraits(node.op).indices;
    if (rule == IndexRule::kNone) continue;
    if (node.inputs.empty() || !g.value(node.inputs[0]).type.IsTensor()) continue;
    const TensorType& self = g.value(node.inputs[0]).type.tensor();
    if (!self.sizes) continue;
    const std::string source = node.source ? node.source->ToString() : "";
    auto add = [&](ValueId index, const Expr& limit, bool wraps) {
      if (std::optional<ValueId> outer = outer_of(index)) out.push_back({*outer, limit, wraps, source});
    };
    if (rule == IndexRule::kAlongDim || rule == IndexRule::kAlongDimWrapped) {
      if (node.inputs.size() <= 2) continue;
      auto dim = GetIntExpr(g, node.inputs[1]);
      if (!dim || !dim->IsConstant() || !IsIntegers(g, node.inputs[2])) continue;
      int64_t d = *dim->Constant();
      if (d < 0) d += self.rank();
      if (d >= 0 && d < self.rank())
        add(node.inputs[2], (*self.sizes)[d], /*wraps=*/rule == IndexRule::kAlongDimWrapped);
      continue;
    }
    if (rule == IndexRule::kFlat && node.inputs.size() > 1 && IsIntegers(g, node.inputs[1])) {
      Expr elements(1);
      for (const Expr& size : *self.sizes) elements = elements * size;
      add(node.inputs[1], elements, true);
      continue;
    }
    if (rule == IndexRule::kRows && node.inputs.size() > 1 && self.rank() == 2 && IsIntegers(g, node.inputs[1])) {
      add(node.inputs[1], (*self.sizes)[0], false);
      continue;
    }
    if (rule != IndexRule::kList) continue;
    auto list = node.inputs.size() > 1 ? GetListElements(g, node.inputs[1]) : std::nullopt;
    if (!list || static_cast<int>(list->size()) > self.rank()) continue;
    for (size_t d = 0; d < list->size(); ++d) {
      const Type& t = g.value((*list)[d]).type;
      if (!t.IsTensor()) continue;
      if (!IsIntegers(g, (*list)[d])) break;  // a mask may stand for several dims
      add((*list)[d], (*self.sizes)[d], true);
    }
  }
}

}  // namespace

std::vector<IndexUse> FindIndexUses(const Graph& g) {
  std::vector<IndexUse> out;
  Collect(g, g.top(), [](ValueId v) { return std::optional<ValueId>(v); }, out);
  for (NodeId n : g.Nodes(g.top())) {
    if (g.node(n).op != op::kSmeltFusionGroup) continue;
    const auto* sub = std::get_if<std::shared_ptr<Graph>>(g.node(n).FindAttribute("Subgraph"));
    if (sub == nullptr) continue;
    Collect(
        **sub, (*sub)->top(),
        [&](ValueId v) -> std::optional<ValueId> {
          const NodeId def = (*sub)->value(v).def;
          if (!(*sub)->IsParam(def)) return std::nullopt;
          return g.node(n).inputs[(*sub)->value(v).def_index];
        },
        out);
  }
  return out;
}

}  // namespace smelt
