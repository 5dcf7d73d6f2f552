#include "smelt/fuser/lower_windows.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_reductions.h"

namespace smelt::kernel {

// Max, average and adaptive pools differ in a few instructions of one loop over the window. Separate functions would
// repeat that loop.
absl::StatusOr<std::vector<int>> LowerPool(Lowering& l, NodeId n, OpFamily s, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  const std::vector<Expr>& sizes = group.Sizes(self);
  const size_t spatial = group.SpatialRank(n);
  const size_t lead = sizes.size() - spatial;
  const bool adaptive = s == OpFamily::kAdaptiveAvgPool || s == OpFamily::kAdaptiveMaxPool;
  const bool average = s == OpFamily::kAdaptiveAvgPool || s == OpFamily::kAvgPool;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> window, group.WindowOf(n, s));
  SMELT_RETURN_IF_ERROR(CheckSite(l, n, window, index, guard));
  builder.SetSlidingWindow();
  Index at = index;
  int inside = -1;
  int count = -1;  // elements that a mean divides by, int64
  if (adaptive) {
    for (size_t k = 0; k < spatial; ++k) {
      const size_t d = lead + k;
      const Expr in = sizes[d], out = group.Sizes(group.Out(n))[d];
      const Expr q = FloorDiv(in, out);
      int length;
      if (q * out == in) {
        at[d] = builder.Add(builder.Scale(index[d], q), l.domain().reduced_index[k]);
        length = l.Size(q);
      } else {
        const int i = builder.IndexValue(index[d]);
        const int start = l.I64(ScalarOp::kDivFloor, l.I64(ScalarOp::kMul, i, l.Size(in)), l.Size(out));
        const int next =
            l.I64(ScalarOp::kMul, l.I64(ScalarOp::kAdd, i, builder.ConstInt(DType::kInt64, 1)), l.Size(in));
        const int end = l.I64(ScalarOp::kDivFloor, l.I64(ScalarOp::kAdd, next, l.Size(out - 1)), l.Size(out));
        at[d] = builder.Add(builder.Dynamic(start), l.domain().reduced_index[k]);
        inside = l.And(inside, builder.Op(ScalarOp::kLt, DType::kBool, builder.IndexValue(at[d]), end));
        length = l.I64(ScalarOp::kSub, end, start);
      }
      count = count < 0 ? length : l.I64(ScalarOp::kMul, count, length);
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, group.ExprsOr(n, "stride", spatial, window));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding,
                           group.ExprsOr(n, "padding", spatial, std::vector<Expr>(spatial, 0)));
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation,
                           group.ExprsOr(n, "dilation", spatial, std::vector<Expr>(spatial, 1)));
    bool include_pad = true;
    SMELT_ASSIGN_OR_RETURN(bool ceil_mode, call->GetBoolOr("ceil_mode", false));
    bool fixed = false;
    if (average) {
      SMELT_ASSIGN_OR_RETURN(include_pad, call->GetBoolOr("count_include_pad", true));
      if (!call->IsNone("divisor_override")) {
        SMELT_ASSIGN_OR_RETURN(Expr d, call->GetExpr("divisor_override"));
        count = l.Size(d);
        fixed = true;
      }
    }
    for (size_t k = 0; k < spatial; ++k) {
      const size_t d = lead + k;
      at[d] = builder.Add(builder.Scale(index[d], stride[k]), builder.Scale(l.domain().reduced_index[k], dilation[k]));
      at[d].base = at[d].base - padding[k];
      inside = l.And(inside, l.InRange(at[d], sizes[d]));
      if (!average || fixed) continue;
      // The part of the window that counts. If padding counts, the part that overhangs the padded input (ceil_mode)
      // still does not.
      int length;
      if ((include_pad && !ceil_mode) || (padding[k] == Expr(0) && !ceil_mode)) {
        length = l.Size(window[k]);
      } else {
        Affine start = builder.Scale(index[d], stride[k]);
        start.base = start.base - padding[k];
        const int begin = builder.IndexValue(start);
        int end = l.I64(ScalarOp::kAdd, begin, l.Size(window[k]));
        end = l.I64(ScalarOp::kMin, end, l.Size(sizes[d] + padding[k]));
        int from = begin;
        if (!include_pad) {
          end = l.I64(ScalarOp::kMin, end, l.Size(sizes[d]));
          from = l.I64(ScalarOp::kMax, begin, builder.ConstInt(DType::kInt64, 0));
        }
        length = l.I64(ScalarOp::kSub, end, from);
      }
      count = count < 0 ? length : l.I64(ScalarOp::kMul, count, length);
    }
  }
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, at, l.And(guard, inside)));
  const DType t = group.Dt(group.Out(n));
  if (average) {
    const DType c = OpMathType(t);
    v = l.Convert(v, c);
    v = l.Select(inside, v, l.Number(c, 0));
    int sum = Reduce(l, ReduceKind::kSum, v, -1, false);
    if (IsFloating(c)) {
      sum = builder.Op(ScalarOp::kDiv, c, sum, builder.Cast(count, c));
    } else {
      sum = builder.Op(ScalarOp::kDivTrunc, c, sum, l.Convert(count, c));
    }
    return std::vector<int>{l.Convert(sum, t)};
  }
  int low;
  if (IsFloating(t)) {
    low = l.Number(t, -INFINITY);
  } else {
    const int bits = 8 * ItemSize(t);
    low = builder.ConstInt(t, IsSigned(t) ? (bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1))) : 0);
  }
  v = l.Select(inside, v, low);
  const int best = Reduce(l, ReduceKind::kMax, v, -1, false);
  if (group.node(n).outputs.size() == 1) return std::vector<int>{best};
  // The flat index in the input's plane, of the first maximum, or of the last NaN if there is one.
  Affine flat = builder.Zero();
  Expr stride = 1;
  for (size_t d = sizes.size(); d-- > lead;) {
    flat = builder.Add(flat, builder.Scale(at[d], stride));
    stride = stride * sizes[d];
  }
  int i = builder.IndexValue(flat);
  // Outside of the input nothing is chosen, even among -infinities: such places come last.
  if (inside >= 0)
    i = builder.Op(ScalarOp::kSelect, DType::kInt64, inside, i, builder.ConstInt(DType::kInt64, INT64_MAX));
  int arg = Reduce(l, ReduceKind::kArgMax, v, i, false);
  if (IsFloating(t)) {
    const int is_nan = builder.Op(ScalarOp::kIsNan, DType::kBool, l.Convert(v, OpMathType(t)));
    const int none = builder.ConstInt(DType::kInt64, -1);
    const int last = Reduce(l, ReduceKind::kMax, l.Select(is_nan, i, none), -1, false);
    const int any = builder.Op(ScalarOp::kGe, DType::kBool, last, builder.ConstInt(DType::kInt64, 0));
    arg = l.Select(any, last, arg);
  }
  return std::vector<int>{best, arg};
}

