#include "smelt/fuser/expansion.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "smelt/core/op/emit.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

void Expansion::ReplaceWith(NodeId n, ValueId v) {
  g_.ReplaceAllUses(Out(n), v);
  g_.Erase(n);
}

SymbolicGeometry Expansion::GeometryOf(ValueId v) const {
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

NodeId Expansion::InsertView(NodeId anchor, ValueId base, const SymbolicGeometry& geometry) {
  // A view counts from the beginning of the storage, or of the argument that it names, not from the view that it is of.
  const NodeId outer = ViewNodeOf(g_, base);
  if (outer.valid()) base = g_.node(outer).inputs[0];
  const NodeId view = InsertRegionNode(anchor, op::kSmeltView, {base},
                                       Type::Tensor(geometry.dtype, geometry.sizes, geometry.strides), geometry);
  if (outer.valid()) {
    // Copied, because setting an attribute may move others.
    if (const Attribute* home = g_.node(outer).FindAttribute("argument"))
      g_.SetAttribute(view, "argument", Attribute(*home));
  }
  return view;
}

NodeId Expansion::InsertRegionNode(NodeId anchor, absl::string_view op, std::vector<ValueId> inputs, Type type,
                                   const SymbolicGeometry& g) {
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op), inputs, {type},
                             {{"sizes", g.sizes},
                              {"strides", g.strides},
                              {"offset", g.offset},
                              {"dtype", static_cast<int64_t>(ScalarTypeOf(g.dtype))}});
  g_.SetSource(n, source_);
  return n;
}

ValueId Expansion::Shown(NodeId anchor, ValueId base, const SymbolicGeometry& v) {
  const SymbolicGeometry own = GeometryOf(base);
  bool same = own.dtype == v.dtype && own.sizes == v.sizes && own.offset == v.offset;
  for (size_t d = 0; same && d < v.sizes.size(); ++d) same = own.sizes[d] == Expr(1) || own.strides[d] == v.strides[d];
  if (same) return base;
  return Out(InsertView(anchor, base, v));
}

void Expansion::ReplaceList(NodeId n, const std::vector<ValueId>& elements) {
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

ValueId Expansion::Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType t = T(v);
  bool same = true;
  for (size_t d = 0; d < strides.size(); ++d)
    same = same && ((*t.sizes)[d] == Expr(1) || (*t.strides)[d] == strides[d]);
  return same ? v : Copied(anchor, v, strides);
}

ValueId Expansion::Copied(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType t = T(v);
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kSmeltMaterialize), {v},
                             {Type::Tensor(*t.dtype, *t.sizes, strides)}, {{"strides", strides}});
  g_.SetSource(n, source_);
  return Out(n);
}

ValueId Expansion::Whole(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  if (!ViewNodeOf(g_, v).valid()) return Materialize(anchor, v, strides);
  return Copied(anchor, v, strides);
}

ValueId Expansion::Cast(NodeId anchor, ValueId v, DType to) {
  const TensorType t = T(v);
  if (*t.dtype == to) return v;
  std::vector<ValueId> args = {v, InsertConstant(g_, anchor, ScalarTypeOf(to))};
  NodeId n = g_.InsertBefore(anchor, OpName::Get("prims::convert_element_type"), args,
                             {Type::Tensor(to, *t.sizes, *t.strides)});
  g_.SetSource(n, source_);
  return Out(n);
}

ValueId Expansion::IntList(NodeId anchor, const std::vector<Expr>& sizes) { return Emit(g_, anchor).Ints(sizes); }

ValueId Expansion::Empty(NodeId anchor, const TensorType& t) {
  const ValueId none = InsertConstant(g_, anchor, std::monostate());
  NodeId n = g_.InsertBefore(
      anchor, OpName::Get(op::kEmptyStrided),
      {IntList(anchor, *t.sizes), IntList(anchor, *t.strides), InsertConstant(g_, anchor, ScalarTypeOf(*t.dtype)), none,
       none, InsertConstant(g_, anchor, false)},
      {Type::Tensor(*t.dtype, *t.sizes, *t.strides)});
  g_.SetSource(n, source_);
  return Out(n);
}

}  // namespace smelt
