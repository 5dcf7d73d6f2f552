// Decompositions of gradient operators, which the graphs of training steps contain.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

Values SoftmaxBackward(Emit& e, const OpCall& call, bool log) {
  const DType t = e.DTypeOf(call.arg(0).value);
  ValueId grad = ToCompute(e, call.arg(0).value), out = ToCompute(e, call.arg(1).value);
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  dim = WrapDim(dim, e.Rank(grad));
  const ValueId sum = e.Sum(log ? grad : e.Mul(grad, out), {dim}, true);
  ValueId r = log ? e.Sub(grad, e.Mul(e.Exp(out), sum)) : e.Mul(e.Sub(grad, sum), out);
  return std::vector<ValueId>{e.Cast(r, t)};
}
Values LogSoftmaxBackwardData(Emit& e, const OpCall& call) { return SoftmaxBackward(e, call, true); }
Values SoftmaxBackwardData(Emit& e, const OpCall& call) { return SoftmaxBackward(e, call, false); }

// nll_loss_backward(grad, self [N, C], target [N], weight?, reduction, ignore_index, total_weight)
Values NllLossBackward(Emit& e, const OpCall& call) {
  ValueId grad = call.arg(0).value, self = call.arg(1).value, target = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetInt("reduction"));
  SMELT_ASSIGN_OR_RETURN(int64_t ignore, call.GetInt("ignore_index"));
  const int64_t dim = e.Rank(self) == 1 ? 0 : 1;
  const DType t = e.DTypeOf(self);
  ValueId classes = Range(e, e.Sizes(self)[dim]);
  std::vector<Expr> shape(e.Rank(self), Expr(1));
  shape[dim] = e.Sizes(self)[dim];
  ValueId wide = e.Unsqueeze(target, dim);
  ValueId hit =
      e.Op("aten::logical_and", {e.Op("aten::eq.Tensor", {e.View(classes, shape), wide}), e.NeInt(wide, ignore)});
  ValueId g = e.Neg(grad);
  if (reduction == 1) g = e.Div(g, call.arg(6).value);
  if (reduction == 0 && e.Rank(self) > 1) g = e.Unsqueeze(g, dim);
  if (call.arg(3).IsTensor()) g = e.Mul(e.View(call.arg(3).value, shape), g);
  ValueId out = e.Where(hit, g, e.Scalar(t, 0));
  return std::vector<ValueId>{e.Expand(out, e.Sizes(self))};
}

Values MseLossBackward(Emit& e, const OpCall& call) {
  ValueId d = e.Sub(call.arg(1).value, call.arg(2).value);
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetInt("reduction"));
  ValueId g = e.Mul(e.MulN(d, 2), call.arg(0).value);
  if (reduction == 1) {
    std::vector<int64_t> all;
    for (int k = 0; k < e.Rank(d); ++k) all.push_back(k);
    g = e.DivBy(g, e.Count(d, all));
  }
  return std::vector<ValueId>{g};
}

