#include <algorithm>
#include <optional>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"
#include "smelt/fuser/placement.h"

namespace smelt::kernel {

absl::StatusOr<int> Lowering::EvalView(NodeId n, const Index& index, int guard) {
  const ValueId base = g_.node(n).inputs[0];
  if (!g_.IsInternal(base)) {
    const ValueId outer = g_.OuterValue(base);
    if (!outer.valid()) return g_.Unsupported(n, "a view of a tensor that a group cannot take from outside");
    auto [access, offset] = b_->Address(outer, false, -1, RegionGeometry(g_.node(n)), index);
    return b_->Load(access, offset, guard);
  }
  SMELT_ASSIGN_OR_RETURN(Index at, ViewIndex(n, index));
  return Eval(base, at, guard);
}

absl::StatusOr<Index> Lowering::ViewIndex(NodeId n, const Index& index) {
  const ValueId base = g_.node(n).inputs[0];
  const TensorType& t = g_.value(base).type.tensor();
  const SymbolicGeometry view = RegionGeometry(g_.node(n));
  if (view.dtype != *t.dtype) return g_.Unsupported(n, "a view of a group's own value through another dtype");
  const std::vector<Expr>& sizes = *t.sizes;
  const std::vector<Expr>& strides = *t.strides;
  const SymbolRanges& ranges = g_.graph().symbols;
  std::optional<Placement> placed = PlaceRegion(view, sizes, strides, ranges);
  bool fits = placed.has_value();
  Index out(sizes.size(), b_->Zero());
  for (size_t j = 0; fits && j < sizes.size(); ++j) {
    out[j].base = placed->dims[j].start;
    for (const Placement::Run& run : placed->dims[j].runs)
      out[j] = b_->Add(out[j], b_->Scale(index[run.dim], run.step));
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
      SMELT_ASSIGN_OR_RETURN(Division along, Divide(index[dim], *times));
      out[inner] = b_->Add(out[inner], b_->Scale(along.remainder, *step));
      out[outer] = b_->Add(out[outer], along.quotient);
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
    if (strides[*it] != expected) return g_.Unsupported(n, "a view that cuts across the dims of a group's own value");
    expected = expected * sizes[*it];
  }
  for (int j : order) dense.push_back(sizes[j]);
  Affine linear = b_->Zero();
  linear.base = view.offset;
  for (size_t k = 0; k < view.sizes.size(); ++k) linear = b_->Add(linear, b_->Scale(index[k], view.strides[k]));
  SMELT_ASSIGN_OR_RETURN(Index along, Unflatten(linear, dense));
  Index at(sizes.size(), b_->Zero());
  for (size_t k = 0; k < order.size(); ++k) at[order[k]] = along[k];
  return at;
}

Affine Lowering::Flatten(const Index& index, const std::vector<Expr>& sizes) {
  Affine flat = b_->Zero();
  Expr stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    flat = b_->Add(flat, b_->Scale(index[d], stride));
    stride = stride * sizes[d];
  }
  return flat;
}

absl::StatusOr<Lowering::Division> Lowering::Divide(const Affine& a, const Expr& m) {
  if (auto exact = b_->Divide(a, m)) return Division{exact->first, exact->second};
  constexpr size_t kMostSplits = 12;  // each begins anew
  if (auto parts = splits_.size() < kMostSplits ? b_->PartsFor(a, m) : std::nullopt) {
    split_ = DimSplit{parts->first, std::move(parts->second)};
    return absl::InternalError("split");
  }
  const int v = b_->IndexValue(a);
  const int size = Size(m);
  const int quotient = I64(ScalarOp::kDivTrunc, v, size);
  return Division{b_->Dynamic(quotient), b_->Dynamic(I64(ScalarOp::kSub, v, I64(ScalarOp::kMul, quotient, size)))};
}

