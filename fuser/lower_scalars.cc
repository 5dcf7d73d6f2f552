#include <cmath>
#include <cstring>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

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

}  // namespace smelt::kernel