// native_batch_norm_backward(grad, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps,
// mask)
Values BatchNormBackward(Emit& e, const OpCall& call) {
  const DType t = e.DTypeOf(call.arg(1).value);
  ValueId grad = ToCompute(e, call.arg(0).value), x = ToCompute(e, call.arg(1).value);
  SMELT_ASSIGN_OR_RETURN(bool train, call.GetBool("train"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDouble("eps"));
  const int rank = e.Rank(x);
  std::vector<int64_t> dims;
  for (int d = 0; d < rank; ++d) {
    if (d != 1) dims.push_back(d);
  }
  const Expr channels = e.Sizes(x)[1];
  std::vector<Expr> shape(rank, Expr(1));
  shape[1] = channels;
  ValueId mean, invstd;
  if (train) {
    mean = e.Cast(call.arg(5).value, e.DTypeOf(x));
    invstd = e.Cast(call.arg(6).value, e.DTypeOf(x));
  } else {
    mean = e.Cast(call.arg(3).value, e.DTypeOf(x));
    invstd = e.Rsqrt(e.AddN(e.Cast(call.arg(4).value, e.DTypeOf(x)), eps));
  }
  ValueId centered = e.Sub(x, e.View(mean, shape));
  ValueId inv = e.View(invstd, shape);
  ValueId grad_sum = e.Sum(grad, dims, true);
  ValueId dot = e.Sum(e.Mul(grad, centered), dims, true);
  ValueId w =
      call.arg(2).IsTensor() ? e.View(e.Cast(call.arg(2).value, e.DTypeOf(x)), shape) : e.Scalar(e.DTypeOf(x), 1);
  const Expr n = e.Count(x, dims);
  ValueId gx;
  if (train) {
    ValueId a = e.DivBy(grad_sum, n);
    const ValueId square = e.Square(inv);
    ValueId b = e.Mul(e.DivBy(dot, n), square);
    const ValueId product = e.Mul(centered, b);
    gx = e.Mul(e.Mul(e.Sub(e.Sub(grad, a), product), inv), w);
  } else {
    gx = e.Mul(e.Mul(grad, inv), w);
  }
  const DType wt = call.arg(2).IsTensor() ? e.DTypeOf(call.arg(2).value) : e.DTypeOf(x);
  ValueId gw = e.Cast(e.View(e.Mul(dot, inv), {channels}), wt), gb = e.Cast(e.View(grad_sum, {channels}), wt);
  return std::vector<ValueId>{e.Cast(gx, t), gw, gb};
}

// native_layer_norm_backward(grad, input, shape, mean, rstd, weight?, bias?, mask)
Values LayerNormBackward(Emit& e, const OpCall& call) {
  const DType t = e.DTypeOf(call.arg(1).value);
  ValueId grad = ToCompute(e, call.arg(0).value), x = ToCompute(e, call.arg(1).value);
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shape, call.GetExprs("normalized_shape"));
  const int rank = e.Rank(x), inner = static_cast<int>(shape.size());
  std::vector<int64_t> in_dims, out_dims;
  for (int d = 0; d < rank; ++d) (d < rank - inner ? out_dims : in_dims).push_back(d);
  ValueId mean = e.Cast(call.arg(3).value, e.DTypeOf(x)), rstd = e.Cast(call.arg(4).value, e.DTypeOf(x));
  ValueId xhat = e.Mul(e.Sub(x, mean), rstd);
  ValueId gw = call.arg(5).IsTensor() ? e.Mul(grad, e.Cast(call.arg(5).value, e.DTypeOf(x))) : grad;
  const Expr n = e.Count(x, in_dims);
  ValueId a = e.DivBy(e.Sum(gw, in_dims, true), n), b = e.DivBy(e.Sum(e.Mul(gw, xhat), in_dims, true), n);
  const ValueId product = e.Mul(xhat, b);
  ValueId gx = e.Mul(e.Sub(e.Sub(gw, a), product), rstd);
  const DType wt = call.arg(5).IsTensor() ? e.DTypeOf(call.arg(5).value) : t;
  auto reduce = [&](ValueId v) { return out_dims.empty() ? v : e.Sum(v, out_dims, false); };
  return std::vector<ValueId>{e.Cast(gx, t), e.Cast(reduce(e.Mul(grad, xhat)), wt), e.Cast(reduce(grad), wt)};
}

