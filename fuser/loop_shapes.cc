#include "smelt/fuser/loop_shapes.h"

#include <utility>

#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/gather_group.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

void AddOperand(const Graph& g, ValueId v, const std::vector<Expr>& sizes, Shape& s) {
  if (!g.value(v).type.IsTensor() || !g.value(v).type.tensor().IsComplete()) return;
  const std::vector<Expr>& own = *g.value(v).type.tensor().sizes;
  if (own.size() > sizes.size()) return;
  Label l;
  const size_t lead = sizes.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d) l.push_back(own[d] == Expr(1) ? -1 : s.out[lead + d]);
  s.operands.push_back({v, std::move(l)});
}

}  // namespace

Label IdentityLabel(size_t rank, const std::vector<Expr>& sizes) {
  Label l;
  for (size_t d = 0; d < rank; ++d) l.push_back(sizes[d] == Expr(1) ? -1 : static_cast<int>(d));
  return l;
}

std::optional<Shape> ShapeOf(const Graph& g, NodeId node) {
  const Node& n = g.node(node);
  Shape s;
  if (!IsKernelNode(g, node) || n.op == op::kSmeltFusionGroup || IsAllocation(n) ||
      n.FindAttribute(kStored) != nullptr) {
    return std::nullopt;
  }
  const std::vector<Expr>& sizes = *g.value(n.outputs[0]).type.tensor().sizes;
  if (IsAction(n)) {
    s.any_index = s.joins = false;
    return s;
  }
  if (n.op == op::kSmeltWriteRegion) {
    const std::vector<Expr>& region = *g.value(n.inputs[1]).type.tensor().sizes;
    s.frame.sizes = region;
    s.frame.reduced.assign(region.size(), false);
    s.out = IdentityLabel(region.size(), region);
    s.operands.push_back({n.inputs[1], s.out});
    s.any_index = false;
    // A region whose elements are all at one place is empty, or was refused. A row's kernel could not know it: a value
    // that does not move along the row is stored once.
    const std::vector<Expr>& strides = RegionGeometry(n).strides;
    for (size_t d = 0; d < region.size(); ++d) s.joins = s.joins && (strides[d] != Expr(0) || region[d] == Expr(1));
    return s;
  }
  const OpKind kind = GetOpInfo(n.op).kind;
  if (kind == OpKind::kReduction) {
    auto call = OpCall::Of(g, node);
    if (!call.ok()) return std::nullopt;
    auto m = BuildReduction(*call);
    if (!m.ok()) return std::nullopt;
    const ValueId in = call->arg(m->arg).value;
    s.frame.sizes = *g.value(in).type.tensor().sizes;
    s.frame.reduced.assign(s.frame.sizes.size(), false);
    for (int d : m->dims) s.frame.reduced[d] = true;
    const Label whole = IdentityLabel(s.frame.sizes.size(), s.frame.sizes);
    s.operands.push_back({in, whole});
    for (size_t d = 0; d < whole.size(); ++d) {
      if (m->is_scan || !s.frame.reduced[d]) {
        s.out.push_back(whole[d]);
      } else if (m->keepdim) {
        s.out.push_back(-1);
      }
    }
    s.any_index = false;
    if (!s.frame.HasReduction()) s.joins = false;
    return s;
  }
  s.frame.sizes = sizes;
  s.frame.reduced.assign(sizes.size(), false);
  s.out = IdentityLabel(sizes.size(), sizes);
  const OpFamily family = GetOpTraits(n.op).family;
  if (IsWindowed(family)) {
    // It reduces over a window that is not a dim of anything else.
    s.any_index = false;
    s.joins = false;
    return s;
  }
  if (family == OpFamily::kOverlay) {
    s.operands.push_back({n.inputs[0], s.out});
    return s;
  }
  if (kind == OpKind::kPointwise || family == OpFamily::kMaterialize || family == OpFamily::kTriangle) {
    for (ValueId v : n.inputs) AddOperand(g, v, sizes, s);
    if (n.inputs.size() == 1 || kind != OpKind::kPointwise) return s;
    for (ValueId v : n.inputs) {
      if (auto list = g.value(v).type.IsTensor() ? std::nullopt : GetListElements(g, v)) {
        for (ValueId e : *list) AddOperand(g, e, sizes, s);
      }
    }
    return s;
  }
  return s;  // gathers, pads...: no operand is read at the loop's own index
}

bool ThroughView(const Graph& g, NodeId view, const Label& label, Label* base_label) {
  const Node& n = g.node(view);
  const SymbolicGeometry shown = RegionGeometry(n);
  const TensorType& t = g.value(n.inputs[0]).type.tensor();
  if (!t.IsComplete() || *t.dtype != shown.dtype || shown.offset != Expr(0)) return false;
  base_label->assign(t.sizes->size(), -1);
  std::vector<bool> used(t.sizes->size(), false);
  for (size_t k = 0; k < shown.sizes.size(); ++k) {
    if (shown.sizes[k] == Expr(1) || shown.strides[k] == Expr(0)) continue;
    bool found = false;
    for (size_t j = 0; j < used.size() && !found; ++j) {
      if (used[j] || (*t.sizes)[j] != shown.sizes[k] || (*t.strides)[j] != shown.strides[k]) continue;
      used[j] = found = true;
      (*base_label)[j] = label[k];
    }
    if (!found) return false;
  }
  for (size_t j = 0; j < used.size(); ++j) {
    if (!used[j] && (*t.sizes)[j] != Expr(1)) return false;
  }
  return true;
}

}  // namespace smelt
