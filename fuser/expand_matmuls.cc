#include "smelt/fuser/expand_matmuls.h"

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

namespace smelt {
namespace {

constexpr int64_t kFewNumbers = 4;  // of a point or a color
constexpr int64_t kShortRow = 8;    // of a matrix: kernels reduce many of them side by side

}  // namespace

absl::StatusOr<bool> ExpandThinMatmul(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const std::string& overload = g.node(n).op.overload();
  if (!overload.empty() && overload != "dtype") return false;
  const ValueId a = g.node(n).inputs[0], b = g.node(n).inputs[1];
  const TensorType out = edit.T(edit.Out(n));
  if (!out.IsComplete() || !IsFloating(*out.dtype) || !edit.T(a).sizes) return false;
  const std::vector<Expr>& sizes = *out.sizes;
  if (edit.T(a).sizes->back() == Expr(1)) {
    Emit e(g, n);
    NodeId product = g.InsertBefore(n, OpName::Get(op::kMulTensor), {e.Cast(a, *out.dtype), e.Cast(b, *out.dtype)},
                                    {Type::Tensor(*out.dtype, *out.sizes, *out.strides)});
    g.SetSource(product, edit.source());
    // A sum begins at 0: it is never -0.
    const ValueId sum = e.AddN(edit.Out(product), 0.);
    if (!e.ok()) return e.status();
    edit.ReplaceWith(n, sum);
    return true;
  }
  const std::optional<int64_t> length = edit.T(a).sizes->back().Constant();
  const std::optional<int64_t> rows = sizes[sizes.size() - 2].Constant(), columns = sizes.back().Constant();
  const bool few = (columns && *columns <= kFewNumbers) || (rows && *rows <= kFewNumbers);
  // These are bound by memory: colors or points times a small matrix or a vector, a small matrix times them, and small
  // matrices times vectors.
  const bool single = absl::c_all_of(sizes, [](const Expr& size) { return size == Expr(1); });
  if (length && *length >= 1 && *length <= kFewNumbers && few && !single) {
    Emit e(g, n);
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
    g.SetType(sum, g.value(edit.Out(n)).type);
    edit.ReplaceWith(n, sum);
    return true;
  }
  if (sizes.size() != 3 || sizes[0] == Expr(1) || sizes[2] != Expr(1)) return false;
  if (sizes[1] != Expr(1) && !(length && *length <= kShortRow)) return false;
  Emit e(g, n);
  const DType compute = OpMathType(*out.dtype);
  const ValueId cast = e.Cast(e.Transpose(b, 1, 2), compute);
  const ValueId factors = e.Mul(e.Cast(a, compute), cast);
  const ValueId sum = e.Cast(e.Sum(factors, {2}, true), *out.dtype);
  if (!e.ok()) return e.status();
  edit.ReplaceWith(n, sum);
  return true;
}

absl::StatusOr<ExpansionStep> ExpandAddMatmul(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  if (!g.node(n).op.overload().empty()) return ExpansionStep::kUnsupported;
  const std::vector<ValueId> in(g.node(n).inputs.begin(), g.node(n).inputs.end());
  const TensorType out = edit.T(edit.Out(n));
  auto number = [&](ValueId v) -> std::optional<double> {
    auto c = GetConstant(g, v);
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
    return whole ? InsertConstant(g, n, static_cast<int64_t>(*v)) : given;
  };
  if (beta && alpha && *beta == 1 && *alpha == 1) return ExpansionStep::kKeep;
  const bool batched = g.node(n).op.name() == op::kBaddbmm;
  // PyTorch rounds once, behind the factors: a product of half precision may be infinite where the result is not.
  const DType compute = OpMathType(*out.dtype);
  const Type type = Type::Tensor(compute, *out.sizes, *out.strides);
  auto insert = [&](absl::string_view op, std::vector<ValueId> args, Type t) {
    NodeId x = g.InsertBefore(n, OpName::Get(op), args, {std::move(t)});
    g.SetSource(x, edit.source());
    return edit.Out(x);
  };
  ValueId product =
      insert(batched ? op::kBmm : op::kMm, {edit.Cast(n, in[1], compute), edit.Cast(n, in[2], compute)}, type);
  if (!alpha || *alpha != 1) product = insert(op::kMulScalar, {product, factor(in[4], alpha)}, type);
  // A beta of 0 ignores self, NaN and all.
  if (beta && *beta == 0) {
    edit.ReplaceWith(n, edit.Cast(n, product, *out.dtype));
    return ExpansionStep::kChanged;
  }
  ValueId self = edit.Cast(n, in[0], compute);
  if (!beta || *beta != 1) self = insert(op::kMulScalar, {self, factor(in[3], beta)}, g.value(self).type);
  const ValueId sum = insert(op::kAddTensor, {product, self, InsertConstant(g, n, int64_t{1})}, type);
  edit.ReplaceWith(n, edit.Cast(n, sum, *out.dtype));
  return ExpansionStep::kChanged;
}

}  // namespace smelt