// convolution_backward(grad, input, weight, bias_sizes?, stride, padding, dilation, transposed, output_padding, groups,
// mask)
Values ConvolutionBackward(Emit& e, const OpCall& call) {
  const ValueId grad = call.arg(0).value, input = call.arg(1).value, weight = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(bool transposed, call.GetBool("transposed"));
  SMELT_ASSIGN_OR_RETURN(int64_t groups, call.GetInt("groups"));
  const int rank = e.Rank(weight) - 2;
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> stride, call.GetInts("stride"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> padding, call.GetInts("padding"));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dilation, call.GetInts("dilation"));
  for (auto* list : {&stride, &padding, &dilation}) {
    if (list->size() == 1) list->resize(rank, (*list)[0]);
  }
  if (e.Rank(input) != rank + 2) return call.Unsupported("an input without batch dimension");
  const OpArg& mask = *call.Find("output_mask");
  std::vector<ValueId> out(3);
  if (mask.bools.size() != 3) return call.Unsupported("a mask known only at run time");
  if (e.Sizes(input)[0] == Expr(0) || e.Sizes(input)[1] == Expr(0)) {
    // Without a batch or without channels there is nothing to sum.
    const ValueId like[] = {input, weight};
    for (int k = 0; k < 2; ++k) {
      if (mask.bools[k]) out[k] = e.Full(e.DTypeOf(like[k]), e.Sizes(like[k]), 0);
    }
    const Expr channels = transposed ? e.Sizes(weight)[1] * groups : e.Sizes(weight)[0];
    if (mask.bools[2]) out[2] = e.Full(e.DTypeOf(grad), {channels}, 0);
    return out;
  }
  const bool plain = !transposed && groups == 1;
  // The library computes this gradient.
  if (!plain && mask.bools[1] && !mask.bools[0] && !mask.bools[2]) return std::vector<ValueId>();
  const ValueId zeros = e.Const(std::vector<int64_t>(rank, 0));
  if (mask.bools[0] && transposed) {
    out[0] = e.Op("aten::convolution", {grad, weight, e.None(), e.Const(stride), e.Const(padding), e.Const(dilation),
                                        e.Const(false), zeros, e.Const(groups)});
  } else if (mask.bools[0]) {
    // The gradient is a transposed convolution; the rows that a stride leaves over at the end become output padding.
    std::vector<int64_t> rest;
    for (int d = 0; d < rank; ++d) {
      const Expr in = e.Sizes(input)[d + 2], k = e.Sizes(weight)[d + 2], o = e.Sizes(grad)[d + 2];
      const Expr r = in - ((o - 1) * stride[d] - Expr(2) * padding[d] + Expr(dilation[d]) * (k - 1) + 1);
      if (!r.IsConstant()) return call.Unsupported("sizes known only at run time");
      rest.push_back(*r.Constant());
    }
    out[0] = e.Op("aten::convolution", {grad, weight, e.None(), e.Const(stride), e.Const(padding), e.Const(dilation),
                                        e.Const(true), e.Const(rest), e.Const(groups)});
  }
  if (mask.bools[1] && !plain) {
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> output_padding, call.GetInts("output_padding"));
    out[1] = e.Multi(
        "aten::convolution_backward",
        {grad, input, weight, e.None(), e.Const(stride), e.Const(padding), e.Const(dilation), e.Const(transposed),
         e.Const(output_padding), e.Const(groups), e.Const(std::vector<bool>{false, true, false})},
        3)[1];
  } else if (mask.bools[1]) {
    // The gradient of the weight is a convolution of the input with the gradient, with batch and channels swapped and
    // with stride and dilation swapped.
    ValueId x = e.Transpose(input, 0, 1), g = e.Transpose(grad, 0, 1);
    ValueId w = e.Op("aten::convolution", {x, g, e.None(), e.Const(dilation), e.Const(padding), e.Const(stride),
                                           e.Const(false), zeros, e.Const(int64_t{1})});
    for (int d = 0; d < rank; ++d) w = e.Slice(w, d + 2, 0, e.Sizes(weight)[d + 2]);
    out[1] = e.Contiguous(e.Transpose(w, 0, 1));
  }
  if (mask.bools[2]) {
    std::vector<int64_t> dims = {0};
    for (int d = 0; d < rank; ++d) dims.push_back(d + 2);
    out[2] = e.Sum(grad, dims, false);
  }
  if (!e.ok()) return e.status();
  return out;
}

