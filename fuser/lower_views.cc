#include "smelt/fuser/lower_views.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_indexing.h"
#include "smelt/fuser/placement.h"

namespace smelt::kernel {
namespace {

absl::StatusOr<Index> ViewIndex(Lowering& l, NodeId n, const Index& index) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const ValueId base = group.node(n).inputs[0];
  const TensorType& t = group.value(base).type.tensor();
  const SymbolicGeometry view = RegionGeometry(group.node(n));
  if (view.dtype != *t.dtype) return group.Unsupported(n, "a view of a group's own value through another dtype");
  const std::vector<Expr>& sizes = *t.sizes;
  const std::vector<Expr>& strides = *t.strides;
  const SymbolRanges& ranges = group.graph().symbols;
  std::optional<Placement> placed = PlaceRegion(view, sizes, strides, ranges);
  bool fits = placed.has_value();
  Index out(sizes.size(), builder.Zero());
  for (size_t j = 0; fits && j < sizes.size(); ++j) {
    out[j].base = placed->dims[j].start;
    for (const Placement::Run& run : placed->dims[j].runs)
      out[j] = builder.Add(out[j], builder.Scale(index[run.dim], run.step));
  }
  // A dim that runs over a whole number of steps of one base dim, then over the next wider one.
  for (size_t k = 0; fits && k < placed->across.size(); ++k) {
    const int dim = placed->across[k];
    fits = false;
    for (size_t j = 1; j < placed->order.size() && !fits; ++j) {
      const int inner = placed->order[j], outer = placed->order[j - 1];
      const auto step = StepsOf(view.strides[dim], strides[inner]);
      if (!step || strides[outer] != strides[inner] * sizes[inner]) continue;
      const auto times = StepsOf(sizes[inner], *step);
      if (!times) continue;
      const Expr inner_last = placed->dims[inner].last + *step * (*times - 1);
      const Expr outer_last = placed->dims[outer].last + FloorDiv(view.sizes[dim] - 1, *times);
      if (ranges.LessOrEqual(inner_last, sizes[inner] - 1) != true ||
          ranges.LessOrEqual(outer_last, sizes[outer] - 1) != true) {
        break;
      }
      SMELT_ASSIGN_OR_RETURN(Lowering::Division along, l.Divide(index[dim], *times));
      out[inner] = builder.Add(out[inner], builder.Scale(along.remainder, *step));
      out[outer] = builder.Add(out[outer], along.quotient);
      placed->dims[inner].last = inner_last;
      placed->dims[outer].last = outer_last;
      fits = true;
    }
  }
  if (fits) return out;
  // A view dim that flattens base dims, or splits one, is found by its place in the base, if that is dense.
  const std::vector<int> order = DimsByStride(sizes, strides, ranges);
  std::vector<Expr> dense;
  Expr expected = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (strides[*it] != expected)
      return group.Unsupported(n, "a view that cuts across the dims of a group's own value");
    expected = expected * sizes[*it];
  }
  for (int j : order) dense.push_back(sizes[j]);
  Affine linear = builder.Zero();
  linear.base = view.offset;
  for (size_t k = 0; k < view.sizes.size(); ++k) linear = builder.Add(linear, builder.Scale(index[k], view.strides[k]));
  SMELT_ASSIGN_OR_RETURN(Index along, l.Unflatten(linear, dense));
  Index at(sizes.size(), builder.Zero());
  for (size_t k = 0; k < order.size(); ++k) at[order[k]] = along[k];
  return at;
}

// The elements of a vector are adjacent except for a few. Those few are read by their own places, the others as one.
absl::StatusOr<int> ReadEither(Lowering& l, ValueId v, int condition, const Index& then, const Index& otherwise,
                               int guard) {
  Builder& builder = l.builder();
  const int contrary = builder.Op(ScalarOp::kNot, DType::kBool, condition);
  SMELT_ASSIGN_OR_RETURN(int a, l.Eval(v, then, l.And(guard, condition)));
  SMELT_ASSIGN_OR_RETURN(int b, l.Eval(v, otherwise, l.And(guard, contrary)));
  return l.Select(condition, a, b);
}

}  // namespace

