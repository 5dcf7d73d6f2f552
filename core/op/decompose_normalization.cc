// Decomposes softmax, normalizations, variances and norms. They use the compute dtype inside and round once at the end,
// as PyTorch's kernels do.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

constexpr double kInf = std::numeric_limits<double>::infinity();

Values Softmax(Emit& e, const OpCall& call, bool log, bool safe) {
  ValueId self = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  DType out = e.DTypeOf(self);
  if (std::optional<DType> asked = call.GetDType("dtype")) out = *asked;
  SMELT_ASSIGN_OR_RETURN(bool half_to_float, call.GetBoolOr("half_to_float", false));
  if (half_to_float) out = DType::kFloat32;
  if (call.GetDType("dtype")) self = e.Cast(self, out);
  if (!IsFloating(out)) return call.Unsupported("a dtype that is not floating point");
  ValueId x = e.Cast(self, OpMathType(out));
  if (e.Rank(x) == 0) {
    ValueId zero = e.Sub(x, x);
    return std::vector<ValueId>{e.Cast(log ? zero : e.Exp(zero), out)};
  }
  dim = WrapDim(dim, e.Rank(x));
  // An empty tensor has no largest element, and its result is empty too.
  if (e.Sizes(x)[dim] == Expr(0)) return std::vector<ValueId>{e.Cast(e.Exp(x), out)};
  ValueId m = e.Amax(x, {dim}, true);
  e.AllowEmptyReduction(m, e.Sizes(x)[dim]);
  if (safe) {
    const ValueId filled = e.Fill(m, 0);
    m = e.Where(e.EqN(m, -kInf), filled, m);
  }
  ValueId shifted = e.Sub(x, m);
  ValueId exps = e.Exp(shifted);
  ValueId sum = e.Sum(exps, {dim}, true);
  ValueId result;
  if (log) {
    // Along the last dim PyTorch's kernel keeps the sum and its logarithm in the dtype of the result.
    const bool kept = dim == e.Rank(x) - 1;
    const auto keep = [&](ValueId v) { return kept ? e.Cast(e.Cast(v, out), e.DTypeOf(x)) : v; };
    result = e.Sub(shifted, keep(e.Log(keep(sum))));
  } else if (safe) {
    const ValueId quotient = e.Div(exps, sum);
    const ValueId filled = e.Fill(sum, 0);
    result = e.Where(e.EqN(sum, 0), filled, quotient);
  } else {
    // One division per row: the sum is at least 1 (or NaN), so its inverse is a normal number.
    result = e.Mul(exps, e.Op("aten::reciprocal", {sum}));
  }
  return std::vector<ValueId>{e.Cast(result, out)};
}
Values PlainSoftmax(Emit& e, const OpCall& call) { return Softmax(e, call, false, false); }
Values LogSoftmax(Emit& e, const OpCall& call) { return Softmax(e, call, true, false); }
Values SafeSoftmax(Emit& e, const OpCall& call) { return Softmax(e, call, false, true); }
Values Softmin(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  ValueId none = e.None();
  return std::vector<ValueId>{e.Op("aten::softmax.int", {e.Neg(call.arg(0).value), e.Const(dim), none})};
}

Values LogSumExp(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  // Half types are rounded after each step, since PyTorch calls one operator after the other.
  if (!IsFloating(e.DTypeOf(x))) x = e.Cast(x, DType::kFloat32);
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsArg(call, "dim", e.Rank(x)));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  // An empty tensor has no maximum, but a sum.
  const bool nothing =
      std::any_of(dims.begin(), dims.end(), [&](int64_t d) { return d < e.Rank(x) && e.Sizes(x)[d] == Expr(0); });
  ValueId r;
  if (nothing) {
    r = e.Log(e.Sum(e.Exp(x), dims, true));
  } else {
    ValueId m = e.Amax(x, dims, true);
    const ValueId filled = e.Fill(m, 0);
    m = e.Where(e.EqN(e.Abs(m), kInf), filled, m);
    r = e.Add(e.Log(e.Sum(e.Exp(e.Sub(x, m)), dims, true)), m);
  }
  if (keepdim) return std::vector<ValueId>{r};
  std::vector<Expr> kept;
  for (int d = 0; d < e.Rank(x); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(e.Sizes(x)[d]);
  }
  return std::vector<ValueId>{e.View(r, kept)};
}