// SELECT_backward and SLICE_backward: write the gradient into a tensor of zeros.
Values SelectBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("input_sizes"));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(Expr index, call.GetExpr("index"));
  ValueId zeros = e.Full(e.DTypeOf(call.arg(0).value), sizes, 0);
  return std::vector<ValueId>{e.Op("aten::select_scatter", {zeros, call.arg(0).value, e.Const(dim), e.Size(index)})};
}
// The gradient of an operator that picks elements along a dim by index: adds grad's elements to zeros at the indices.
ValueId AddedAlong(Emit& e, const std::vector<Expr>& sizes, int64_t dim, ValueId indices, ValueId grad) {
  return e.Op("aten::scatter_add", {e.Full(e.DTypeOf(grad), sizes, 0), e.Const(dim), indices, grad});
}
// value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim), of max, median, sort and similar operators:
// each index occurs once.
Values ValueSelectingReductionBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<Expr> sizes, call.GetExprs("sizes"));
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(const bool keepdim, call.GetBool("keepdim"));
  ValueId grad = call.arg(0).value, indices = call.arg(2).value;
  const int64_t at = WrapDim(dim, std::max<int>(1, static_cast<int>(sizes.size())));
  if (!keepdim && !sizes.empty()) {
    grad = e.Unsqueeze(grad, at);
    indices = e.Unsqueeze(indices, at);
  }
  return std::vector<ValueId>{
      e.Op("aten::scatter.src", {e.Full(e.DTypeOf(grad), sizes, 0), e.Const(at), indices, grad})};
}
// gather_backward(grad, self, dim, index, sparse_grad)
Values GatherBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(const bool sparse, call.GetBool("sparse_grad"));
  if (sparse) return call.Unsupported("a sparse gradient");
  return std::vector<ValueId>{AddedAlong(e, e.Sizes(call.arg(1).value), dim, call.arg(3).value, call.arg(0).value)};
}
// index_select_backward(grad, self_sizes, dim, index)
Values IndexSelectBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<Expr> sizes, call.GetExprs("self_sizes"));
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, call.GetInt("dim"));
  const ValueId grad = call.arg(0).value;
  return std::vector<ValueId>{e.Op("aten::index_add", {e.Full(e.DTypeOf(grad), sizes, 0), e.Const(dim),
                                                       call.arg(3).value, grad, e.Const(int64_t{1})})};
}
// cummaxmin_backward(grad, input, indices, dim)
Values CumulativeExtremumBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const int64_t dim, call.GetInt("dim"));
  return std::vector<ValueId>{AddedAlong(e, e.Sizes(call.arg(1).value), dim, call.arg(2).value, call.arg(0).value)};
}
// embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse)
Values EmbeddingBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const bool sparse, call.GetBool("sparse"));
  if (sparse) return call.Unsupported("a sparse gradient");
  std::vector<ValueId> args;
  for (int k = 0; k < 5; ++k) args.push_back(ValueOf(e, call.arg(k)));
  return std::vector<ValueId>{e.Op("aten::embedding_dense_backward", std::move(args))};
}
// trace_backward(grad, sizes)
Values TraceBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<Expr> sizes, call.GetExprs("sizes"));
  if (sizes.size() != 2) return call.Error("expected a matrix");
  const ValueId grad = call.arg(0).value;
  const ValueId is_diagonal = e.Op("aten::eq.Tensor", {e.Unsqueeze(Range(e, sizes[0]), 1), Range(e, sizes[1])});
  return std::vector<ValueId>{e.Where(is_diagonal, grad, e.Fill(grad, 0))};
}
Values SliceBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("input_sizes"));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(Expr start, call.GetExpr("start"));
  SMELT_ASSIGN_OR_RETURN(Expr end, call.GetExpr("end"));
  SMELT_ASSIGN_OR_RETURN(Expr step, call.GetExpr("step"));
  ValueId zeros = e.Full(e.DTypeOf(call.arg(0).value), sizes, 0);
  return std::vector<ValueId>{
      e.Op("aten::slice_scatter", {zeros, call.arg(0).value, e.Const(dim), e.Size(start), e.Size(end), e.Size(step)})};
}

// diagonal_backward(grad_output, input_sizes, offset, dim1, dim2)
Values DiagonalBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("input_sizes"));
  const ValueId zeros = e.Full(e.DTypeOf(call.arg(0).value), sizes, 0);
  return std::vector<ValueId>{e.Op("aten::diagonal_scatter", {zeros, call.arg(0).value, ValueOf(e, call.arg(2)),
                                                              ValueOf(e, call.arg(3)), ValueOf(e, call.arg(4))})};
}

