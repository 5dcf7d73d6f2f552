// Copies, and tensors that are assembled in fresh memory: cat, stack, scatters of views.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/expander.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

ValueId Expander::Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType t = T(v);
  bool same = true;
  for (size_t d = 0; d < strides.size(); ++d)
    same = same && ((*t.sizes)[d] == Expr(1) || (*t.strides)[d] == strides[d]);
  return same ? v : Copied(anchor, v, strides);
}

ValueId Expander::Copied(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType t = T(v);
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kSmeltMaterialize), {v},
                             {Type::Tensor(*t.dtype, *t.sizes, strides)}, {{"strides", strides}});
  g_.SetSource(n, source_);
  return Out(n);
}

ValueId Expander::Whole(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltView) return Materialize(anchor, v, strides);
  return Copied(anchor, v, strides);
}

absl::StatusOr<Expander::Step> Expander::Copy(NodeId n) {
  const ValueId in = g_.node(n).inputs[0];
  if (!T(Out(n)).IsComplete()) return absl::UnimplementedError("a copy of a type that is not known");
  ReplaceWith(n, Materialize(n, in, *T(Out(n)).strides));
  return Step::kChanged;
}

absl::StatusOr<bool> Expander::FlatRoll(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dims"));
  const ValueId self = g_.node(n).inputs[0], shifts = g_.node(n).inputs[1];
  const TensorType t = T(self);
  if (!dims.empty() || !t.IsComplete() || !T(Out(n)).IsComplete() || IsComplex(*t.dtype)) return false;
  const ValueId dense = Materialize(n, self, ContiguousStrides(*t.sizes));
  SymbolicGeometry row{*t.dtype, {Product(*t.sizes)}, {Expr(1)}, GeometryOf(dense).offset};
  const ValueId flat = Shown(n, dense, row);
  const NodeId rolled =
      g_.InsertBefore(n, OpName::Get(op::kRoll), {flat, shifts, InsertConstant(g_, n, std::vector<int64_t>{0})},
                      {Type::Tensor(*t.dtype, row.sizes, row.strides)});
  g_.SetSource(rolled, source_);
  const SymbolicGeometry whole{*t.dtype, *t.sizes, *T(Out(n)).strides, Expr(0)};
  ReplaceWith(n, Shown(n, Out(rolled), whole));
  return true;
}

absl::StatusOr<Expander::Step> Expander::Fill(NodeId n) {
  const TensorType out = T(Out(n));
  if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
  const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  if (inputs.size() > 1 && g_.value(inputs[1]).type.IsTensor()) {
    if (!T(inputs[1]).IsComplete() || T(inputs[1]).rank() != 0) return Step::kKeep;
    const ValueId value = Cast(n, inputs[1], *out.dtype);
    const SymbolicGeometry everywhere{*out.dtype, *out.sizes, std::vector<Expr>(out.sizes->size(), Expr(0)),
                                      GeometryOf(value).offset};
    ReplaceWith(n, Copied(n, Shown(n, value, everywhere), *out.strides));
    return Step::kChanged;
  }
  const ValueId none = InsertConstant(g_, n, std::monostate());
  const NodeId full =
      g_.InsertBefore(n, OpName::Get(op::kFull),
                      {IntList(n, *out.sizes), inputs.size() > 1 ? inputs[1] : InsertConstant(g_, n, int64_t{0}),
                       InsertConstant(g_, n, ScalarTypeOf(*out.dtype)), none, none, none},
                      {Type::Tensor(*out.dtype, *out.sizes, *out.strides)});
  g_.SetSource(full, source_);
  ReplaceWith(n, Out(full));
  return Step::kChanged;
}

ValueId Expander::Cast(NodeId anchor, ValueId v, DType to) {
  const TensorType t = T(v);
  if (*t.dtype == to) return v;
  std::vector<ValueId> args = {v, InsertConstant(g_, anchor, ScalarTypeOf(to))};
  NodeId n = g_.InsertBefore(anchor, OpName::Get("prims::convert_element_type"), args,
                             {Type::Tensor(to, *t.sizes, *t.strides)});
  g_.SetSource(n, source_);
  return Out(n);
}

ValueId Expander::IntList(NodeId anchor, const std::vector<Expr>& sizes) { return Emit(g_, anchor).Ints(sizes); }

ValueId Expander::Empty(NodeId anchor, const TensorType& t) {
  const ValueId none = InsertConstant(g_, anchor, std::monostate());
  NodeId n = g_.InsertBefore(
      anchor, OpName::Get(op::kEmptyStrided),
      {IntList(anchor, *t.sizes), IntList(anchor, *t.strides), InsertConstant(g_, anchor, ScalarTypeOf(*t.dtype)), none,
       none, InsertConstant(g_, anchor, false)},
      {Type::Tensor(*t.dtype, *t.sizes, *t.strides)});
  g_.SetSource(n, source_);
  return Out(n);
}

bool Expander::IsReadByKernels(NodeId n) const {
  constexpr size_t kMaxParts = 4;
  const std::optional<std::vector<ValueId>> parts = GetListElements(g_, g_.node(n).inputs[0]);
  if (g_.node(n).op.name() == op::kStack || !parts || parts->size() < 2 || parts->size() > kMaxParts ||
      !IsKernelNode(g_, n) || g_.value(Out(n)).uses.empty()) {
    return false;
  }
  return IsReadByKernels(Out(n), g_.node(n).parent);
}