struct Moments {
  ValueId centered, mean, var;  // mean and var keep the dims; var is the mean square
};
// The mean of the distances from the first mean corrects rounding errors of the sum and of the mean; for nearly equal
// elements these are as large as the differences between elements. (PyTorch's running mean of equal elements is exactly
// that element.) The square of this correction is negligible in the variance, unless elements differ only in their last
// bits.
Moments MomentsOf(Emit& e, ValueId x, const std::vector<int64_t>& dims) {
  Moments m;
  const ValueId first = e.Mean(x, dims, true);
  const ValueId distance = e.Sub(x, first);
  const ValueId lost = e.Mean(distance, dims, true);
  m.mean = e.Add(first, lost);
  m.centered = e.Sub(distance, lost);
  m.var = e.Mean(e.Square(distance), dims, true);
  return m;
}
// The moments of an instance, in float64 as PyTorch's kernels keep them.
Moments InstanceMomentsOf(Emit& e, ValueId x, const std::vector<int64_t>& dims) {
  Moments m;
  m.mean = e.Mean(e.Cast(x, DType::kFloat64), dims, true);
  m.centered = e.Sub(x, e.Cast(m.mean, e.DTypeOf(x)));
  m.var = e.Mean(e.Square(e.Cast(m.centered, DType::kFloat64)), dims, true);
  return m;
}

// Weight and bias in the compute dtype of x.
ValueId Affine(Emit& e, ValueId x, ValueId weight, ValueId bias, bool has_weight, bool has_bias) {
  if (has_weight) x = e.Mul(x, e.Cast(weight, e.DTypeOf(x)));
  if (has_bias) x = e.Add(x, e.Cast(bias, e.DTypeOf(x)));
  return x;
}

Values LayerNorm(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shape, call.GetExprs("normalized_shape"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDoubleOr("eps", 1e-5));
  const int rank = e.Rank(input);
  std::vector<int64_t> dims;
  for (int d = rank - static_cast<int>(shape.size()); d < rank; ++d) dims.push_back(d);
  ValueId x = ToCompute(e, input);
  Moments m = MomentsOf(e, x, dims);
  ValueId rstd = e.Rsqrt(e.AddN(m.var, eps));
  ValueId y = Affine(e, e.Mul(m.centered, rstd), call.arg(2).value, call.arg(3).value, call.arg(2).IsTensor(),
                     call.arg(3).IsTensor());
  y = e.Cast(y, e.DTypeOf(input));
  if (call.op().name() == "aten::layer_norm") return std::vector<ValueId>{y};
  return std::vector<ValueId>{y, m.mean, rstd};
}

Values RmsNorm(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> shape, call.GetExprs("normalized_shape"));
  const DType t = e.DTypeOf(input);
  // The epsilon of the dtype in which PyTorch computes, regardless of the input's dtype.
  const double default_eps =
      t == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDoubleOr("eps", default_eps));
  const int rank = e.Rank(input);
  std::vector<int64_t> dims;
  for (int d = rank - static_cast<int>(shape.size()); d < rank; ++d) dims.push_back(d);
  ValueId x = ToCompute(e, input);
  ValueId rstd = e.Rsqrt(e.AddN(e.Mean(e.Square(x), dims, true), eps));
  ValueId y = e.Mul(x, rstd);
  if (call.arg(2).IsTensor()) y = e.Mul(y, e.Cast(call.arg(2).value, e.DTypeOf(y)));
  y = e.Cast(y, t);
  if (call.op().name() == "aten::rms_norm") return std::vector<ValueId>{y};
  return std::vector<ValueId>{y, rstd};
}

// Returns [C] as [1, C, 1, ...] of the given rank.
ValueId PerChannel(Emit& e, ValueId v, int rank) {
  std::vector<Expr> sizes(rank, Expr(1));
  sizes[1] = e.Sizes(v)[0];
  return e.View(v, sizes);
}

