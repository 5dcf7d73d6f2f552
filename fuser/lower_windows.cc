#include <cmath>
#include <cstdint>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {

Lowering::Values Lowering::EvalPool(NodeId n, OpFamily s, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  const size_t spatial = g_.SpatialRank(n);
  const size_t lead = sizes.size() - spatial;
  const bool adaptive = s == OpFamily::kAdaptiveAvgPool || s == OpFamily::kAdaptiveMaxPool;
  const bool average = s == OpFamily::kAdaptiveAvgPool || s == OpFamily::kAvgPool;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> window, g_.WindowOf(n, s));
  SMELT_RETURN_IF_ERROR(CheckSite(n, window, index, guard));
  b_->SetSlidingWindow();
  Index at = index;
  int inside = -1;
  int count = -1;  // elements that a mean divides by, int64
  if (adaptive) {
    for (size_t k = 0; k < spatial; ++k) {
      const size_t d = lead + k;
      const Expr in = sizes[d], out = g_.Sizes(g_.Out(n))[d];
      const Expr q = FloorDiv(in, out);
      int length;
      if (q * out == in) {
        at[d] = b_->Add(b_->Scale(index[d], q), domain_.reduced_index[k]);
        length = Size(q);
      } else {
        const int i = b_->IndexValue(index[d]);
        const int start = I64(ScalarOp::kDivFloor, I64(ScalarOp::kMul, i, Size(in)), Size(out));
        const int next = I64(ScalarOp::kMul, I64(ScalarOp::kAdd, i, b_->ConstInt(DType::kInt64, 1)), Size(in));
        const int end = I64(ScalarOp::kDivFloor, I64(ScalarOp::kAdd, next, Size(out - 1)), Size(out));
        at[d] = b_->Add(b_->Dynamic(start), domain_.reduced_index[k]);
        inside = And(inside, b_->Op(ScalarOp::kLt, DType::kBool, b_->IndexValue(at[d]), end));
        length = I64(ScalarOp::kSub, end, start);
      }
      count = count < 0 ? length : I64(ScalarOp::kMul, count, length);
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, g_.ExprsOr(n, "stride", spatial, window));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, g_.ExprsOr(n, "padding", spatial, std::vector<Expr>(spatial, 0)));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation,
                           g_.ExprsOr(n, "dilation", spatial, std::vector<Expr>(spatial, 1)));
    bool include_pad = true;
    SMELT_ASSIGN_OR_RETURN(bool ceil_mode, call->GetBoolOr("ceil_mode", false));
    bool fixed = false;
    if (average) {
      SMELT_ASSIGN_OR_RETURN(include_pad, call->GetBoolOr("count_include_pad", true));
      if (!call->IsNone("divisor_override")) {
        SMELT_ASSIGN_OR_RETURN(Expr d, call->GetExpr("divisor_override"));
        count = Size(d);
        fixed = true;
      }
    }
    for (size_t k = 0; k < spatial; ++k) {
      const size_t d = lead + k;
      at[d] = b_->Add(b_->Scale(index[d], stride[k]), b_->Scale(domain_.reduced_index[k], dilation[k]));
      at[d].base = at[d].base - padding[k];
      inside = And(inside, InRange(at[d], sizes[d]));
      if (!average || fixed) continue;
      // The part of the window that counts. If padding counts, the part that overhangs the padded input (ceil_mode)
      // still does not.
      int length;
      if ((include_pad && !ceil_mode) || (padding[k] == Expr(0) && !ceil_mode)) {
        length = Size(window[k]);
      } else {
        Affine start = b_->Scale(index[d], stride[k]);
        start.base = start.base - padding[k];
        const int begin = b_->IndexValue(start);
        int end = I64(ScalarOp::kAdd, begin, Size(window[k]));
        end = I64(ScalarOp::kMin, end, Size(sizes[d] + padding[k]));
        int from = begin;
        if (!include_pad) {
          end = I64(ScalarOp::kMin, end, Size(sizes[d]));
          from = I64(ScalarOp::kMax, begin, b_->ConstInt(DType::kInt64, 0));
        }
        length = I64(ScalarOp::kSub, end, from);
      }
      count = count < 0 ? length : I64(ScalarOp::kMul, count, length);
    }
  }
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
  const DType t = g_.Dt(g_.Out(n));
  if (average) {
    const DType c = OpMathType(t);
    v = Convert(v, c);
    v = Select(inside, v, Number(c, 0));
    int sum = Reduce(ReduceKind::kSum, v, -1, false);
    if (IsFloating(c)) {
      sum = b_->Op(ScalarOp::kDiv, c, sum, b_->Cast(count, c));
    } else {
      sum = b_->Op(ScalarOp::kDivTrunc, c, sum, Convert(count, c));
    }
    return std::vector<int>{Convert(sum, t)};
  }
  int low;
  if (IsFloating(t)) {
    low = Number(t, -INFINITY);
  } else {
    const int bits = 8 * ItemSize(t);
    low = b_->ConstInt(t, IsSigned(t) ? (bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1))) : 0);
  }
  v = Select(inside, v, low);
  const int best = Reduce(ReduceKind::kMax, v, -1, false);
  if (g_.node(n).outputs.size() == 1) return std::vector<int>{best};
  // The flat index in the input's plane, of the first maximum, or of the last NaN if there is one.
  Affine flat = b_->Zero();
  Expr stride = 1;
  for (size_t d = sizes.size(); d-- > lead;) {
    flat = b_->Add(flat, b_->Scale(at[d], stride));
    stride = stride * sizes[d];
  }
  int i = b_->IndexValue(flat);
  // Outside of the input nothing is chosen, even among -infinities: such places come last.
  if (inside >= 0) i = b_->Op(ScalarOp::kSelect, DType::kInt64, inside, i, b_->ConstInt(DType::kInt64, INT64_MAX));
  int arg = Reduce(ReduceKind::kArgMax, v, i, false);
  if (IsFloating(t)) {
    const int is_nan = b_->Op(ScalarOp::kIsNan, DType::kBool, Convert(v, OpMathType(t)));
    const int none = b_->ConstInt(DType::kInt64, -1);
    const int last = Reduce(ReduceKind::kMax, Select(is_nan, i, none), -1, false);
    const int any = b_->Op(ScalarOp::kGe, DType::kBool, last, b_->ConstInt(DType::kInt64, 0));
    arg = Select(any, last, arg);
  }
  return std::vector<int>{best, arg};
}