bool Expander::IsReadByKernels(ValueId v, BlockId block) const {
  return absl::c_all_of(g_.value(v).uses, [&](const Use& u) {
    if (g_.IsReturn(u.user)) return false;
    const Node& user = g_.node(u.user);
    if (user.parent != block) return false;
    if (user.op == op::kSmeltView) return IsReadByKernels(user.outputs[0], block);
    if (!IsKernelNode(g_, u.user)) return false;
    if (user.op == op::kSmeltWriteRegion) return u.index == 1;
    const OpKind kind = GetOpInfo(user.op).kind;
    return kind == OpKind::kPointwise || kind == OpKind::kReduction;
  });
}

absl::StatusOr<Expander::Step> Expander::Cat(NodeId n) {
  const bool stack = g_.node(n).op.name() == op::kStack;
  std::optional<std::vector<ValueId>> elements = GetListElements(g_, g_.node(n).inputs[0]);
  const std::optional<Expr> dim_arg = GetIntExpr(g_, g_.node(n).inputs[1]);
  if (!elements || elements->empty()) return absl::UnimplementedError("a list that is not made in place");
  if (!dim_arg || !dim_arg->IsConstant()) return absl::UnimplementedError("a dim that is not a constant");
  const TensorType out = T(Out(n));
  if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
  if (IsComplex(*out.dtype)) return Step::kUnsupported;
  int64_t dim = *dim_arg->Constant();
  if (dim < 0) dim += out.rank();
  if (dim < 0 || dim >= out.rank()) return absl::InvalidArgumentError(absl::StrCat("dim ", dim, " is out of range"));
  struct Part {
    ValueId value;
    SymbolicGeometry region;
  };
  std::vector<Part> parts;
  Expr offset = 0;
  for (ValueId e : *elements) {
    if (!g_.value(e).type.IsTensor() || !T(e).IsComplete())
      return absl::UnimplementedError("an element of unknown type");
    const std::vector<Expr>& sizes = *T(e).sizes;
    if (!stack && sizes.size() == 1 && sizes[0] == Expr(0) && out.rank() != 1)
      continue;  // PyTorch skips an empty list of numbers
    Part p;
    p.value = e;
    p.region.dtype = *out.dtype;
    p.region.sizes = sizes;
    p.region.strides = *out.strides;
    if (stack) p.region.strides.erase(p.region.strides.begin() + dim);
    p.region.offset = offset * (*out.strides)[dim];
    offset = offset + (stack ? Expr(1) : sizes[dim]);
    if (!stack && sizes[dim] == Expr(0)) continue;
    if (p.region.sizes.size() != p.region.strides.size())
      return absl::InvalidArgumentError("elements of different ranks");
    parts.push_back(std::move(p));
  }
  if (parts.empty()) {
    ReplaceWith(n, Empty(n, out));
    return Step::kChanged;
  }
  if (parts.size() == 1 && !stack) {
    // The result must not be a view or an argument: views of it count from its own beginning.
    const ValueId only = Cast(n, parts[0].value, *out.dtype);
    const NodeId def = g_.value(only).def;
    const bool owner = !g_.IsParam(def) && g_.node(def).op != op::kSmeltView;
    ReplaceWith(n, owner ? Materialize(n, only, *out.strides) : Copied(n, only, *out.strides));
    return Step::kChanged;
  }
  // Regions are disjoint, so any order is right. The order in which the parts are made allows each to be written where
  // it is made.
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const Part& a, const Part& b) { return MadeBefore(n, a.value, b.value); });
  const Type type = Type::Tensor(*out.dtype, *out.sizes, *out.strides);
  ValueId whole = Empty(n, out);
  for (const Part& p : parts)
    whole = Out(InsertRegionNode(n, op::kSmeltWriteRegion, {whole, Cast(n, p.value, *out.dtype)}, type, p.region));
  ReplaceWith(n, whole);
  return Step::kChanged;
}

bool Expander::MadeBefore(NodeId n, ValueId a, ValueId b) const {
  auto place = [&](ValueId v) {
    NodeId def = g_.value(v).def;
    while (!g_.IsParam(def) && g_.node(def).op == op::kSmeltView) def = g_.value(g_.node(def).inputs[0]).def;
    return g_.IsParam(def) || g_.node(def).parent != g_.node(n).parent ? NodeId() : def;
  };
  const NodeId pa = place(a), pb = place(b);
  if (!pa.valid() || !pb.valid()) return !pa.valid() && pb.valid();
  return pa != pb && g_.IsBefore(pa, pb);
}

absl::StatusOr<Expander::Step> Expander::ViewScatter(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g_, n));
  const TensorType out = T(Out(n));
  const ValueId self = g_.node(n).inputs[0], src = g_.node(n).inputs[1];
  const SymbolicGeometry base{*out.dtype, *out.sizes, *out.strides, Expr(0)};
  // The place of an argument in its storage is known when the plan runs: a region before it does not lie in the copy.
  absl::flat_hash_map<std::string, int64_t> hints = g_.symbol_hints;
  for (const OpArg& a : call.args()) {
    if (a.kind != OpArg::Kind::kInt || call.op() != op::kAsStridedScatter) continue;
    for (const std::string& s : a.expr.Symbols()) hints.try_emplace(s, 0);
  }
  SymbolicDecide decide(&g_.symbols, hints);
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildScatteredView(call, base, decide));
  // The copy that is written into; it is in place if self dies here.
  const ValueId whole = Whole(n, self, *out.strides);
  ReplaceWith(n, Out(InsertRegionNode(n, op::kSmeltWriteRegion, {whole, Cast(n, src, *out.dtype)},
                                      Type::Tensor(*out.dtype, *out.sizes, *out.strides), m.outputs[0])));
  return Step::kChanged;
}

}  // namespace smelt