// x * (w / sqrt(var + eps)) + (b - mean * w / sqrt(var + eps)), as PyTorch's CPU kernel evaluates it.
ValueId NormalizeByStatistics(Emit& e, ValueId x, ValueId mean, ValueId var, ValueId weight, ValueId bias,
                              bool has_weight, bool has_bias, double eps) {
  const DType t = e.DTypeOf(x);
  mean = e.Cast(mean, t);
  ValueId alpha = e.Rsqrt(e.AddN(e.Cast(var, t), eps));
  if (has_weight) alpha = e.Mul(alpha, e.Cast(weight, t));
  ValueId beta = e.Neg(e.Mul(mean, alpha));
  if (has_bias) beta = e.Add(beta, e.Cast(bias, t));
  const int rank = e.Rank(x);
  const ValueId per_channel = PerChannel(e, beta, rank);
  return e.Add(e.Mul(x, PerChannel(e, alpha, rank)), per_channel);
}

struct BatchNormArgs {
  ValueId input, weight, bias, mean, var;
  bool has_weight = false, has_bias = false, has_stats = false;
  double momentum = 0.1, eps = 1e-5;
};

absl::StatusOr<BatchNormArgs> GetBatchNormArgs(const OpCall& call) {
  BatchNormArgs a;
  a.input = call.arg(0).value;
  a.has_weight = call.arg(1).IsTensor();
  a.has_bias = call.arg(2).IsTensor();
  a.weight = call.arg(1).value;
  a.bias = call.arg(2).value;
  const OpArg* mean = call.Find("running_mean");
  const OpArg* var = call.Find("running_var");
  a.has_stats = mean != nullptr && var != nullptr && mean->IsTensor() && var->IsTensor();
  if (a.has_stats) {
    a.mean = mean->value;
    a.var = var->value;
  }
  SMELT_ASSIGN_OR_RETURN(a.momentum, call.GetDoubleOr("momentum", 0.1));
  SMELT_ASSIGN_OR_RETURN(a.eps, call.GetDoubleOr("eps", 1e-5));
  return a;
}

// batch_norm and native_batch_norm, with given statistics or in training without running statistics;
// _native_batch_norm_legit_*.
Values BatchNorm(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(BatchNormArgs a, GetBatchNormArgs(call));
  const std::string& name = call.op().name();
  bool training = name != "aten::_native_batch_norm_legit_no_training";
  if (call.Find("training") != nullptr) {
    SMELT_ASSIGN_OR_RETURN(training, call.GetBool("training"));
  }
  const int rank = e.Rank(a.input);
  const DType t = e.DTypeOf(a.input);
  ValueId x = ToCompute(e, a.input);
  const bool single = name == "aten::batch_norm";
  if (!training) {
    if (!a.has_stats) return call.Error("no running statistics in evaluation mode");
    ValueId y =
        e.Cast(NormalizeByStatistics(e, x, a.mean, a.var, a.weight, a.bias, a.has_weight, a.has_bias, a.eps), t);
    if (single) return std::vector<ValueId>{y};
    ValueId empty = e.Full(e.DTypeOf(a.mean), {0}, 0);
    if (name == "aten::_native_batch_norm_legit_functional")
      return std::vector<ValueId>{y, empty, empty, a.mean, a.var};
    return std::vector<ValueId>{y, empty, empty};
  }
  std::vector<int64_t> dims;
  for (int d = 0; d < rank; ++d) {
    if (d != 1) dims.push_back(d);
  }
  const Expr count = e.Count(x, dims);
  // Uses the compute dtype: in float64, which PyTorch uses, this would be eleven kernels instead of one.
  Moments m = MomentsOf(e, x, dims);
  ValueId invstd = e.Rsqrt(e.AddN(m.var, a.eps));
  ValueId y = e.Mul(m.centered, invstd);
  if (a.has_weight) y = e.Mul(y, e.Cast(PerChannel(e, a.weight, rank), e.DTypeOf(y)));
  if (a.has_bias) y = e.Add(y, e.Cast(PerChannel(e, a.bias, rank), e.DTypeOf(y)));
  y = e.Cast(y, t);
  if (single) return std::vector<ValueId>{y};
  const Expr channels = e.Sizes(x)[1];
  ValueId mean = e.View(m.mean, {channels}), save_invstd = e.View(invstd, {channels});
  if (name != "aten::_native_batch_norm_legit_functional") {
    if (a.has_stats) return call.Unsupported("running statistics that are written");
    return std::vector<ValueId>{y, mean, save_invstd};
  }
  ValueId unbiased = e.DivBy(e.Op("aten::mul.Scalar", {e.View(m.var, {channels}), e.Size(count)}), count - 1);
  auto update = [&](ValueId running, ValueId now) {
    const DType rt = e.DTypeOf(running);
    const ValueId scaled = e.MulN(now, a.momentum);
    return e.Cast(e.Add(e.MulN(e.Cast(running, e.DTypeOf(now)), 1 - a.momentum), scaled), rt);
  };
  return std::vector<ValueId>{y, mean, save_invstd, update(a.mean, mean), update(a.var, unbiased)};
}

