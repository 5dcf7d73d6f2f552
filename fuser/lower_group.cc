#include "smelt/fuser/lower_group.h"

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/lowering.h"

namespace smelt {

bool IsTransparent(const Node& n) {
  return n.op == op::kSmeltView || n.op == op::kSmeltSize || n.op == op::kPrimConstant ||
         n.op == op::kPrimListConstruct || n.op == op::kPrimTupleConstruct;
}

bool IsAction(const Node& n) { return absl::StartsWith(n.op.name(), op::kSmeltInplacePrefix); }

bool IsRegionOp(const Node& n) { return n.op == op::kSmeltWriteRegion || IsAction(n); }

RegionWrites RegionWritesOf(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (g.IsParam(def)) return {};
  const Node& node = g.node(def);
  if (IsRegionOp(node)) return {{&node}, node.inputs[0]};
  if (node.op != op::kSmeltFusionGroup) return {};
  const Attribute* a = node.FindAttribute("Subgraph");
  const auto* subgraph = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
  if (subgraph == nullptr) return {};
  // Inside it they begin with one of the group's inputs.
  const Graph& sub = **subgraph;
  RegionWrites out;
  ValueId inner = sub.outputs()[g.value(v).def_index];
  for (; !sub.IsParam(sub.value(inner).def); inner = out.nodes.back()->inputs[0]) {
    const Node& write = sub.node(sub.value(inner).def);
    if (!IsRegionOp(write)) return {};
    out.nodes.push_back(&write);
  }
  if (!out.nodes.empty()) out.base = node.inputs[sub.value(inner).def_index];
  return out;
}

SymbolicGeometry RegionGeometry(const Node& n) {
  // Numbers may have been read from text as plain integers.
  auto list = [&](absl::string_view name) -> std::vector<Expr> {
    const Attribute* a = n.FindAttribute(name);
    if (a == nullptr) return {};
    if (const auto* e = std::get_if<std::vector<Expr>>(a)) return *e;
    if (const auto* i = std::get_if<std::vector<int64_t>>(a)) return std::vector<Expr>(i->begin(), i->end());
    return {};
  };
  SymbolicGeometry out;
  const Attribute* dtype = n.FindAttribute("dtype");
  const auto* code = dtype == nullptr ? nullptr : std::get_if<int64_t>(dtype);
  const std::optional<DType> t = code == nullptr ? std::nullopt : DTypeFromScalarType(*code);
  SMELT_CHECK(t.has_value()) << n.op.full() << " has no attribute dtype";
  out.dtype = *t;
  out.sizes = list("sizes");
  out.strides = list("strides");
  SMELT_CHECK_EQ(out.sizes.size(), out.strides.size());
  if (const Attribute* a = n.FindAttribute("offset"); a != nullptr) {
    if (const auto* e = std::get_if<Expr>(a)) out.offset = *e;
    if (const auto* i = std::get_if<int64_t>(a)) out.offset = Expr(*i);
  }
  return out;
}

SymbolicGeometry DefaultLayout(const Graph& g, ValueId v) {
  const TensorType& t = g.value(v).type.tensor();
  return {*t.dtype, *t.sizes, *t.strides, Expr(0)};
}

absl::StatusOr<LoweredKernel> LowerGroup(const Graph& g, NodeId n, const LayoutFn& layout) {
  return kernel::Lowering(g, n, layout).Run();
}

}  // namespace smelt