absl::StatusOr<int> Lowering::EvalIm2Col(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  const std::vector<Expr>& sizes = g_.Sizes(self);
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> kernel, g_.ExprsOr(n, "kernel_size", 2, {}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, g_.ExprsOr(n, "stride", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, g_.ExprsOr(n, "padding", 2, {0, 0}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, g_.ExprsOr(n, "dilation", 2, {1, 1}));
  const size_t lead = sizes.size() - 3;
  const Expr in_w = sizes[lead + 2];
  const Expr out_w = FloorDiv(in_w + padding[1] * 2 - dilation[1] * (kernel[1] - 1) - 1, stride[1]) + 1;
  SMELT_ASSIGN_OR_RETURN(Division block, Divide(index[lead], kernel[0] * kernel[1]));
  SMELT_ASSIGN_OR_RETURN(Division k, Divide(block.remainder, kernel[1]));
  SMELT_ASSIGN_OR_RETURN(Division o, Divide(index[lead + 1], out_w));
  Index at(index.begin(), index.begin() + lead);
  at.push_back(block.quotient);
  at.push_back(b_->Add(b_->Scale(o.quotient, stride[0]), b_->Scale(k.quotient, dilation[0])));
  at.push_back(b_->Add(b_->Scale(o.remainder, stride[1]), b_->Scale(k.remainder, dilation[1])));
  int inside = -1;
  for (int d = 0; d < 2; ++d) {
    at[lead + 1 + d].base = at[lead + 1 + d].base - padding[d];
    if (padding[d] != Expr(0)) inside = And(inside, InRange(at[lead + 1 + d], sizes[lead + 1 + d]));
  }
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
  return Select(inside, v, Number(b_->TypeOf(v), 0));
}

absl::StatusOr<int> Lowering::EvalCol2Im(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  const std::vector<Expr>& out = g_.Sizes(g_.Out(n));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> kernel, g_.ExprsOr(n, "kernel_size", 2, {}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, g_.ExprsOr(n, "stride", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, g_.ExprsOr(n, "padding", 2, {0, 0}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, g_.ExprsOr(n, "dilation", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> window, g_.WindowOf(n, OpFamily::kCol2Im));
  SMELT_RETURN_IF_ERROR(CheckSite(n, window, index, guard));
  const size_t lead = out.size() - 3;
  std::vector<Expr> blocks;
  for (int d = 0; d < 2; ++d) {
    blocks.push_back(FloorDiv(out[lead + 1 + d] + padding[d] * 2 - dilation[d] * (kernel[d] - 1) - 1, stride[d]) + 1);
  }
  // The element of a window that lies here, and the block whose window it is, if there is one.
  int inside = -1;
  std::vector<Affine> block, element;
  for (int d = 0; d < 2; ++d) {
    const Affine& q = domain_.reduced_index[d];
    Affine a = index[lead + 1 + d];
    a.base = a.base + padding[d];
    if (dilation[d] == Expr(1)) {
      // Element r + q * stride, where r is the rest of the place, of a block q before the last one that reaches it.
      SMELT_ASSIGN_OR_RETURN(Division along, Divide(a, stride[d]));
      block.push_back(b_->Add(along.quotient, b_->Scale(q, Expr(-1))));
      element.push_back(b_->Add(along.remainder, b_->Scale(q, stride[d])));
      if (FloorDiv(kernel[d], stride[d]) * stride[d] != kernel[d]) inside = And(inside, InRange(element[d], kernel[d]));
    } else {
      a = b_->Add(a, b_->Scale(q, Expr(0) - dilation[d]));
      element.push_back(q);
      block.push_back(a);
      if (stride[d] != Expr(1)) {
        const int v = b_->IndexValue(a);
        const int r = I64(ScalarOp::kRemFloor, v, Size(stride[d]));
        inside = And(inside, b_->Op(ScalarOp::kEq, DType::kBool, r, b_->ConstInt(DType::kInt64, 0)));
        block.back() = b_->Dynamic(I64(ScalarOp::kDivFloor, v, Size(stride[d])));
      }
    }
    inside = And(inside, InRange(block[d], blocks[d]));
  }
  Index at(index.begin(), index.begin() + lead);
  at.push_back(
      b_->Add(b_->Scale(index[lead], kernel[0] * kernel[1]), b_->Add(b_->Scale(element[0], kernel[1]), element[1])));
  at.push_back(b_->Add(b_->Scale(block[0], blocks[1]), block[1]));
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, And(guard, inside)));
  const DType t = g_.Dt(g_.Out(n)), c = OpMathType(t);
  v = Convert(v, c);
  v = Select(inside, v, Number(c, 0));
  return Convert(Reduce(ReduceKind::kSum, v, -1, false), t);
}

}  // namespace smelt::kernel
