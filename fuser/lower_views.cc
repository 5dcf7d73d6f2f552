#include <algorithm>
#include <optional>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

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
  // Base dims from the widest stride to the narrowest.
  std::vector<int> order;
  for (size_t j = 0; j < sizes.size(); ++j) {
    if (sizes[j] != Expr(1)) order.push_back(static_cast<int>(j));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    auto less = g_.graph().symbols.Less(strides[b], strides[a]);
    return less.has_value() && *less && strides[a] != strides[b];
  });
  auto quotient = [&](const Expr& a, const Expr& b) -> std::optional<Expr> {
    if (a == b) return Expr(1);
    if (b == Expr(0)) return std::nullopt;
    const Expr q = FloorDiv(a, b);
    if (q * b == a && !(q == Expr(0))) return q;
    return std::nullopt;
  };
  Index out(sizes.size(), b_->Zero());
  std::vector<Expr> high(sizes.size(), Expr(0));  // the largest index reached
  Expr rest = view.offset;
  for (int j : order) {
    if (rest == Expr(0)) break;
    const Expr q = FloorDiv(rest, strides[j]);
    if (rest.IsConstant() && strides[j].IsConstant()) {
      out[j].base = out[j].base + q;
      high[j] = high[j] + q;
      rest = rest - q * strides[j];
    } else if (auto exact = quotient(rest, strides[j])) {
      out[j].base = out[j].base + *exact;
      high[j] = high[j] + *exact;
      rest = 0;
    }
  }
  bool fits = rest == Expr(0);
  std::vector<int> spread;  // view dims that run over several base dims
  for (size_t k = 0; k < view.sizes.size() && fits; ++k) {
    if (view.sizes[k] == Expr(1) || view.strides[k] == Expr(0)) continue;
    bool placed = false;
    for (int j : order) {
      auto q = quotient(view.strides[k], strides[j]);
      if (!q) continue;
      const Expr reach = high[j] + *q * (view.sizes[k] - 1);
      const std::optional<bool> ok = g_.graph().symbols.LessOrEqual(reach, sizes[j] - 1);
      if (!ok || !*ok) break;  // the widest dim it divides is the only one it can run along
      out[j] = b_->Add(out[j], b_->Scale(index[k], *q));
      high[j] = reach;
      placed = true;
      break;
    }
    if (!placed) {
      spread.push_back(static_cast<int>(k));
    }
  }
  if (fits && spread.empty()) return out;
  // A view dim that flattens base dims: if it runs along one dim of the domain, the domain's dim is taken apart.
  if (fits) {
    for (int k : spread) {
      std::vector<Expr> parts;
      Expr stride = view.strides[k];
      Expr left = view.sizes[k];
      for (auto it = order.rbegin(); it != order.rend() && !(left == Expr(1)); ++it) {
        if (strides[*it] != stride) continue;
        parts.insert(parts.begin(), sizes[*it]);
        stride = stride * sizes[*it];
        const Expr q = FloorDiv(left, sizes[*it]);
        if (q * sizes[*it] != left) break;
        left = q;
      }
      const int d = b_->LoneDim(index[k]);
      if (left == Expr(1) && parts.size() > 1 && d >= 0 && b_->DimSize(d) == view.sizes[k]) {
        split_ = DimSplit{d, parts};
        return absl::InternalError("split");
      }
    }
  }
  // Else by division, where the base is dense.
  Expr expected = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (strides[*it] != expected) return g_.Unsupported(n, "a view that cuts across the dims of a group's own value");
    expected = expected * sizes[*it];
  }
  Affine linear = b_->Zero();
  linear.base = view.offset;
  for (size_t k = 0; k < view.sizes.size(); ++k) linear = b_->Add(linear, b_->Scale(index[k], view.strides[k]));
  const int at = b_->IndexValue(linear);
  Index divided(sizes.size(), b_->Zero());
  for (int j : order) {
    int v = at;
    if (strides[j] != Expr(1)) v = b_->Op(ScalarOp::kDivFloor, DType::kInt64, v, b_->ExprParam(strides[j]));
    if (j != order[0]) v = b_->Op(ScalarOp::kRemFloor, DType::kInt64, v, b_->ExprParam(sizes[j]));
    divided[j] = b_->Dynamic(v);
  }
  return divided;
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

Index Lowering::Unflatten(int flat, const std::vector<Expr>& sizes) {
  Index out(sizes.size(), b_->Zero());
  Expr stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == Expr(1)) continue;
    int v = flat;
    if (stride != Expr(1)) v = I64(ScalarOp::kDivFloor, v, Size(stride));
    if (d > 0) v = I64(ScalarOp::kRemFloor, v, Size(sizes[d]));
    out[d] = b_->Dynamic(v);
    stride = stride * sizes[d];
  }
  return out;
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
    at[d].base = at[d].base - pad[k];
    inside = And(inside, InRange(at[d], sizes[d]));
  }
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
  if (inside < 0) return v;
  SMELT_ASSIGN_OR_RETURN(int fill, ScalarArg(n, *call->Find("value"), b_->TypeOf(v)));
  return Select(inside, v, fill);
}

absl::StatusOr<int> Lowering::EvalEdgePad(NodeId n, bool reflect, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> pad, call->GetExprs("padding"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  Index at = index;
  for (size_t k = 0; k + 1 < pad.size(); k += 2) {
    const size_t d = index.size() - 1 - k / 2;
    if (pad[k] == Expr(0) && pad[k + 1] == Expr(0)) continue;
    at[d].base = at[d].base - pad[k];
    int v = b_->IndexValue(at[d]);
    const int last = Size(sizes[d] - 1);
    if (reflect) {
      v = I64(ScalarOp::kAbs, v);
      v = I64(ScalarOp::kSub, last, I64(ScalarOp::kAbs, I64(ScalarOp::kSub, last, v)));
    } else {
      v = I64(ScalarOp::kMin, I64(ScalarOp::kMax, v, b_->ConstInt(DType::kInt64, 0)), last);
    }
    at[d] = b_->Dynamic(v);
  }
  return Eval(self, at, guard);
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
    return Eval(self, Unflatten(I64(ScalarOp::kRemFloor, b_->IndexValue(flat), Size(Product(sizes))), sizes), guard);
  }
  if (dims.size() != shifts.size()) return call->Error("shifts and dims differ in length");
  Index at = index;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t d = dims[k] < 0 ? dims[k] + index.size() : dims[k];
    if (d >= index.size()) return call->Error("a dim out of range");
    at[d].base = at[d].base - shifts[k];
    at[d] = b_->Dynamic(I64(ScalarOp::kRemFloor, b_->IndexValue(at[d]), Size(sizes[d])));
  }
  return Eval(self, at, guard);
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
      at.push_back(b_->Dynamic(I64(ScalarOp::kRemFloor, b_->IndexValue(index[lead + d]), Size(sizes[d]))));
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
    const int flat = I64(ScalarOp::kDivFloor, b_->IndexValue(index[0]), Size(times));
    at = Unflatten(flat, g_.Sizes(self));
  } else {
    SMELT_ASSIGN_OR_RETURN(int d, g_.DimArg(n, "dim", static_cast<int>(index.size())));
    at[d] = b_->Dynamic(I64(ScalarOp::kDivFloor, b_->IndexValue(index[d]), Size(times)));
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
