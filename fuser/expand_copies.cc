#include "smelt/fuser/expand_copies.h"

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
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

bool IsReadByKernels(const Graph& g, ValueId v, BlockId block) {
  return absl::c_all_of(g.value(v).uses, [&](const Use& u) {
    if (g.IsReturn(u.user)) return false;
    const Node& user = g.node(u.user);
    if (user.parent != block) return false;
    if (user.op == op::kSmeltView) return IsReadByKernels(g, user.outputs[0], block);
    if (!IsKernelNode(g, u.user)) return false;
    if (user.op == op::kSmeltWriteRegion) return u.index == 1;
    const OpKind kind = GetOpInfo(user.op).kind;
    return kind == OpKind::kPointwise || kind == OpKind::kReduction;
  });
}

// Compares values of `n`'s block; values of other blocks come first.
bool MadeBefore(const Graph& g, NodeId n, ValueId a, ValueId b) {
  auto place = [&](ValueId v) {
    const NodeId def = g.value(StorageOf(g, v)).def;
    return g.IsParam(def) || g.node(def).parent != g.node(n).parent ? NodeId() : def;
  };
  const NodeId pa = place(a), pb = place(b);
  if (!pa.valid() || !pb.valid()) return !pa.valid() && pb.valid();
  return pa != pb && g.IsBefore(pa, pb);
}

}  // namespace

absl::StatusOr<ExpansionStep> ExpandCopy(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const ValueId in = g.node(n).inputs[0];
  if (!edit.T(edit.Out(n)).IsComplete()) return absl::UnimplementedError("a copy of a type that is not known");
  edit.ReplaceWith(n, edit.Materialize(n, in, *edit.T(edit.Out(n)).strides));
  return ExpansionStep::kChanged;
}

absl::StatusOr<bool> ExpandFlatRoll(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts("dims"));
  const ValueId self = g.node(n).inputs[0], shifts = g.node(n).inputs[1];
  const TensorType t = edit.T(self);
  if (!dims.empty() || !t.IsComplete() || !edit.T(edit.Out(n)).IsComplete() || IsComplex(*t.dtype)) return false;
  const ValueId dense = edit.Materialize(n, self, ContiguousStrides(*t.sizes));
  SymbolicGeometry row{*t.dtype, {Product(*t.sizes)}, {Expr(1)}, edit.GeometryOf(dense).offset};
  const ValueId flat = edit.Shown(n, dense, row);
  const NodeId rolled =
      g.InsertBefore(n, OpName::Get(op::kRoll), {flat, shifts, InsertConstant(g, n, std::vector<int64_t>{0})},
                     {Type::Tensor(*t.dtype, row.sizes, row.strides)});
  g.SetSource(rolled, edit.source());
  const SymbolicGeometry whole{*t.dtype, *t.sizes, *edit.T(edit.Out(n)).strides, Expr(0)};
  edit.ReplaceWith(n, edit.Shown(n, edit.Out(rolled), whole));
  return true;
}

absl::StatusOr<ExpansionStep> ExpandFill(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const TensorType out = edit.T(edit.Out(n));
  if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
  const std::vector<ValueId> inputs(g.node(n).inputs.begin(), g.node(n).inputs.end());
  if (inputs.size() > 1 && g.value(inputs[1]).type.IsTensor()) {
    if (!edit.T(inputs[1]).IsComplete() || edit.T(inputs[1]).rank() != 0) return ExpansionStep::kKeep;
    const ValueId value = edit.Cast(n, inputs[1], *out.dtype);
    const SymbolicGeometry everywhere{*out.dtype, *out.sizes, std::vector<Expr>(out.sizes->size(), Expr(0)),
                                      edit.GeometryOf(value).offset};
    edit.ReplaceWith(n, edit.Copied(n, edit.Shown(n, value, everywhere), *out.strides));
    return ExpansionStep::kChanged;
  }
  const ValueId none = InsertConstant(g, n, std::monostate());
  const NodeId full =
      g.InsertBefore(n, OpName::Get(op::kFull),
                     {edit.IntList(n, *out.sizes), inputs.size() > 1 ? inputs[1] : InsertConstant(g, n, int64_t{0}),
                      InsertConstant(g, n, ScalarTypeOf(*out.dtype)), none, none, none},
                     {Type::Tensor(*out.dtype, *out.sizes, *out.strides)});
  g.SetSource(full, edit.source());
  edit.ReplaceWith(n, edit.Out(full));
  return ExpansionStep::kChanged;
}