absl::StatusOr<int> LowerIm2Col(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  const std::vector<Expr>& sizes = group.Sizes(self);
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> kernel, group.ExprsOr(n, "kernel_size", 2, {}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, group.ExprsOr(n, "stride", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, group.ExprsOr(n, "padding", 2, {0, 0}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, group.ExprsOr(n, "dilation", 2, {1, 1}));
  const size_t lead = sizes.size() - 3;
  const Expr in_w = sizes[lead + 2];
  const Expr out_w = FloorDiv(in_w + padding[1] * 2 - dilation[1] * (kernel[1] - 1) - 1, stride[1]) + 1;
  SMELT_ASSIGN_OR_RETURN(Lowering::Division block, l.Divide(index[lead], kernel[0] * kernel[1]));
  SMELT_ASSIGN_OR_RETURN(Lowering::Division k, l.Divide(block.remainder, kernel[1]));
  SMELT_ASSIGN_OR_RETURN(Lowering::Division o, l.Divide(index[lead + 1], out_w));
  Index at(index.begin(), index.begin() + lead);
  at.push_back(block.quotient);
  at.push_back(builder.Add(builder.Scale(o.quotient, stride[0]), builder.Scale(k.quotient, dilation[0])));
  at.push_back(builder.Add(builder.Scale(o.remainder, stride[1]), builder.Scale(k.remainder, dilation[1])));
  int inside = -1;
  for (int d = 0; d < 2; ++d) {
    at[lead + 1 + d].base = at[lead + 1 + d].base - padding[d];
    if (padding[d] != Expr(0)) inside = l.And(inside, l.InRange(at[lead + 1 + d], sizes[lead + 1 + d]));
  }
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, at, l.And(guard, inside)));
  return l.Select(inside, v, l.Number(builder.TypeOf(v), 0));
}