Values InstanceNorm(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(BatchNormArgs a, GetBatchNormArgs(call));
  SMELT_ASSIGN_OR_RETURN(bool use_input, call.GetBool("use_input_stats"));
  const int rank = e.Rank(a.input);
  const DType t = e.DTypeOf(a.input);
  ValueId x = ToCompute(e, a.input);
  if (!use_input) {
    if (!a.has_stats) return call.Error("no running statistics");
    return std::vector<ValueId>{
        e.Cast(NormalizeByStatistics(e, x, a.mean, a.var, a.weight, a.bias, a.has_weight, a.has_bias, a.eps), t)};
  }
  if (a.has_stats) return call.Unsupported("running statistics that are written");
  std::vector<int64_t> dims;
  for (int d = 2; d < rank; ++d) dims.push_back(d);
  Moments m = InstanceMomentsOf(e, x, dims);
  ValueId y = e.Mul(m.centered, e.Cast(e.Rsqrt(e.AddN(m.var, a.eps)), e.DTypeOf(x)));
  if (a.has_weight) y = e.Mul(y, e.Cast(PerChannel(e, a.weight, rank), e.DTypeOf(y)));
  if (a.has_bias) y = e.Add(y, e.Cast(PerChannel(e, a.bias, rank), e.DTypeOf(y)));
  return std::vector<ValueId>{e.Cast(y, t)};
}