// unfold_backward(grad_in [..., windows, ..., size], input_sizes, dim, size, step): windows may overlap.
Values UnfoldBackward(Emit& e, const OpCall& call) {
  const ValueId grad = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("input_sizes"));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  SMELT_ASSIGN_OR_RETURN(Expr size, call.GetExpr("size"));
  SMELT_ASSIGN_OR_RETURN(Expr step, call.GetExpr("step"));
  const int rank = static_cast<int>(sizes.size());
  dim = WrapDim(dim, rank);
  if (rank == 0 || e.Rank(grad) != rank + 1 || dim < 0 || dim >= rank) return call.Unsupported("these sizes");
  // Windows and the places in them become one dim.
  std::vector<Expr> flat = e.Sizes(grad);
  const Expr windows = flat[dim];
  flat.pop_back();
  flat[dim] = windows * size;
  const ValueId parts = e.Reshape(e.Op("aten::movedim.int", {grad, e.Const(int64_t{-1}), e.Const(dim + 1)}), flat);
  const ValueId first = e.Op("aten::mul.Scalar", {Range(e, windows), e.Size(step)});
  const ValueId range = Range(e, size);
  const ValueId at = e.Reshape(e.Add(e.Unsqueeze(first, 1), range), {windows * size});
  const ValueId zeros = e.Full(e.DTypeOf(grad), sizes, 0);
  return std::vector<ValueId>{e.Op("aten::index_add", {zeros, e.Const(dim), at, parts, e.Const(int64_t{1})})};
}

// glu_backward(grad_output, self, dim): of a * sigmoid(b), where a and b are the halves of self.
Values GluBackward(Emit& e, const OpCall& call) {
  const DType t = e.DTypeOf(call.arg(1).value);
  const ValueId grad = ToCompute(e, call.arg(0).value), self = ToCompute(e, call.arg(1).value);
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  dim = WrapDim(dim, e.Rank(self));
  if (dim < 0 || dim >= e.Rank(self)) return call.Error("dim is out of range");
  if (e.Rank(grad) != e.Rank(self)) return call.Error("the gradient does not fit the input");
  const Expr half = e.Sizes(grad)[dim];
  const ValueId a = e.Slice(self, dim, 0, half), gate = e.Sigmoid(e.Slice(self, dim, half, half * 2));
  const ValueId rest = e.Op("aten::rsub.Scalar", {gate, e.Const(1.0), e.Const(1.0)});
  const ValueId of_gate = e.Mul(e.Mul(e.Mul(rest, gate), grad), a);
  return std::vector<ValueId>{e.Cast(e.Cat({e.Mul(gate, grad), of_gate}, dim), t)};
}

// log_sigmoid_forward(self): also returns the buffer that log_sigmoid_backward takes.
Values LogSigmoidForward(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  const ValueId buffer = e.Cast(e.Exp(e.Neg(e.Abs(ToCompute(e, self)))), e.DTypeOf(self));
  return std::vector<ValueId>{e.Op("aten::log_sigmoid", {self}), buffer};
}

// _prelu_kernel_backward(grad_output, self, weight): the weight's gradient is that of each element.
Values PreluBackward(Emit& e, const OpCall& call) {
  const ValueId grad = call.arg(0).value, self = call.arg(1).value;
  const ValueId positive = e.Op("aten::gt.Scalar", {self, e.Const(int64_t{0})});
  const ValueId zero = e.Fill(grad, 0);
  return std::vector<ValueId>{e.Where(positive, grad, e.Mul(call.arg(2).value, grad)),
                              e.Where(positive, zero, e.Mul(self, grad))};
}