absl::StatusOr<int> LowerCol2Im(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  const std::vector<Expr>& out = group.Sizes(group.Out(n));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> kernel, group.ExprsOr(n, "kernel_size", 2, {}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> stride, group.ExprsOr(n, "stride", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> padding, group.ExprsOr(n, "padding", 2, {0, 0}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> dilation, group.ExprsOr(n, "dilation", 2, {1, 1}));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> window, group.WindowOf(n, OpFamily::kCol2Im));
  SMELT_RETURN_IF_ERROR(CheckSite(l, n, window, index, guard));
  const size_t lead = out.size() - 3;
  std::vector<Expr> blocks;
  for (int d = 0; d < 2; ++d) {
    blocks.push_back(FloorDiv(out[lead + 1 + d] + padding[d] * 2 - dilation[d] * (kernel[d] - 1) - 1, stride[d]) + 1);
  }
  // The element of a window that lies here, and the block whose window it is, if there is one.
  int inside = -1;
  std::vector<Affine> block, element;
  for (int d = 0; d < 2; ++d) {
    const Affine& q = l.domain().reduced_index[d];
    Affine a = index[lead + 1 + d];
    a.base = a.base + padding[d];
    if (dilation[d] == Expr(1)) {
      // Element r + q * stride, where r is the rest of the place, of a block q before the last one that reaches it.
      SMELT_ASSIGN_OR_RETURN(Lowering::Division along, l.Divide(a, stride[d]));
      block.push_back(builder.Add(along.quotient, builder.Scale(q, Expr(-1))));
      element.push_back(builder.Add(along.remainder, builder.Scale(q, stride[d])));
      if (FloorDiv(kernel[d], stride[d]) * stride[d] != kernel[d])
        inside = l.And(inside, l.InRange(element[d], kernel[d]));
    } else {
      a = builder.Add(a, builder.Scale(q, Expr(0) - dilation[d]));
      element.push_back(q);
      block.push_back(a);
      if (stride[d] != Expr(1)) {
        const int v = builder.IndexValue(a);
        const int r = l.I64(ScalarOp::kRemFloor, v, l.Size(stride[d]));
        inside = l.And(inside, builder.Op(ScalarOp::kEq, DType::kBool, r, builder.ConstInt(DType::kInt64, 0)));
        block.back() = builder.Dynamic(l.I64(ScalarOp::kDivFloor, v, l.Size(stride[d])));
      }
    }
    inside = l.And(inside, l.InRange(block[d], blocks[d]));
  }
  Index at(index.begin(), index.begin() + lead);
  at.push_back(builder.Add(builder.Scale(index[lead], kernel[0] * kernel[1]),
                           builder.Add(builder.Scale(element[0], kernel[1]), element[1])));
  at.push_back(builder.Add(builder.Scale(block[0], blocks[1]), block[1]));
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, at, l.And(guard, inside)));
  const DType t = group.Dt(group.Out(n)), c = OpMathType(t);
  v = l.Convert(v, c);
  v = l.Select(inside, v, l.Number(c, 0));
  return l.Convert(Reduce(l, ReduceKind::kSum, v, -1, false), t);
}

}  // namespace smelt::kernel
