// Matrix products that kernels compute better than the library, in part or as a whole.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/expander.h"

namespace smelt {
namespace {

constexpr int64_t kFewNumbers = 4;  // of a point or a color
constexpr int64_t kShortRow = 8;    // of a matrix: kernels reduce many of them side by side

}  // namespace

absl::StatusOr<bool> Expander::ThinMatmul(NodeId n) {
  const std::string& overload = g_.node(n).op.overload();
  if (!overload.empty() && overload != "dtype") return false;
  const ValueId a = g_.node(n).inputs[0], b = g_.node(n).inputs[1];
  const TensorType out = T(Out(n));
  if (!out.IsComplete() || !IsFloating(*out.dtype) || !T(a).sizes) return false;
  const std::vector<Expr>& sizes = *out.sizes;
  if (T(a).sizes->back() == Expr(1)) {
    Emit e(g_, n);
    NodeId product = g_.InsertBefore(n, OpName::Get(op::kMulTensor), {e.Cast(a, *out.dtype), e.Cast(b, *out.dtype)},
                                     {Type::Tensor(*out.dtype, *out.sizes, *out.strides)});
    g_.SetSource(product, source_);
    // A sum begins at 0: it is never -0.
    const ValueId sum = e.AddN(Out(product), 0.);
    if (!e.ok()) return e.status();
    ReplaceWith(n, sum);
    return true;
  }
  const std::optional<int64_t> length = T(a).sizes->back().Constant();
  const std::optional<int64_t> rows = sizes[sizes.size() - 2].Constant(), columns = sizes.back().Constant();
  const bool few = (columns && *columns <= kFewNumbers) || (rows && *rows <= kFewNumbers);
  // These are bound by memory: colors or points times a small matrix or a vector, a small matrix times them, and small
  // matrices times vectors.
  const bool single = absl::c_all_of(sizes, [](const Expr& size) { return size == Expr(1); });
  if (length && *length >= 1 && *length <= kFewNumbers && few && !single) {
    Emit e(g_, n);
    const DType compute = OpMathType(*out.dtype);
    const ValueId left = e.Cast(a, compute), right = e.Cast(b, compute);
    ValueId sum;
    for (int64_t k = 0; k < *length; ++k) {
      const ValueId unsqueezed = e.Unsqueeze(e.Select(right, -2, k), -2);
      const ValueId product = e.Mul(e.Unsqueeze(e.Select(left, -1, k), -1), unsqueezed);
      // A sum begins at 0: it is never -0.
      sum = k == 0 ? e.AddN(product, 0.) : e.Add(sum, product);
    }
    sum = e.Cast(sum, *out.dtype);
    if (!e.ok()) return e.status();
    // A matrix product has its own layout, whatever the order of its operands' elements.
    g_.SetType(sum, g_.value(Out(n)).type);
    ReplaceWith(n, sum);
    return true;
  }
  if (sizes.size() != 3 || sizes[0] == Expr(1) || sizes[2] != Expr(1)) return false;
  if (sizes[1] != Expr(1) && !(length && *length <= kShortRow)) return false;
  Emit e(g_, n);
  const DType compute = OpMathType(*out.dtype);
  const ValueId cast = e.Cast(e.Transpose(b, 1, 2), compute);
  const ValueId factors = e.Mul(e.Cast(a, compute), cast);
  const ValueId sum = e.Cast(e.Sum(factors, {2}, true), *out.dtype);
  if (!e.ok()) return e.status();
  ReplaceWith(n, sum);
  return true;
}

absl::StatusOr<Expander::Step> Expander::AddMatmul(NodeId n) {
  if (!g_.node(n).op.overload().empty()) return Step::kUnsupported;
  const std::vector<ValueId> in(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const TensorType out = T(Out(n));
  auto number = [&](ValueId v) -> std::optional<double> {
    auto c = GetConstant(g_, v);
    if (!c) return std::nullopt;
    if (const auto* i = std::get_if<int64_t>(&*c)) return static_cast<double>(*i);
    if (const auto* d = std::get_if<double>(&*c)) return *d;
    return std::nullopt;
  };
  std::optional<double> beta = number(in[3]), alpha = number(in[4]);
  // For integers PyTorch takes the integral parts of the factors.
  const bool whole = beta && alpha && IsIntegral(*out.dtype);
  if (whole) {
    beta = std::trunc(*beta);
    alpha = std::trunc(*alpha);
  }
  auto factor = [&](ValueId given, std::optional<double> v) {
    return whole ? InsertConstant(g_, n, static_cast<int64_t>(*v)) : given;
  };
  if (beta && alpha && *beta == 1 && *alpha == 1) return Step::kKeep;
  const bool batched = g_.node(n).op.name() == op::kBaddbmm;
  // PyTorch rounds once, behind the factors: a product of half precision may be infinite where the result is not.
  const DType compute = OpMathType(*out.dtype);
  const Type type = Type::Tensor(compute, *out.sizes, *out.strides);
  auto insert = [&](absl::string_view op, std::vector<ValueId> args, Type t) {
    NodeId x = g_.InsertBefore(n, OpName::Get(op), args, {std::move(t)});
    g_.SetSource(x, source_);
    return Out(x);
  };
  ValueId product = insert(batched ? op::kBmm : op::kMm, {Cast(n, in[1], compute), Cast(n, in[2], compute)}, type);
  if (!alpha || *alpha != 1) product = insert(op::kMulScalar, {product, factor(in[4], alpha)}, type);
  // A beta of 0 ignores self, NaN and all.
  if (beta && *beta == 0) {
    ReplaceWith(n, Cast(n, product, *out.dtype));
    return Step::kChanged;
  }
  ValueId self = Cast(n, in[0], compute);
  if (!beta || *beta != 1) self = insert(op::kMulScalar, {self, factor(in[3], beta)}, g_.value(self).type);
  const ValueId sum = insert(op::kAddTensor, {product, self, InsertConstant(g_, n, int64_t{1})}, type);
  ReplaceWith(n, Cast(n, sum, *out.dtype));
  return Step::kChanged;
}

}  // namespace smelt