Values GroupNorm(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  const bool native = call.op().name() == "aten::native_group_norm";
  const OpArg& weight = *call.Find("weight");
  const OpArg& bias = *call.Find("bias");
  SMELT_ASSIGN_OR_RETURN(int64_t groups, call.GetInt(native ? "group" : "num_groups"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDoubleOr("eps", 1e-5));
  const std::vector<Expr> s = e.Sizes(input);
  const int rank = static_cast<int>(s.size());
  // All operations have the same domain (batch, groups, channels of a group, positions), so that they become one
  // kernel.
  std::vector<Expr> domain = {s[0], groups, FloorDiv(s[1], Expr(groups))}, per_channel = {groups, domain[2]};
  std::vector<int64_t> dims = {2};
  if (rank > 2) {
    domain.push_back(Product(absl::MakeConstSpan(s).subspan(2)));
    per_channel.push_back(1);
    dims.push_back(3);
  }
  Moments m = MomentsOf(e, e.Reshape(ToCompute(e, input), domain), dims);
  ValueId rstd = e.Rsqrt(e.AddN(m.var, eps));
  ValueId y = e.Mul(m.centered, rstd);
  if (weight.IsTensor()) y = e.Mul(y, e.Cast(e.View(weight.value, per_channel), e.DTypeOf(y)));
  if (bias.IsTensor()) y = e.Add(y, e.Cast(e.View(bias.value, per_channel), e.DTypeOf(y)));
  y = e.Reshape(e.Cast(y, e.DTypeOf(input)), s);
  if (!native) return std::vector<ValueId>{y};
  return std::vector<ValueId>{y, e.View(m.mean, {s[0], groups}), e.View(rstd, {s[0], groups})};
}

// var, std, var_mean, std_mean in all their overloads.
Values Variance(Emit& e, const OpCall& call) {
  const std::string& name = call.op().name();
  const bool root = absl::StartsWith(name, "aten::std");
  const bool with_mean = absl::EndsWith(name, "_mean");
  const ValueId self = call.arg(0).value;
  const DType t = e.DTypeOf(self);
  if (!IsFloating(t)) return call.Unsupported("a dtype that is not floating point");
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsArg(call, "dim", e.Rank(self)));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  double correction = 1;
  if (call.Find("correction") != nullptr) {
    SMELT_ASSIGN_OR_RETURN(correction, call.GetDoubleOr("correction", 1));
  } else if (call.Find("unbiased") != nullptr) {
    SMELT_ASSIGN_OR_RETURN(bool unbiased, call.GetBoolOr("unbiased", true));
    correction = unbiased ? 1 : 0;
  }
  // Uses float64, as PyTorch's kernel does: squares may exceed the range of float32 where their root does not.
  ValueId x = e.Cast(self, DType::kFloat64);
  ValueId mean = e.Mean(x, dims, true);
  ValueId sum = e.Sum(e.Square(e.Sub(x, mean)), dims, keepdim);
  const Expr count = e.Count(x, dims);
  ValueId var;
  if (correction == static_cast<int64_t>(correction)) {
    var = e.DivBy(sum, Max(count - static_cast<int64_t>(correction), Expr(0)));
  } else if (count.IsConstant()) {
    var = e.DivN(sum, std::max(static_cast<double>(*count.Constant()) - correction, 0.0));
  } else {
    return call.Unsupported("a correction that is no integer, of a number of elements that is not known");
  }
  if (root) var = e.Sqrt(var);
  var = e.Cast(var, t);
  if (!with_mean) return std::vector<ValueId>{var};
  if (!keepdim) {
    // The same mean without the kept dims: one pass computes both.
    std::vector<Expr> sizes;
    for (int64_t d = 0; d < e.Rank(x); ++d) {
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) sizes.push_back(e.Sizes(x)[d]);
    }
    mean = e.View(mean, sizes);
  }
  return std::vector<ValueId>{var, e.Cast(mean, t)};
}

ValueId NormOf(Emit& e, ValueId x, double p, const std::vector<int64_t>& dims, bool keepdim) {
  if (p == 2) return e.Sqrt(e.Sum(e.Square(x), dims, keepdim));
  ValueId a = e.Abs(x);
  if (p == 1) return e.Sum(a, dims, keepdim);
  if (p == kInf) return e.Amax(a, dims, keepdim);
  if (p == -kInf) return e.Op("aten::amin", {a, e.Dims(dims), e.Const(keepdim)});
  if (p == 0) return e.Sum(e.Cast(e.Op("aten::ne.Scalar", {x, e.Const(0.0)}), e.DTypeOf(x)), dims, keepdim);
  return e.PowN(e.Sum(e.PowN(a, p), dims, keepdim), 1 / p);
}

// The dtype in which a norm is computed and returned: real floating point.
absl::StatusOr<DType> DTypeOfNorm(Emit& e, const OpCall& call) {
  DType out = RealOf(e.DTypeOf(call.arg(0).value));
  if (std::optional<DType> asked = call.GetDType("dtype")) out = RealOf(*asked);
  if (!IsFloating(out)) return call.Unsupported("a dtype that is not floating point");
  return out;
}
ValueId MagnitudesFor(Emit& e, ValueId x, DType out) {
  return e.Cast(IsComplex(e.DTypeOf(x)) ? e.Abs(x) : x, OpMathType(out));
}

// The norm, computed in the precision of sums and rounded once to `out`: a square of half precision may be infinite
// where the norm is not.
ValueId RoundedNorm(Emit& e, ValueId x, double p, const std::vector<int64_t>& dims, bool keepdim, DType out) {
  return e.Cast(NormOf(e, MagnitudesFor(e, x, out), p, dims, keepdim), out);
}