absl::StatusOr<Index> Lowering::Unflatten(Affine flat, const std::vector<Expr>& sizes) {
  Index out(sizes.size(), b_->Zero());
  size_t first = 0;
  while (first < sizes.size() && sizes[first] == Expr(1)) ++first;
  for (size_t d = sizes.size(); d-- > first;) {
    if (sizes[d] == Expr(1)) continue;
    if (d == first) {
      out[d] = flat;
      break;
    }
    SMELT_ASSIGN_OR_RETURN(Division along, Divide(flat, sizes[d]));
    out[d] = along.remainder;
    flat = along.quotient;
  }
  return out;
}

absl::StatusOr<int> Lowering::EvalOverlay(NodeId n, const Index& index, int guard) {
  const ValueId base = g_.node(n).inputs[0], value = g_.node(n).inputs[1];
  const TensorType& t = g_.value(base).type.tensor();
  const SymbolicGeometry region = RegionGeometry(g_.node(n));
  const std::optional<Placement> placed = PlaceRegion(region, *t.sizes, *t.strides, g_.graph().symbols);
  if (!placed || !placed->across.empty()) return g_.Unsupported(n, "a region that cuts across the dims of its base");
  Index at(region.sizes.size(), b_->Zero());
  std::vector<bool> known(region.sizes.size(), false);
  int inside = -1;
  for (int j : placed->order) {
    const Placement::Dim& dim = placed->dims[j];
    if (dim.runs.size() > 1) return g_.Unsupported(n, "a region with two dims along one of its base's");
    Affine along = index[j];
    Expr start = dim.start;
    Expr length = 1;
    if (!dim.runs.empty()) {
      const auto& [k, step] = dim.runs[0];
      length = region.sizes[k];
      if (step != Expr(1)) {
        SMELT_ASSIGN_OR_RETURN(Division steps, Divide(along, step));
        Affine off = steps.remainder;
        off.base = off.base - Mod(start, step);
        inside = And(inside, InRange(off, 1));
        along = steps.quotient;
        start = FloorDiv(start, step);
      }
      along.base = along.base - start;
      if (known[k]) {
        // The other of a diagonal's dims is as far from its beginning as this one.
        inside = And(inside, InRange(b_->Add(along, b_->Scale(at[k], Expr(-1))), 1));
        continue;
      }
      at[k] = along;
      known[k] = true;
    } else {
      along.base = along.base - start;
    }
    inside = And(inside, InRange(along, length));
  }
  // The value under the region is computed in all of the region, too: it may be the one that refuses an index. It comes
  // first, since the written value is often made of it.
  SMELT_ASSIGN_OR_RETURN(int under, Eval(base, index, guard));
  // In the region, this is also the element at its own place along dims of which the region has one index.
  Index in_region = index;
  for (int j : placed->order) {
    if (!placed->dims[j].runs.empty()) continue;
    in_region[j] = b_->Zero();
    in_region[j].base = placed->dims[j].start;
  }
  if (g_.IsInternal(base) && inside >= 0) {
    const NodeId def = g_.value(base).def;
    std::vector<int> results(g_.node(def).outputs.size(), -1);
    results[g_.value(base).def_index] = under;
    if (results.size() == 1) memo_[def].push_back({in_region, And(guard, inside), results});
  }
  SMELT_ASSIGN_OR_RETURN(int written, Eval(value, at, And(guard, inside)));
  return Select(inside, written, under);
}

absl::StatusOr<int> Lowering::EvalConstantPad(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs("pad"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  Index at = index;
  int inside = -1;
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const size_t d = index.size() - 1 - k / 2;
    if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
    const Expr kept = sizes[d] + Min(pad[k], 0) + Min(pad[k + 1], 0);
    if (g_.graph().symbols.LessOrEqual(kept, 0) == true) {
      return ScalarArg(n, *call->Find("value"), *g_.value(self).type.tensor().dtype);
    }
    at[d].base = at[d].base - pad[k];
    inside = And(inside, InRange(at[d], sizes[d]));
  }
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
  if (inside < 0) return v;
  SMELT_ASSIGN_OR_RETURN(int fill, ScalarArg(n, *call->Find("value"), b_->TypeOf(v)));
  return Select(inside, v, fill);
}