absl::StatusOr<int> LowerView(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const ValueId base = group.node(n).inputs[0];
  if (!group.IsInternal(base)) {
    const ValueId outer = group.OuterValue(base);
    if (!outer.valid()) return group.Unsupported(n, "a view of a tensor that a group cannot take from outside");
    auto [access, offset] = builder.Address(outer, false, -1, RegionGeometry(group.node(n)), index);
    return builder.Load(access, offset, guard);
  }
  SMELT_ASSIGN_OR_RETURN(Index at, ViewIndex(l, n, index));
  return l.Eval(base, at, guard);
}

absl::StatusOr<int> LowerOverlay(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const ValueId base = group.node(n).inputs[0], value = group.node(n).inputs[1];
  const TensorType& t = group.value(base).type.tensor();
  const SymbolicGeometry region = RegionGeometry(group.node(n));
  const std::optional<Placement> placed = PlaceRegion(region, *t.sizes, *t.strides, group.graph().symbols);
  if (!placed || !placed->across.empty()) return group.Unsupported(n, "a region that cuts across the dims of its base");
  Index at(region.sizes.size(), builder.Zero());
  std::vector<bool> known(region.sizes.size(), false);
  int inside = -1;
  for (int j : placed->order) {
    const Placement::Dim& dim = placed->dims[j];
    if (dim.runs.size() > 1) return group.Unsupported(n, "a region with two dims along one of its base's");
    Affine along = index[j];
    Expr start = dim.start;
    Expr length = 1;
    if (!dim.runs.empty()) {
      const auto& [k, step] = dim.runs[0];
      length = region.sizes[k];
      if (step != Expr(1)) {
        SMELT_ASSIGN_OR_RETURN(Lowering::Division steps, l.Divide(along, step));
        Affine off = steps.remainder;
        off.base = off.base - Mod(start, step);
        inside = l.And(inside, l.InRange(off, 1));
        along = steps.quotient;
        start = FloorDiv(start, step);
      }
      along.base = along.base - start;
      if (known[k]) {
        // The other of a diagonal's dims is as far from its beginning as this one.
        inside = l.And(inside, l.InRange(builder.Add(along, builder.Scale(at[k], Expr(-1))), 1));
        continue;
      }
      at[k] = along;
      known[k] = true;
    } else {
      along.base = along.base - start;
    }
    inside = l.And(inside, l.InRange(along, length));
  }
  // The value under the region is computed in all of the region, too: it may be the one that refuses an index. It comes
  // first, since the written value is often made of it.
  SMELT_ASSIGN_OR_RETURN(int under, l.Eval(base, index, guard));
  // In the region, this is also the element at its own place along dims of which the region has one index.
  Index in_region = index;
  for (int j : placed->order) {
    if (!placed->dims[j].runs.empty()) continue;
    in_region[j] = builder.Zero();
    in_region[j].base = placed->dims[j].start;
  }
  if (group.IsInternal(base) && inside >= 0) {
    const NodeId def = group.value(base).def;
    if (group.node(def).outputs.size() == 1) l.Remember(def, in_region, l.And(guard, inside), under);
  }
  SMELT_ASSIGN_OR_RETURN(int written, l.Eval(value, at, l.And(guard, inside)));
  return l.Select(inside, written, under);
}

absl::StatusOr<int> LowerConstantPad(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs("pad"));
  const std::vector<Expr>& sizes = group.Sizes(self);
  Index at = index;
  int inside = -1;
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const size_t d = index.size() - 1 - k / 2;
    if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
    const Expr kept = sizes[d] + Min(pad[k], 0) + Min(pad[k + 1], 0);
    if (group.graph().symbols.LessOrEqual(kept, 0) == true) {
      return l.ScalarArg(n, *call->Find("value"), *group.value(self).type.tensor().dtype);
    }
    at[d].base = at[d].base - pad[k];
    inside = l.And(inside, l.InRange(at[d], sizes[d]));
  }
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, at, l.And(guard, inside)));
  if (inside < 0) return v;
  SMELT_ASSIGN_OR_RETURN(int fill, l.ScalarArg(n, *call->Find("value"), builder.TypeOf(v)));
  return l.Select(inside, v, fill);
}