// soft_margin_loss_backward(grad_output, self, target, reduction)
Values SoftMarginLossBackward(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(1).value, target = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetInt("reduction"));
  const ValueId z = e.Exp(e.Mul(e.Neg(target), self));
  const ValueId shifted = e.AddN(z, 1);
  ValueId g = e.Div(e.Mul(e.Neg(target), z), shifted);
  if (reduction == 1) g = e.DivBy(g, Product(e.Sizes(self)));
  return std::vector<ValueId>{e.Mul(g, call.arg(0).value)};
}

// multi_margin_loss_backward(grad_output, self [N, C], target [N], p, margin, weight?, reduction)
Values MultiMarginLossBackward(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(1).value, target = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDouble("p"));
  SMELT_ASSIGN_OR_RETURN(double margin, call.GetDouble("margin"));
  SMELT_ASSIGN_OR_RETURN(int64_t reduction, call.GetIntOr("reduction", 1));
  if (e.Rank(self) != 2 || e.Rank(target) != 1) return call.Unsupported("operands of this rank");
  if (p != 1 && p != 2) return call.Error("only p == 1 and p == 2 supported");
  const Expr classes = e.Sizes(self)[1];
  const ValueId at = e.Unsqueeze(target, 1);
  const ValueId hit = e.Op("aten::eq.Tensor", {Range(e, classes), at});
  const ValueId own = e.Op("aten::gather", {self, e.Const(int64_t{1}), at, e.Const(false)});
  const ValueId over = e.AddN(e.Sub(self, own), margin);
  const ValueId zero = e.Fill(self, 0);
  ValueId g = e.Op("aten::gt.Scalar", {over, e.Const(int64_t{0})});
  g = e.Where(g, p == 1 ? e.Fill(self, 1) : e.MulN(over, 2), zero);
  if (const ValueId weight = TensorArg(call, "weight"); weight.valid())
    g = e.Mul(g, e.Unsqueeze(e.Op("aten::index_select", {weight, e.Const(int64_t{0}), target}), 1));
  g = e.Where(hit, zero, g);
  g = e.Where(hit, e.Neg(e.Sum(g, {1}, true)), g);
  g = e.DivBy(g, reduction == 1 ? classes * e.Sizes(self)[0] : classes);
  const ValueId grad = call.arg(0).value;
  return std::vector<ValueId>{e.Mul(g, reduction == 0 ? e.Unsqueeze(grad, 1) : grad)};
}

// masked_scatter_backward(grad_output, mask, sizes): the gradient of the source, whose first elements went to the
// masked places.
Values MaskedScatterBackward(Emit& e, const OpCall& call) {
  const ValueId grad = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call.GetExprs("sizes"));
  const Expr elements = Product(sizes);
  if (elements.IsConstant() && *elements.Constant() == 0) return call.Unsupported("a source without elements");
  const ValueId mask = e.Flatten(e.Expand(call.arg(1).value, e.Sizes(grad)));
  const ValueId rank = e.Op("aten::cumsum", {e.Cast(mask, DType::kInt64), e.Const(int64_t{0}), e.None()});
  const ValueId at = e.Op("aten::clamp", {e.Op("aten::sub.Scalar", {rank, e.Const(int64_t{1}), e.Const(int64_t{1})}),
                                          e.Const(int64_t{0}), e.Size(elements - 1)});
  const ValueId sum = e.Op("aten::index_add", {e.Full(e.DTypeOf(grad), {elements}, 0), e.Const(int64_t{0}), at,
                                               e.WhereN(mask, e.Flatten(grad), 0), e.Const(int64_t{1})});
  return std::vector<ValueId>{e.View(sum, sizes)};
}