absl::StatusOr<int> Lowering::EvalEdgePad(NodeId n, OpFamily kind, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs(kind == OpFamily::kCircularPad ? "pad" : "padding"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  Index at = index;
  Index straight;  // the same where the last dim needs no change
  int inside = -1;
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const size_t d = index.size() - 1 - k / 2;
    if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
    at[d].base = at[d].base - pad[k];
    const Affine within = at[d];
    int v = b_->IndexValue(at[d]);
    const int last = Size(sizes[d] - 1);
    const int zero = b_->ConstInt(DType::kInt64, 0);
    // A place before the first element or beyond the last is another one. Nothing is looked up twice, so that a padding
    // too wide for the size of a call leads out of it.
    auto outside = [&](int before, int beyond) {
      const int is_before = b_->Op(ScalarOp::kLt, DType::kBool, v, zero);
      const int is_beyond = b_->Op(ScalarOp::kLt, DType::kBool, last, v);
      v = b_->Op(ScalarOp::kSelect, DType::kInt64, is_beyond, beyond, v);
      v = b_->Op(ScalarOp::kSelect, DType::kInt64, is_before, before, v);
    };
    // A padding that is too wide for a size is refused when both are known.
    const bool known = sizes[d].IsConstant() && pad[k].IsConstant() && pad[k + 1].IsConstant();
    if (kind == OpFamily::kReflectionPad && known) {
      v = I64(ScalarOp::kAbs, v);
      v = I64(ScalarOp::kSub, last, I64(ScalarOp::kAbs, I64(ScalarOp::kSub, last, v)));
    } else if (kind == OpFamily::kReflectionPad) {
      outside(I64(ScalarOp::kSub, zero, v), I64(ScalarOp::kSub, I64(ScalarOp::kAdd, last, last), v));
    } else if (kind == OpFamily::kCircularPad) {
      const int size = Size(sizes[d]);
      outside(I64(ScalarOp::kAdd, v, size), I64(ScalarOp::kSub, v, size));
    } else {
      v = I64(ScalarOp::kMin, I64(ScalarOp::kMax, v, zero), last);
    }
    if (!known) v = Checked(v, sizes[d], /*wrap=*/false, guard);
    at[d] = b_->Dynamic(v);
    if (d + 1 == index.size() && !g_.IsInternal(self)) {
      inside = InRange(within, sizes[d]);
      straight = at;
      straight[d] = within;
    } else if (!straight.empty()) {
      straight[d] = at[d];
    }
  }
  if (inside < 0) return Eval(self, at, guard);
  return EvalEither(self, inside, straight, at, guard);
}

// The elements of a vector are adjacent except for a few. Those few are read by their own places, the others as one.
absl::StatusOr<int> Lowering::EvalEither(ValueId v, int condition, const Index& then, const Index& otherwise,
                                         int guard) {
  const int contrary = b_->Op(ScalarOp::kNot, DType::kBool, condition);
  SMELT_ASSIGN_OR_RETURN(int a, Eval(v, then, And(guard, condition)));
  SMELT_ASSIGN_OR_RETURN(int b, Eval(v, otherwise, And(guard, contrary)));
  return Select(condition, a, b);
}