// Order 1: the largest sum of the magnitudes of a column; infinite order: of a row; order 2: the largest singular
// value; a negative order: the smallest of these. "nuc": the sum of the singular values. "fro": the root of the sum of
// all squares.
Values MatrixNorm(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  double p = 2;
  const OpArg* ord = call.Find("ord");
  const bool named = ord == nullptr || ord->kind == OpArg::Kind::kString;
  const bool nuclear = named && ord != nullptr && ord->string == "nuc";
  if (named && ord != nullptr && ord->string != "fro" && !nuclear) {
    return call.Error(absl::StrCat("linalg.matrix_norm: Order ", ord->string, " not supported."));
  }
  if (!named) {
    SMELT_ASSIGN_OR_RETURN(p, call.GetDouble("ord"));
  }
  SMELT_ASSIGN_OR_RETURN(DType out, DTypeOfNorm(e, call));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  if (e.Rank(self) < 2) return call.Error("The input tensor must have at least 2 dimensions.");
  std::vector<int64_t> dims = {e.Rank(self) - 2, e.Rank(self) - 1};
  if (!call.IsNone("dim")) {
    SMELT_ASSIGN_OR_RETURN(dims, DimsArg(call, "dim", e.Rank(self)));
  }
  if (dims.size() != 2 || dims[0] == dims[1]) return call.Error("dim must be a 2-tuple of different dims");
  const ValueId x = MagnitudesFor(e, self, out);
  if (named && !nuclear) return std::vector<ValueId>{e.Cast(NormOf(e, x, 2, dims, keepdim), out)};
  int64_t summed = dims[0], compared = dims[1];
  const auto extreme = [&](ValueId v, int64_t dim) {
    return p > 0 ? e.Amax(v, {dim}, true) : e.Op("aten::amin", {v, e.Dims({dim}), e.Const(true)});
  };
  ValueId norm;
  if (nuclear || std::abs(p) == 2) {
    const DType asked = call.GetDType("dtype").value_or(e.DTypeOf(self));
    const ValueId last = e.Op("aten::movedim.intlist", {e.Cast(self, asked), e.Dims(dims), e.Dims({-2, -1})});
    const ValueId s = e.Multi("aten::_linalg_svd", {last, e.Const(false), e.Const(false), e.None()}, 3)[1];
    if (!e.ok()) return e.status();
    norm = nuclear ? e.Sum(s, {e.Rank(s) - 1}, true) : extreme(s, e.Rank(s) - 1);
    norm = e.Op("aten::movedim.intlist", {e.Unsqueeze(norm, -1), e.Dims({-2, -1}), e.Dims(dims)});
  } else if (std::abs(p) == 1 || std::abs(p) == kInf) {
    if (std::abs(p) == kInf) std::swap(summed, compared);
    norm = extreme(e.Sum(e.Abs(x), {summed}, true), compared);
  } else {
    return call.Error("linalg.matrix_norm: Order not supported.");
  }
  if (!keepdim) norm = e.Squeeze(e.Squeeze(norm, std::max(summed, compared)), std::min(summed, compared));
  return std::vector<ValueId>{e.Cast(norm, out)};
}

Values VectorNorm(Emit& e, const OpCall& call) {
  ValueId self = call.arg(0).value;
  const std::string& name = call.op().name();
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsArg(call, "dim", e.Rank(self)));
  // Only linalg_norm treats an order as that of a matrix norm.
  if (name == "aten::linalg_norm" && !call.IsNone("ord") &&
      (call.IsNone("dim") ? e.Rank(self) == 2 : dims.size() == 2)) {
    return MatrixNorm(e, call);
  }
  double p = 2;
  for (const char* key : {"ord", "p"}) {
    const OpArg* a = call.Find(key);
    if (a != nullptr && a->IsScalar()) {
      SMELT_ASSIGN_OR_RETURN(p, call.GetDouble(key));
    } else if (a != nullptr && a->kind == OpArg::Kind::kString) {
      if (a->string != "fro") return call.Unsupported("this matrix norm");
    }
  }
  if (name == "aten::linalg_norm" && !call.IsNone("ord") && call.IsNone("dim") && e.Rank(self) != 1) {
    return call.Error("If dim is not specified but ord is, the input must be 1D or 2D");
  }
  SMELT_ASSIGN_OR_RETURN(DType out, DTypeOfNorm(e, call));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  return std::vector<ValueId>{RoundedNorm(e, self, p, dims, keepdim, out)};
}