// _cdist_backward(grad [..., P, R], x1 [..., P, M], x2 [..., R, M], p, cdist [..., P, R]): the gradient of x1.
Values CdistBackward(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDouble("p"));
  const ValueId grad = e.Unsqueeze(call.arg(0).value, -1), dist = e.Unsqueeze(call.arg(4).value, -1);
  const ValueId unsqueezed = e.Unsqueeze(call.arg(2).value, -3);
  const ValueId d = e.Sub(e.Unsqueeze(call.arg(1).value, -2), unsqueezed);
  if (!e.ok()) return e.status();
  const ValueId sign = e.Op("aten::sign", {d}), nothing = e.EqN(dist, 0);
  ValueId g;
  if (p == 0) {
    g = e.MulN(d, 0);
  } else if (p == 1) {
    g = e.Mul(grad, sign);
  } else if (std::isinf(p)) {
    const ValueId is_largest = e.Op("aten::eq.Tensor", {e.Abs(d), dist});
    const ValueId filled = e.Fill(d, 0);
    g = e.Where(is_largest, e.Mul(grad, sign), filled);
  } else if (p == 2) {
    const ValueId product = e.Mul(grad, e.Div(d, dist));
    g = e.Where(nothing, e.Fill(d, 0), product);
  } else {
    const ValueId part = e.Mul(sign, e.PowN(e.Abs(d), p - 1));
    const ValueId power = e.PowN(dist, 1 - p);
    const ValueId product = e.Mul(e.Mul(part, grad), power);
    g = e.Where(nothing, e.Fill(d, 0), product);
    if (p < 1) {
      const ValueId filled = e.Fill(d, 0);
      g = e.Where(e.EqN(d, 0), filled, g);
    }
  }
  if (!e.ok()) return e.status();
  if (e.Rank(g) < 2) return call.Error("operands of 2 or more dims are expected");
  return std::vector<ValueId>{e.Sum(g, {e.Rank(g) - 2}, false)};
}

// _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim): a sum of products, each factor of which lacks some dims.
Values Trilinear(Emit& e, const OpCall& call) {
  ValueId product;
  for (int k = 0; k < 3; ++k) {
    ValueId factor = call.arg(k).value;
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, call.GetInts(absl::StrCat("expand", k + 1)));
    std::sort(dims.begin(), dims.end());
    for (int64_t d : dims) factor = e.Unsqueeze(factor, d);
    product = product.valid() ? e.Mul(product, factor) : factor;
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> sums, call.GetInts("sumdim"));
  if (!e.ok()) return e.status();
  for (int64_t& d : sums) {
    d = WrapDim(d, e.Rank(product));
    if (d < 0 || d >= e.Rank(product)) return call.Error("a dim to sum over is out of range");
  }
  return std::vector<ValueId>{sums.empty() ? product : e.Sum(product, sums, false)};
}

}  // namespace

void AddBackwardRules(DecompositionTable& t) {
  t["aten::_log_softmax_backward_data"] = LogSoftmaxBackwardData;
  t["aten::_softmax_backward_data"] = SoftmaxBackwardData;
  t["aten::nll_loss_backward"] = t["aten::nll_loss2d_backward"] = NllLossBackward;
  t["aten::mse_loss_backward"] = MseLossBackward;
  t["aten::native_batch_norm_backward"] = BatchNormBackward;
  t["aten::native_layer_norm_backward"] = LayerNormBackward;
  t["aten::convolution_backward"] = ConvolutionBackward;
  t["aten::select_backward"] = SelectBackward;
  t["aten::slice_backward"] = SliceBackward;
  t["aten::value_selecting_reduction_backward"] = ValueSelectingReductionBackward;
  t["aten::gather_backward"] = GatherBackward;
  t["aten::index_select_backward"] = IndexSelectBackward;
  t["aten::cummaxmin_backward"] = CumulativeExtremumBackward;
  t["aten::embedding_backward"] = EmbeddingBackward;
  t["aten::trace_backward"] = TraceBackward;
  t["aten::diagonal_backward"] = DiagonalBackward;
  t["aten::unfold_backward"] = UnfoldBackward;
  t["aten::glu_backward"] = GluBackward;
  t["aten::log_sigmoid_forward"] = LogSigmoidForward;
  t["aten::_prelu_kernel_backward"] = PreluBackward;
  t["aten::soft_margin_loss_backward"] = SoftMarginLossBackward;
  t["aten::multi_margin_loss_backward"] = MultiMarginLossBackward;
  t["aten::masked_scatter_backward"] = MaskedScatterBackward;
  t["aten::_cdist_backward"] = CdistBackward;
  t["aten::_trilinear"] = Trilinear;
}

}  // namespace smelt