absl::StatusOr<int> Lowering::EvalFlip(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call->GetInts("dims"));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  Index at = index;
  for (int64_t d : dims) {
    if (d < 0) d += static_cast<int64_t>(index.size());
    if (d < 0 || d >= static_cast<int64_t>(index.size())) continue;
    at[d] = b_->Scale(index[d], Expr(-1));
    at[d].base = at[d].base + g_.Sizes(self)[d] - 1;
  }
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalRoll(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shifts, call->GetExprs("shifts"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call->GetInts("dims"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  if (dims.empty()) {
    if (shifts.size() != 1) return call->Error("shifts and dims differ in length");
    Affine flat = Flatten(index, sizes);
    flat.base = flat.base - shifts[0];
    const int around = I64(ScalarOp::kRemFloor, b_->IndexValue(flat), Size(Product(sizes)));
    SMELT_ASSIGN_OR_RETURN(Index at, Unflatten(b_->Dynamic(around), sizes));
    return Eval(self, at, guard);
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
    const int v = b_->IndexValue(at[d]);
    const int forward = b_->Op(ScalarOp::kGe, DType::kBool, v, b_->ConstInt(DType::kInt64, 0));
    if (d + 1 == index.size() && !g_.IsInternal(self) && std::count(dims.begin(), dims.end(), dims[k]) == 1) {
      inside = forward;
      wrapped = around;
    } else {
      at[d] = b_->Dynamic(b_->Op(ScalarOp::kSelect, DType::kInt64, forward, v, b_->IndexValue(around)));
    }
  }
  if (inside < 0) return Eval(self, at, guard);
  Index other = at;
  other.back() = wrapped;
  return EvalEither(self, inside, at, other, guard);
}

absl::StatusOr<int> Lowering::EvalRepeat(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  const std::vector<Expr>& out = g_.Sizes(g_.Out(n));
  Index at;
  const size_t lead = index.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == Expr(1)) {
      at.push_back(b_->Zero());
    } else if (sizes[d] == out[lead + d]) {
      at.push_back(index[lead + d]);
    } else {
      SMELT_ASSIGN_OR_RETURN(Division along, Divide(index[lead + d], sizes[d]));
      at.push_back(along.remainder);
    }
  }
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalRepeatInterleave(NodeId n, const Index& index, int guard) {
  if (g_.node(n).op.overload() != "self_int") return g_.Unsupported(n, "has no kernel");
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(Expr times, call->GetExpr("repeats"));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  Index at = index;
  if (call->IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(Division along, Divide(index[0], times));
    SMELT_ASSIGN_OR_RETURN(at, Unflatten(along.quotient, g_.Sizes(self)));
  } else {
    SMELT_ASSIGN_OR_RETURN(int d, g_.DimArg(n, "dim", static_cast<int>(index.size())));
    SMELT_ASSIGN_OR_RETURN(Division along, Divide(index[d], times));
    at[d] = along.quotient;
  }
  return Eval(self, at, guard);
}

absl::StatusOr<int> Lowering::EvalCat(NodeId n, bool stack, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  const OpArg* list = call->Find("tensors");
  if (list == nullptr || list->elements.empty()) return g_.Unsupported(n, "a list that is not made in place");
  SMELT_ASSIGN_OR_RETURN(int dim, g_.DimArg(n, "dim", static_cast<int>(index.size())));
  const DType t = g_.Dt(g_.Out(n));
  int result = -1;
  Expr offset = 0;
  for (const OpArg& e : list->elements) {
    const std::vector<Expr>& sizes = g_.Sizes(e.value);
    if (!stack && sizes.size() == 1 && sizes[0] == Expr(0) && index.size() != 1)
      continue;  // legacy: an empty list of numbers
    Index at = index;
    at[dim].base = at[dim].base - offset;
    const Expr length = stack ? Expr(1) : sizes[dim];
    if (length == Expr(0)) continue;
    const int inside = InRange(at[dim], length);
    if (stack) at.erase(at.begin() + dim);
    SMELT_ASSIGN_OR_RETURN(int v, Eval(e.value, at, And(guard, inside)));
    v = Convert(v, t);
    result = result < 0 ? v : Select(inside, v, result);
    offset = offset + length;
  }
  if (result < 0) return Number(t, 0);
  return result;
}

}  // namespace smelt::kernel
