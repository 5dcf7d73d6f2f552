// Views: each shows the owner of its memory by a geometry of its own.
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
#include "smelt/fuser/expander.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

absl::StatusOr<Expander::Step> Expander::ShortenView(NodeId n) {
  const ValueId base = g_.node(n).inputs[0];
  const NodeId def = g_.value(base).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltView) return Step::kKeep;
  // Its home remains the argument that the inner view names, if it names one.
  if (g_.node(def).FindAttribute("argument") != nullptr) return Step::kKeep;
  g_.SetInput(n, 0, g_.node(def).inputs[0]);
  return Step::kChanged;
}

void Expander::LookThroughCopy(NodeId n) {
  const ValueId copy = g_.node(n).inputs[0];
  const NodeId def = g_.value(copy).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltMaterialize || g_.node(n).FindAttribute("argument") != nullptr)
    return;
  const ValueId source = g_.node(def).inputs[0];
  const TensorType& t = T(copy);
  const SymbolicGeometry from = GeometryOf(source);
  if (from.dtype != *t.dtype || from.sizes != *t.sizes) return;
  ValueId root = source;
  const NodeId source_def = g_.value(source).def;
  if (!g_.IsParam(source_def) && g_.node(source_def).op == op::kSmeltView) {
    if (g_.node(source_def).FindAttribute("argument") != nullptr) return;
    root = g_.node(source_def).inputs[0];
  }
  // The caller sees a result's strides, and a view's base has those of its storage.
  for (const Use& u : g_.value(Out(n)).uses) {
    if (g_.IsReturn(u.user) || absl::StartsWith(g_.node(u.user).op.name(), op::kSmeltNamespace) ||
        absl::StartsWith(g_.node(u.user).op.name(), op::kPrimNamespace)) {
      return;
    }
  }
  // Memory that is taken over later must be copied by some node.
  for (const Use& u : g_.value(root).uses) {
    if (g_.IsReturn(u.user)) continue;
    const Node& user = g_.node(u.user);
    if (u.index == 0 && IsRegionOp(user)) return;
  }
  SymbolicGeometry view = RegionGeometry(g_.node(n));
  if (view.dtype != *t.dtype) return;
  std::vector<size_t> order;  // the copy's dims, widest first
  for (size_t j = 0; j < t.sizes->size(); ++j) {
    if ((*t.sizes)[j] != Expr(1)) order.push_back(j);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    auto less = g_.symbols.Less((*t.strides)[b], (*t.strides)[a]);
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
    if (g_.symbols.Less(q, (*t.sizes)[j]) != true) return;
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
      const auto fits = g_.symbols.Less(reach, (*t.sizes)[j]);
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
  g_.SetInput(n, 0, root);
  g_.SetAttribute(n, "strides", out.strides);
  g_.SetAttribute(n, "offset", out.offset);
  g_.SetType(Out(n), Type::Tensor(out.dtype, out.sizes, out.strides));
}

SymbolicGeometry Expander::GeometryOf(ValueId v) const {
  const TensorType& t = T(v);
  SymbolicGeometry out{*t.dtype, *t.sizes, *t.strides, Expr(0)};
  ValueId at = v;
  while (true) {
    const NodeId def = g_.value(at).def;
    if (g_.IsParam(def)) {
      if (g_.node(def).parent == g_.top() && def == g_.block(g_.top()).param_node) {
        const InputInfo& info = g_.input_infos[g_.value(at).def_index];
        if (info.kind == InputInfo::Kind::kWeight) out.offset = g_.weights[info.weight].geometry.offset;
      }
      return out;
    }
    const Node& node = g_.node(def);
    if (node.op == op::kSmeltView) {
      out.offset = RegionGeometry(node).offset;
      return out;
    }
    if (node.op != op::kSmeltWriteRegion) return out;
    at = node.inputs[0];
  }
}

NodeId Expander::InsertView(NodeId anchor, ValueId base, const SymbolicGeometry& geometry) {
  // A view counts from the beginning of the storage, or of the argument that it names, not from the view that it is of.
  const NodeId def = g_.value(base).def;
  const bool shortened = !g_.IsParam(def) && g_.node(def).op == op::kSmeltView;
  if (shortened) base = g_.node(def).inputs[0];
  const NodeId view = InsertRegionNode(anchor, op::kSmeltView, {base},
                                       Type::Tensor(geometry.dtype, geometry.sizes, geometry.strides), geometry);
  if (shortened) {
    // Copied, because setting an attribute may move others.
    if (const Attribute* home = g_.node(def).FindAttribute("argument"))
      g_.SetAttribute(view, "argument", Attribute(*home));
  }
  return view;
}

NodeId Expander::InsertRegionNode(NodeId anchor, absl::string_view op, std::vector<ValueId> inputs, Type type,
                                  const SymbolicGeometry& g) {
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op), inputs, {type},
                             {{"sizes", g.sizes},
                              {"strides", g.strides},
                              {"offset", g.offset},
                              {"dtype", static_cast<int64_t>(ScalarTypeOf(g.dtype))}});
  g_.SetSource(n, source_);
  return n;
}

absl::StatusOr<Expander::Step> Expander::View(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
  // Which argument is the base: the first tensor, but for those that say otherwise.
  const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  int base = -1;
  for (size_t i = 0; i < inputs.size() && base < 0; ++i) {
    if (g_.value(inputs[i]).type.IsTensor()) base = static_cast<int>(i);
  }
  if (base < 0 || !T(inputs[base]).IsComplete())
    return absl::UnimplementedError("a view of something that is no tensor of a known type");
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildView(call, GeometryOf(inputs[base]), g_.symbols));
  if (m.base != base) {
    SMELT_ASSIGN_OR_RETURN(m, BuildView(call, GeometryOf(inputs[m.base]), g_.symbols));
  }
  const ValueId of = inputs[m.base];
  std::vector<ValueId> views;
  for (const SymbolicGeometry& v : m.outputs) views.push_back(Shown(n, of, v));
  if (!m.is_list) {
    ReplaceWith(n, views[0]);
    return Step::kChanged;
  }
  ReplaceList(n, views);
  return Step::kChanged;
}

ValueId Expander::Shown(NodeId anchor, ValueId base, const SymbolicGeometry& v) {
  const SymbolicGeometry own = GeometryOf(base);
  bool same = own.dtype == v.dtype && own.sizes == v.sizes && own.offset == v.offset;
  for (size_t d = 0; same && d < v.sizes.size(); ++d) same = own.sizes[d] == Expr(1) || own.strides[d] == v.strides[d];
  if (same) return base;
  return Out(InsertView(anchor, base, v));
}

void Expander::ReplaceList(NodeId n, const std::vector<ValueId>& elements) {
  const ValueId list = Out(n);
  std::vector<NodeId> unpacks;
  for (const Use& u : g_.value(list).uses) {
    if (g_.node(u.user).op == op::kPrimListUnpack && g_.node(u.user).outputs.size() == elements.size())
      unpacks.push_back(u.user);
  }
  for (NodeId u : unpacks) {
    const std::vector<ValueId> outputs(g_.node(u).outputs.begin(), g_.node(u).outputs.end());
    for (size_t i = 0; i < outputs.size(); ++i) g_.ReplaceAllUses(outputs[i], elements[i]);
    g_.Erase(u);
  }
  if (!g_.value(list).uses.empty()) {
    NodeId construct = g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), elements, {g_.value(list).type});
    g_.SetSource(construct, source_);
    g_.ReplaceAllUses(list, Out(construct));
  }
  g_.Erase(n);
}

}  // namespace smelt