absl::StatusOr<int> LowerEdgePad(Lowering& l, NodeId n, OpFamily kind, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs(kind == OpFamily::kCircularPad ? "pad" : "padding"));
  const std::vector<Expr>& sizes = group.Sizes(self);
  Index at = index;
  Index straight;  // the same where the last dim needs no change
  int inside = -1;
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const size_t d = index.size() - 1 - k / 2;
    if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
    at[d].base = at[d].base - pad[k];
    const Affine within = at[d];
    int v = builder.IndexValue(at[d]);
    const int last = l.Size(sizes[d] - 1);
    const int zero = builder.ConstInt(DType::kInt64, 0);
    // A place before the first element or beyond the last is another one. Nothing is looked up twice, so that a padding
    // too wide for the size of a call leads out of it.
    auto outside = [&](int before, int beyond) {
      const int is_before = builder.Op(ScalarOp::kLt, DType::kBool, v, zero);
      const int is_beyond = builder.Op(ScalarOp::kLt, DType::kBool, last, v);
      v = builder.Op(ScalarOp::kSelect, DType::kInt64, is_beyond, beyond, v);
      v = builder.Op(ScalarOp::kSelect, DType::kInt64, is_before, before, v);
    };
    // A padding that is too wide for a size is refused when both are known.
    const bool known = sizes[d].IsConstant() && pad[k].IsConstant() && pad[k + 1].IsConstant();
    if (kind == OpFamily::kReflectionPad && known) {
      v = l.I64(ScalarOp::kAbs, v);
      v = l.I64(ScalarOp::kSub, last, l.I64(ScalarOp::kAbs, l.I64(ScalarOp::kSub, last, v)));
    } else if (kind == OpFamily::kReflectionPad) {
      outside(l.I64(ScalarOp::kSub, zero, v), l.I64(ScalarOp::kSub, l.I64(ScalarOp::kAdd, last, last), v));
    } else if (kind == OpFamily::kCircularPad) {
      const int size = l.Size(sizes[d]);
      outside(l.I64(ScalarOp::kAdd, v, size), l.I64(ScalarOp::kSub, v, size));
    } else {
      v = l.I64(ScalarOp::kMin, l.I64(ScalarOp::kMax, v, zero), last);
    }
    if (!known) v = CheckedIndex(l, v, sizes[d], /*wrap=*/false, guard);
    at[d] = builder.Dynamic(v);
    if (d + 1 == index.size() && !group.IsInternal(self)) {
      inside = l.InRange(within, sizes[d]);
      straight = at;
      straight[d] = within;
    } else if (!straight.empty()) {
      straight[d] = at[d];
    }
  }
  if (inside < 0) return l.Eval(self, at, guard);
  return ReadEither(l, self, inside, straight, at, guard);
}