bool IsReadByKernels(const Graph& g, NodeId n) {
  constexpr size_t kMaxParts = 4;
  const std::optional<std::vector<ValueId>> parts = GetListElements(g, g.node(n).inputs[0]);
  if (g.node(n).op.name() == op::kStack || !parts || parts->size() < 2 || parts->size() > kMaxParts ||
      !IsKernelNode(g, n) || g.value(g.node(n).outputs[0]).uses.empty()) {
    return false;
  }
  return IsReadByKernels(g, g.node(n).outputs[0], g.node(n).parent);
}

absl::StatusOr<ExpansionStep> ExpandCat(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const bool stack = g.node(n).op.name() == op::kStack;
  std::optional<std::vector<ValueId>> elements = GetListElements(g, g.node(n).inputs[0]);
  const std::optional<Expr> dim_arg = GetIntExpr(g, g.node(n).inputs[1]);
  if (!elements || elements->empty()) return absl::UnimplementedError("a list that is not made in place");
  if (!dim_arg || !dim_arg->IsConstant()) return absl::UnimplementedError("a dim that is not a constant");
  const TensorType out = edit.T(edit.Out(n));
  if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
  if (IsComplex(*out.dtype)) return ExpansionStep::kUnsupported;
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
    if (!g.value(e).type.IsTensor() || !edit.T(e).IsComplete())
      return absl::UnimplementedError("an element of unknown type");
    const std::vector<Expr>& sizes = *edit.T(e).sizes;
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
    edit.ReplaceWith(n, edit.Empty(n, out));
    return ExpansionStep::kChanged;
  }
  if (parts.size() == 1 && !stack) {
    // The result must not be a view or an argument: views of it count from its own beginning.
    const ValueId only = edit.Cast(n, parts[0].value, *out.dtype);
    const bool owner = !g.IsParam(g.value(only).def) && StorageOf(g, only) == only;
    edit.ReplaceWith(n, owner ? edit.Materialize(n, only, *out.strides) : edit.Copied(n, only, *out.strides));
    return ExpansionStep::kChanged;
  }
  // Regions are disjoint, so any order is right. The order in which the parts are made allows each to be written where
  // it is made.
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const Part& a, const Part& b) { return MadeBefore(g, n, a.value, b.value); });
  const Type type = Type::Tensor(*out.dtype, *out.sizes, *out.strides);
  ValueId whole = edit.Empty(n, out);
  for (const Part& p : parts)
    whole = edit.Out(
        edit.InsertRegionNode(n, op::kSmeltWriteRegion, {whole, edit.Cast(n, p.value, *out.dtype)}, type, p.region));
  edit.ReplaceWith(n, whole);
  return ExpansionStep::kChanged;
}

absl::StatusOr<ExpansionStep> ExpandViewScatter(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  const TensorType out = edit.T(edit.Out(n));
  const ValueId self = g.node(n).inputs[0], src = g.node(n).inputs[1];
  const SymbolicGeometry base{*out.dtype, *out.sizes, *out.strides, Expr(0)};
  // The place of an argument in its storage is known when the plan runs: a region before it does not lie in the copy.
  absl::flat_hash_map<std::string, int64_t> hints = g.symbol_hints;
  for (const OpArg& a : call.args()) {
    if (a.kind != OpArg::Kind::kInt || call.op() != op::kAsStridedScatter) continue;
    for (const std::string& s : a.expr.Symbols()) hints.try_emplace(s, 0);
  }
  SymbolicDecide decide(&g.symbols, hints);
  SMELT_ASSIGN_OR_RETURN(ViewMeaning m, BuildScatteredView(call, base, decide));
  // The copy that is written into; it is in place if self dies here.
  const ValueId whole = edit.Whole(n, self, *out.strides);
  edit.ReplaceWith(n,
                   edit.Out(edit.InsertRegionNode(n, op::kSmeltWriteRegion, {whole, edit.Cast(n, src, *out.dtype)},
                                                  Type::Tensor(*out.dtype, *out.sizes, *out.strides), m.outputs[0])));
  return ExpansionStep::kChanged;
}

}  // namespace smelt
