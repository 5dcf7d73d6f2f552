#include "smelt/fuser/expand_views.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

absl::StatusOr<ExpansionStep> ShortenView(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const ValueId base = g.node(n).inputs[0];
  const NodeId inner = ViewNodeOf(g, base);
  if (!inner.valid()) return ExpansionStep::kKeep;
  // Its home remains the argument that the inner view names, if it names one.
  if (g.node(inner).FindAttribute("argument") != nullptr) return ExpansionStep::kKeep;
  g.SetInput(n, 0, g.node(inner).inputs[0]);
  return ExpansionStep::kChanged;
}

// A list of conditions, each of which keeps the copy, and at the end the view of the source. Later conditions rely on
// what the earlier ones have found out about the layouts.
void LookThroughCopy(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const ValueId copy = g.node(n).inputs[0];
  const NodeId def = g.value(copy).def;
  if (g.IsParam(def) || g.node(def).op != op::kSmeltMaterialize || g.node(n).FindAttribute("argument") != nullptr)
    return;
  const ValueId source = g.node(def).inputs[0];
  const TensorType& t = edit.T(copy);
  const SymbolicGeometry from = edit.GeometryOf(source);
  if (from.dtype != *t.dtype || from.sizes != *t.sizes) return;
  ValueId root = source;
  if (const NodeId view = ViewNodeOf(g, source); view.valid()) {
    if (g.node(view).FindAttribute("argument") != nullptr) return;
    root = g.node(view).inputs[0];
  }
  // The caller sees a result's strides, and a view's base has those of its storage.
  for (const Use& u : g.value(edit.Out(n)).uses) {
    if (g.IsReturn(u.user) || absl::StartsWith(g.node(u.user).op.name(), op::kSmeltNamespace) ||
        absl::StartsWith(g.node(u.user).op.name(), op::kPrimNamespace)) {
      return;
    }
  }
  // Memory that is taken over later must be copied by some node.
  for (const Use& u : g.value(root).uses) {
    if (g.IsReturn(u.user)) continue;
    const Node& user = g.node(u.user);
    if (u.index == 0 && IsRegionOp(user)) return;
  }
  SymbolicGeometry view = RegionGeometry(g.node(n));
  if (view.dtype != *t.dtype) return;
  std::vector<size_t> order;  // the copy's dims, widest first
  for (size_t j = 0; j < t.sizes->size(); ++j) {
    if ((*t.sizes)[j] != Expr(1)) order.push_back(j);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    auto less = g.symbols.Less((*t.strides)[b], (*t.strides)[a]);
    return less && *less;
  });
  SymbolicGeometry out = view;
  out.offset = from.offset;
  std::vector<Expr> high(t.sizes->size(), Expr(0));
  Expr rest = view.offset;
  for (size_t j : order) {
    if (rest == Expr(0)) break;
    const Expr q = FloorDiv(rest, (*t.strides)[j]);
    if (!rest.IsConstant() && q * (*t.strides)[j] != rest) continue;
    // Otherwise it is an index of several dims, of which one divides all: the last element of a matrix.
    if (g.symbols.Less(q, (*t.sizes)[j]) != true) return;
    high[j] = q;
    out.offset = out.offset + q * from.strides[j];
    rest = rest - q * (*t.strides)[j];
  }
  if (rest != Expr(0)) return;
  bool unit = false;
  for (size_t k = 0; k < view.sizes.size(); ++k) {
    if (view.sizes[k] == Expr(1) || view.strides[k] == Expr(0)) continue;
    bool placed = false;
    for (size_t i = 0; i < order.size() && !placed; ++i) {
      const size_t j = order[i];
      const Expr q = FloorDiv(view.strides[k], (*t.strides)[j]);
      if (q == Expr(0) || q * (*t.strides)[j] != view.strides[k]) continue;
      const Expr reach = high[j] + q * (view.sizes[k] - 1);
      const auto fits = g.symbols.Less(reach, (*t.sizes)[j]);
      if (fits && *fits) {
        out.strides[k] = q * from.strides[j];
        high[j] = reach;
        placed = true;
        break;
      }
      // Continues over the dims around this one, if the source runs through them evenly too.
      if (q != Expr(1) || high[j] != Expr(0)) return;
      Expr left = view.sizes[k];
      size_t at = i;
      while (true) {
        const size_t d = order[at];
        const Expr parts = FloorDiv(left, (*t.sizes)[d]);
        if (parts * (*t.sizes)[d] != left || high[d] != Expr(0)) return;
        left = parts;
        high[d] = (*t.sizes)[d] - 1;
        if (left == Expr(1)) break;
        if (at == 0) return;
        const size_t outer = order[at - 1];
        if ((*t.strides)[outer] != (*t.strides)[d] * (*t.sizes)[d] ||
            from.strides[outer] != from.strides[d] * (*t.sizes)[d])
          return;
        --at;
      }
      out.strides[k] = from.strides[j];
      placed = true;
    }
    if (!placed) return;
    unit = unit || out.strides[k] == Expr(1);
  }
  // Library calls need one dim whose elements are neighbours.
  if (!unit) return;
  g.SetInput(n, 0, root);
  g.SetAttribute(n, "strides", out.strides);
  g.SetAttribute(n, "offset", out.offset);
  g.SetType(edit.Out(n), Type::Tensor(out.dtype, out.sizes, out.strides));
}

absl::StatusOr<ExpansionStep> ExpandView(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  // Which argument is the base: the first tensor, but for those that say otherwise.
  const std::vector<ValueId> inputs(g.node(n).inputs.begin(), g.node(n).inputs.end());
  int base = -1;
  for (size_t i = 0; i < inputs.size() && base < 0; ++i) {
    if (g.value(inputs[i]).type.IsTensor()) base = static_cast<int>(i);
  }
  if (base < 0 || !edit.T(inputs[base]).IsComplete())
    return absl::UnimplementedError("a view of something that is no tensor of a known type");
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildView(call, edit.GeometryOf(inputs[base]), g.symbols));
  if (m.base != base) {
    SMELT_ASSIGN_OR_RETURN(m, BuildView(call, edit.GeometryOf(inputs[m.base]), g.symbols));
  }
  const ValueId of = inputs[m.base];
  std::vector<ValueId> views;
  for (const SymbolicGeometry& v : m.outputs) views.push_back(edit.Shown(n, of, v));
  if (!m.is_list) {
    edit.ReplaceWith(n, views[0]);
    return ExpansionStep::kChanged;
  }
  edit.ReplaceList(n, views);
  return ExpansionStep::kChanged;
}

}  // namespace smelt