absl::StatusOr<int> LowerFlip(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call->GetInts("dims"));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  Index at = index;
  for (int64_t d : dims) {
    if (d < 0) d += static_cast<int64_t>(index.size());
    if (d < 0 || d >= static_cast<int64_t>(index.size())) continue;
    at[d] = builder.Scale(index[d], Expr(-1));
    at[d].base = at[d].base + group.Sizes(self)[d] - 1;
  }
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerRoll(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shifts, call->GetExprs("shifts"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call->GetInts("dims"));
  const std::vector<Expr>& sizes = group.Sizes(self);
  if (dims.empty()) {
    if (shifts.size() != 1) return call->Error("shifts and dims differ in length");
    Affine flat = l.Flatten(index, sizes);
    flat.base = flat.base - shifts[0];
    const int around = l.I64(ScalarOp::kRemFloor, builder.IndexValue(flat), l.Size(Product(sizes)));
    SMELT_ASSIGN_OR_RETURN(Index at, l.Unflatten(builder.Dynamic(around), sizes));
    return l.Eval(self, at, guard);
  }
  if (dims.size() != shifts.size()) return call->Error("shifts and dims differ in length");
  Index at = index;
  int inside = -1;
  Affine wrapped;
  for (int64_t& d : dims) {
    if (d < 0) d += static_cast<int64_t>(index.size());
    if (d < 0 || d >= static_cast<int64_t>(index.size())) return call->Error("a dim out of range");
  }
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t d = dims[k];
    if (sizes[d] == Expr(0)) continue;
    const Expr shift = Mod(shifts[k], Max(sizes[d], Expr(1)));  // a dynamic size may be 0
    if (shift == Expr(0)) continue;
    at[d].base = at[d].base - shift;
    Affine around = at[d];
    around.base = around.base + sizes[d];
    const int v = builder.IndexValue(at[d]);
    const int forward = builder.Op(ScalarOp::kGe, DType::kBool, v, builder.ConstInt(DType::kInt64, 0));
    if (d + 1 == index.size() && !group.IsInternal(self) && std::count(dims.begin(), dims.end(), dims[k]) == 1) {
      inside = forward;
      wrapped = around;
    } else {
      at[d] = builder.Dynamic(builder.Op(ScalarOp::kSelect, DType::kInt64, forward, v, builder.IndexValue(around)));
    }
  }
  if (inside < 0) return l.Eval(self, at, guard);
  Index other = at;
  other.back() = wrapped;
  return ReadEither(l, self, inside, at, other, guard);
}

absl::StatusOr<int> LowerRepeat(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  const std::vector<Expr>& sizes = group.Sizes(self);
  const std::vector<Expr>& out = group.Sizes(group.Out(n));
  Index at;
  const size_t lead = index.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == Expr(1)) {
      at.push_back(builder.Zero());
    } else if (sizes[d] == out[lead + d]) {
      at.push_back(index[lead + d]);
    } else {
      SMELT_ASSIGN_OR_RETURN(Lowering::Division along, l.Divide(index[lead + d], sizes[d]));
      at.push_back(along.remainder);
    }
  }
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerRepeatInterleave(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  if (group.node(n).op.overload() != "self_int") return group.Unsupported(n, "has no kernel");
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(Expr times, call->GetExpr("repeats"));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  Index at = index;
  if (call->IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(Lowering::Division along, l.Divide(index[0], times));
    SMELT_ASSIGN_OR_RETURN(at, l.Unflatten(along.quotient, group.Sizes(self)));
  } else {
    SMELT_ASSIGN_OR_RETURN(int d, group.DimArg(n, "dim", static_cast<int>(index.size())));
    SMELT_ASSIGN_OR_RETURN(Lowering::Division along, l.Divide(index[d], times));
    at[d] = along.quotient;
  }
  return l.Eval(self, at, guard);
}

absl::StatusOr<int> LowerCat(Lowering& l, NodeId n, bool stack, const Index& index, int guard) {
  Group& group = l.group();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  const OpArg* list = call->Find("tensors");
  if (list == nullptr || list->elements.empty()) return group.Unsupported(n, "a list that is not made in place");
  SMELT_ASSIGN_OR_RETURN(int dim, group.DimArg(n, "dim", static_cast<int>(index.size())));
  const DType t = group.Dt(group.Out(n));
  int result = -1;
  Expr offset = 0;
  for (const OpArg& e : list->elements) {
    const std::vector<Expr>& sizes = group.Sizes(e.value);
    if (!stack && sizes.size() == 1 && sizes[0] == Expr(0) && index.size() != 1)
      continue;  // legacy: an empty list of numbers
    Index at = index;
    at[dim].base = at[dim].base - offset;
    const Expr length = stack ? Expr(1) : sizes[dim];
    if (length == Expr(0)) continue;
    const int inside = l.InRange(at[dim], length);
    if (stack) at.erase(at.begin() + dim);
    SMELT_ASSIGN_OR_RETURN(int v, l.Eval(e.value, at, l.And(guard, inside)));
    v = l.Convert(v, t);
    result = result < 0 ? v : l.Select(inside, v, result);
    offset = offset + length;
  }
  if (result < 0) return l.Number(t, 0);
  return result;
}

}  // namespace smelt::kernel
