#include "smelt/fuser/lowering.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/float8.h"
#include "smelt/fuser/lower_operators.h"
#include "smelt/fuser/lower_writes.h"

namespace smelt::kernel {

absl::StatusOr<LoweredKernel> Lowering::Run() {
  SMELT_RETURN_IF_ERROR(g_.Read());
  // A value may need a dim of the domain split in two (for a flattening view inside the group). Then everything begins
  // again.
  for (int attempt = 0; attempt < 16; ++attempt) {
    b_ = std::make_unique<Builder>(g_.graph().symbols);
    memo_.clear();
    scalar_memo_.clear();
    split_.reset();
    SMELT_ASSIGN_OR_RETURN(domain_, ChooseDomain(g_, splits_, *b_));
    absl::Status s = EmitRoots();
    if (split_) {
      splits_.push_back(*split_);
      continue;
    }
    SMELT_RETURN_IF_ERROR(s);
    LoweredKernel k = b_->Finish(domain_.ordered);
    SMELT_RETURN_IF_ERROR(Annotate(VerifyKernelSpec(k.spec), g_.Where()));
    return k;
  }
  return absl::InternalError("a group whose iteration space never settles");
}

absl::Status Lowering::EmitRoots() {
  for (const Root& r : g_.roots()) {
    if (g_.IsAction(r)) {
      SMELT_RETURN_IF_ERROR(EmitIndexedWrite(*this, r));
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(Index index, RootIndex(r));
    SMELT_ASSIGN_OR_RETURN(int v, Eval(r.value, index, -1));
    StoreTo(r, index, Convert(v, r.target.dtype));
  }
  return absl::OkStatus();
}

absl::StatusOr<Index> Lowering::RootIndex(const Root& r) {
  if (auto it = domain_.labels.find(r.value); it != domain_.labels.end()) return it->second;
  const std::vector<Expr>& sizes = g_.Sizes(r.value);
  if (sizes == domain_.parallel) return domain_.parallel_index;
  std::vector<Expr> all = domain_.parallel;
  all.insert(all.end(), domain_.reduced.begin(), domain_.reduced.end());
  if (sizes == all) {
    Index index = domain_.parallel_index;
    index.insert(index.end(), domain_.reduced_index.begin(), domain_.reduced_index.end());
    return index;
  }
  return g_.Unsupported(g_.value(r.value).def, "a result whose sizes are not those of its group's loops");
}

void Lowering::StoreTo(const Root& r, const Index& index, int value) {
  auto [access, offset] = b_->Address(g_.OuterOutput(r), true, r.output, r.target, index);
  b_->Store(access, value, offset, -1);
}

int Lowering::LoadFrom(const Root& r, const Index& index) {
  auto [access, offset] = b_->Address(g_.OuterOutput(r), true, r.output, r.target, index);
  return b_->Load(access, offset, -1);
}

absl::StatusOr<int> Lowering::Eval(ValueId v, const Index& index, int guard) {
  const Type& type = g_.value(v).type;
  if (!type.IsTensor() || !type.tensor().IsComplete()) {
    return absl::InvalidArgumentError(absl::StrCat("%", g_.value(v).name, " has no complete tensor type"));
  }
  if (!g_.IsInternal(v)) return LoadOperand(v, index, guard);
  // Dims of size 1 have one index. Otherwise the same value would be computed twice.
  const std::vector<Expr>& sizes = *type.tensor().sizes;
  for (size_t d = 0; d < sizes.size() && d < index.size(); ++d) {
    if (sizes[d] != Expr(1) || index[d] == b_->Zero()) continue;
    Index same = index;
    for (size_t k = d; k < same.size(); ++k) {
      if (sizes[k] == Expr(1)) same[k] = b_->Zero();
    }
    return Eval(v, same, guard);
  }
  std::vector<Memo>& memos = memo_[g_.value(v).def];
  for (const Memo& m : memos) {
    if ((m.guard == guard || m.guard < 0) && m.index == index) return m.results[g_.value(v).def_index];
  }
  const NodeId n = g_.value(v).def;
  if (++depth_ > 2000) return g_.Unsupported(n, "a group this deep");
  auto results = LowerNode(*this, n, g_.value(v).def_index, index, guard);
  --depth_;
  if (!results.ok()) return results.status();
  memo_[n].push_back({index, guard, *results});
  return (*results)[g_.value(v).def_index];
}

absl::StatusOr<int> Lowering::LoadOperand(ValueId v, const Index& index, int guard) {
  const NodeId def = g_.value(v).def;
  if (!g_.graph().IsParam(def) && g_.node(def).op == op::kPrimConstant) {
    const Attribute* a = g_.node(def).FindAttribute("value");
    const Tensor* t = a == nullptr ? nullptr : std::get_if<Tensor>(a);
    if (t != nullptr && t->NumElements() == 1 && !IsComplex(t->dtype())) return ConstantElement(*t);
  }
  const ValueId outer = g_.OuterValue(v);
  if (!outer.valid()) return g_.Unsupported(def, "a tensor that a group cannot take from outside");
  auto [access, offset] = b_->Address(outer, false, -1, g_.Layout(outer), index);
  return b_->Load(access, offset, guard);
}

int Lowering::ConstantElement(const Tensor& t) {
  LoweredKernel::Scalar s;
  s.is_constant = true;
  const void* at = t.data();
  auto as = [&](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  DType type = t.dtype();
  switch (type) {
    case DType::kBool:
    case DType::kUInt8:
      s.int_constant = as(uint8_t{});
      break;
    case DType::kInt8:
      s.int_constant = as(int8_t{});
      break;
    case DType::kInt16:
      s.int_constant = as(int16_t{});
      break;
    case DType::kInt32:
      s.int_constant = as(int32_t{});
      break;
    case DType::kInt64:
      s.int_constant = as(int64_t{});
      break;
    case DType::kFloat32:
      s.constant = as(float{});
      break;
    case DType::kFloat64:
      s.constant = as(double{});
      break;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      s.constant = Float8ToFloat(type, as(uint8_t{}));
      break;
    case DType::kBFloat16: {
      const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float f;
      std::memcpy(&f, &bits, sizeof f);
      s.constant = f;
      break;
    }
    case DType::kFloat16: {
      const uint16_t h = as(uint16_t{});
      const int e = h >> 10 & 31, m = h & 1023;
      double f = e == 31 ? (m ? std::nan("") : INFINITY) : e == 0 ? std::ldexp(m, -24) : std::ldexp(m + 1024, e - 25);
      s.constant = h >> 15 ? -f : f;
      break;
    }
    default:
      break;
  }
  return b_->ScalarParam(type, std::move(s));
}

absl::StatusOr<int> Lowering::ScalarArg(NodeId n, const OpArg& a, DType t) {
  const DType own = a.kind == OpArg::Kind::kBool    ? DType::kBool
                    : a.kind == OpArg::Kind::kFloat ? DType::kFloat64
                                                    : DType::kInt64;
  LoweredKernel::Scalar s;
  if (a.known) {
    if (a.kind == OpArg::Kind::kInt && !a.expr.IsConstant()) {
      return Convert(b_->ExprParam(a.expr), t);
    }
    s.is_constant = true;
    if (a.kind == OpArg::Kind::kInt) {
      s.int_constant = *a.expr.Constant();
      s.constant = static_cast<double>(s.int_constant);
    } else {
      s.constant = a.number;
      s.int_constant = a.kind == OpArg::Kind::kBool ? a.number != 0 : 0;
      if (a.kind == OpArg::Kind::kFloat && !IsFloating(t)) {
        // A number that does not fit is clamped; NaN becomes the least one, as it does in PyTorch on x86-64.
        const double v = a.number;
        s.int_constant = t == DType::kBool ? v != 0
                         : v >= 9.2e18     ? INT64_MAX
                         : !(v > -9.2e18)  ? INT64_MIN
                                           : static_cast<int64_t>(v);
      }
    }
    return b_->ScalarParam(t, std::move(s));
  }
  if (!a.value.valid()) return g_.Unsupported(n, "a number that is not known");
  if (g_.value(a.value).expr) return Convert(b_->ExprParam(*g_.value(a.value).expr), t);
  const ValueId outer = g_.OuterValue(a.value);
  if (!outer.valid()) return g_.Unsupported(n, "a number that is computed inside the group");
  auto [it, fresh] = scalar_memo_.try_emplace(std::make_pair(outer, static_cast<int>(own)), -1);
  if (fresh) {
    s.value = outer;
    it->second = b_->ScalarParam(own, std::move(s));
  }
  return Convert(it->second, t);
}

absl::StatusOr<int> Lowering::ScalarInput(NodeId n, ValueId v, DType t) {
  OpArg a;
  a.value = v;
  if (auto c = GetConstant(g_.graph(), v)) {
    a.known = true;
    if (const auto* i = std::get_if<int64_t>(&*c)) {
      a.kind = OpArg::Kind::kInt;
      a.expr = Expr(*i);
      a.number = static_cast<double>(*i);
    } else if (const auto* d = std::get_if<double>(&*c)) {
      a.kind = OpArg::Kind::kFloat;
      a.number = *d;
    } else if (const auto* b = std::get_if<bool>(&*c)) {
      a.kind = OpArg::Kind::kBool;
      a.number = *b;
    } else {
      return g_.Unsupported(n, "a number that is none");
    }
  } else {
    const TypeKind k = g_.value(v).type.kind();
    a.kind = k == TypeKind::kFloat  ? OpArg::Kind::kFloat
             : k == TypeKind::kBool ? OpArg::Kind::kBool
                                    : OpArg::Kind::kInt;
  }
  return ScalarArg(n, a, t);
}

int Lowering::And(int a, int b) {
  if (a < 0) return b;
  if (b < 0) return a;
  return b_->Op(ScalarOp::kAnd, DType::kBool, a, b);
}

Lowering::Within Lowering::KnownWithin(const Affine& a, const Expr& size) const {
  const auto [low, high] = b_->Bounds(a);
  // This must hold in calls with a size of 1, too: there nothing is left of y[:, 1:], and its first column is not one
  // of y's.
  const SymbolRanges& ranges = g_.graph().symbols;
  return {low && ranges.AlwaysLessOrEqual(0, *low) == true, high && ranges.AlwaysLessOrEqual(*high, size - 1) == true};
}

int Lowering::InRange(const Affine& a, const Expr& size) {
  int guard = -1;
  const Within known = KnownWithin(a, size);
  const auto [index, rest] = b_->ApartFromDim(a);
  Affine below = b_->Scale(rest, Expr(-1)), end = below;
  end.base = end.base + size;
  const int v = b_->IndexValue(index);
  if (!known.above) guard = And(guard, b_->Op(ScalarOp::kGe, DType::kBool, v, b_->IndexValue(below)));
  if (!known.below) guard = And(guard, b_->Op(ScalarOp::kLt, DType::kBool, v, b_->LimitValue(end)));
  return guard;
}

int Lowering::Select(int guard, int a, int b) {
  return guard < 0 ? a : b_->Op(ScalarOp::kSelect, b_->TypeOf(a), guard, a, b);
}

int Lowering::Number(DType t, double v) {
  return IsFloating(t) ? b_->Const(t, v) : b_->ConstInt(t, static_cast<int64_t>(v));
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

}  // namespace smelt::kernel