Values CosineSimilarity(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetIntOr("dim", 1));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDoubleOr("eps", 1e-8));
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.Sizes(a) != e.Sizes(b)) {
    const std::vector<Expr> sizes = e.Sizes(e.Mul(a, b));
    a = e.Expand(a, sizes);
    b = e.Expand(b, sizes);
  }
  dim = WrapDim(dim, e.Rank(a));
  auto norm = [&](ValueId v) {
    return e.Op("aten::clamp_min", {RoundedNorm(e, v, 2, {dim}, true, e.DTypeOf(v)), e.Const(eps)});
  };
  const ValueId quotient = e.Div(b, norm(b));
  return std::vector<ValueId>{e.Sum(e.Mul(e.Div(a, norm(a)), quotient), {dim}, false)};
}

Values PairwiseDistance(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr("p", 2));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDoubleOr("eps", 1e-6));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  ValueId d = e.AddN(e.Sub(call.arg(0).value, call.arg(1).value), eps);
  if (!e.ok()) return e.status();
  if (IsComplex(e.DTypeOf(d))) d = e.Abs(d);
  return std::vector<ValueId>{RoundedNorm(e, d, p, {e.Rank(d) - 1}, keepdim, e.DTypeOf(d))};
}

Values NanToMean(Emit& e, const OpCall& call) {
  // nanmean is nansum divided by the count of numbers, which is a sum in the elements' dtype.
  ValueId x = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, DimsArg(call, "dim", e.Rank(x)));
  SMELT_ASSIGN_OR_RETURN(bool keepdim, call.GetBoolOr("keepdim", false));
  ValueId is_number = e.Op("aten::eq.Tensor", {x, x});
  ValueId numbers = e.Where(is_number, x, e.Fill(x, 0));
  if (const std::optional<DType> asked = call.GetDType("dtype")) numbers = e.Cast(numbers, *asked);
  const ValueId sum = e.Sum(numbers, dims, keepdim);
  return std::vector<ValueId>{e.Div(sum, e.Sum(e.Cast(is_number, e.DTypeOf(sum)), dims, keepdim))};
}

}  // namespace

void AddNormalizationRules(DecompositionTable& t) {
  t["aten::softmax.int"] = t["aten::_softmax"] = t["aten::special_softmax"] = PlainSoftmax;
  t["aten::log_softmax.int"] = t["aten::_log_softmax"] = t["aten::special_log_softmax"] = LogSoftmax;
  t["aten::_safe_softmax"] = SafeSoftmax;
  t["aten::softmin"] = Softmin;
  t["aten::logsumexp"] = t["aten::special_logsumexp"] = LogSumExp;
  t["aten::layer_norm"] = t["aten::native_layer_norm"] = LayerNorm;
  t["aten::rms_norm"] = t["aten::_fused_rms_norm"] = RmsNorm;
  t["aten::batch_norm"] = t["aten::native_batch_norm"] = t["aten::_native_batch_norm_legit"] = BatchNorm;
  t["aten::_native_batch_norm_legit_functional"] = t["aten::_native_batch_norm_legit_no_training"] = BatchNorm;
  t["aten::instance_norm"] = InstanceNorm;
  t["aten::group_norm"] = t["aten::native_group_norm"] = GroupNorm;
  t["aten::var"] = t["aten::std"] = t["aten::var_mean"] = t["aten::std_mean"] = Variance;
  t["aten::norm"] = t["aten::linalg_vector_norm"] = t["aten::linalg_norm"] = t["aten::frobenius_norm"] = VectorNorm;
  t["aten::linalg_matrix_norm"] = MatrixNorm;
  t["aten::cosine_similarity"] = CosineSimilarity;
  t["aten::pairwise_distance"] = PairwiseDistance;
  t["aten::nanmean"] = NanToMean;
}

}  // namespace smelt
