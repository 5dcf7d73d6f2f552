// Decomposes products: all become aten::mm, aten::bmm, aten::addmm (beta = alpha = 1) or aten::convolution.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

std::vector<Expr> Joined(std::vector<Expr> a, const std::vector<Expr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The vectors must have the same number of elements: a dot product does not broadcast.
absl::Status CheckDot(Emit& e, const OpCall& call, ValueId a, ValueId b) {
  if (!e.ok() || e.Rank(a) != 1 || e.Rank(b) != 1) return absl::OkStatus();
  const std::optional<int64_t> n = e.Sizes(a)[0].Constant(), m = e.Sizes(b)[0].Constant();
  if (n && m && *n != *m)
    return call.Error(absl::StrCat("1D tensors expected to have the same size, got ", *n, " and ", *m));
  return absl::OkStatus();
}

Values Matmul(Emit& e, const OpCall& call) {
  const ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.ok() && (e.Rank(a) == 0 || e.Rank(b) == 0)) return call.Error("both arguments need to be at least 1D");
  SMELT_RETURN_IF_ERROR(CheckDot(e, call, a, b));
  const bool conjugated = call.op().name() == "aten::vdot" && IsComplex(e.DTypeOf(a));
  return std::vector<ValueId>{EmitMatmul(e, conjugated ? e.Op("aten::conj_physical", {a}) : a, b)};
}

Values Linear(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value, weight = call.arg(1).value, bias = TensorArg(call, "bias");
  const bool has_bias = call.arg(2).IsTensor();
  SMELT_RETURN_IF_ERROR(CheckDot(e, call, input, weight));
  if (e.Rank(weight) == 1)
    return std::vector<ValueId>{has_bias ? e.Add(EmitMatmul(e, input, weight), bias) : EmitMatmul(e, input, weight)};
  const std::vector<Expr> s = e.Sizes(input);
  if (s.empty()) return call.Error("input of rank 0");
  ValueId flat = s.size() == 1 ? e.Unsqueeze(input, 0)
                               : e.Reshape(input, {Product(absl::MakeSpan(s).first(s.size() - 1)), s.back()});
  ValueId wt = e.Transpose(weight, 0, 1);
  ValueId one = e.Const(int64_t{1});
  ValueId out = has_bias ? e.Op("aten::addmm", {bias, flat, wt, one, one}) : e.Mm(flat, wt);
  std::vector<Expr> sizes(s.begin(), s.end() - 1);
  sizes.push_back(e.Sizes(weight)[0]);
  return std::vector<ValueId>{s.size() == 1 ? e.Squeeze(out, 0) : e.View(out, sizes)};
}

// Returns beta * self + alpha * (a @ b), which is no plain bias. For integers PyTorch's products use the factors'
// integral parts; addr does not.
absl::StatusOr<ValueId> Scaled(Emit& e, const OpCall& call, ValueId self, ValueId product) {
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", 1));
  SMELT_ASSIGN_OR_RETURN(double alpha, call.GetDoubleOr("alpha", 1));
  if (e.ok() && IsIntegral(e.DTypeOf(product)) && call.op().name() != "aten::addr") {
    beta = std::trunc(beta);
    alpha = std::trunc(alpha);
  }
  auto scale = [&](ValueId v, double s) {
    if (s == 1) return v;
    return s == static_cast<int64_t>(s) ? e.Op("aten::mul.Scalar", {v, e.Const(static_cast<int64_t>(s))})
                                        : e.MulN(v, s);
  };
  product = scale(product, alpha);
  if (beta == 0) return product;
  return e.Add(scale(self, beta), product);
}

Values Addmm(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", 1));
  SMELT_ASSIGN_OR_RETURN(double alpha, call.GetDoubleOr("alpha", 1));
  if (beta == 1 && alpha == 1) return std::vector<ValueId>();
  SMELT_ASSIGN_OR_RETURN(ValueId v,
                         Scaled(e, call, call.arg(0).value, EmitMatmul(e, call.arg(1).value, call.arg(2).value)));
  return std::vector<ValueId>{v};
}
Values Addmv(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(ValueId v,
                         Scaled(e, call, call.arg(0).value, EmitMatmul(e, call.arg(1).value, call.arg(2).value)));
  return std::vector<ValueId>{v};
}
Values Addr(Emit& e, const OpCall& call) {
  ValueId outer = e.Mul(e.Unsqueeze(call.arg(1).value, 1), call.arg(2).value);
  SMELT_ASSIGN_OR_RETURN(ValueId v, Scaled(e, call, call.arg(0).value, outer));
  return std::vector<ValueId>{v};
}
Values Addbmm(Emit& e, const OpCall& call) {
  ValueId product = e.Sum(e.Op("aten::bmm", {call.arg(1).value, call.arg(2).value}), {0}, false);
  SMELT_ASSIGN_OR_RETURN(ValueId v, Scaled(e, call, call.arg(0).value, product));
  return std::vector<ValueId>{v};
}
Values Outer(Emit& e, const OpCall& call) {
  return std::vector<ValueId>{e.Mul(e.Unsqueeze(call.arg(0).value, 1), call.arg(1).value)};
}

Values ChainMatmul(Emit& e, const OpCall& call) {
  if (call.arg(0).elements.empty()) return call.Error("expected a non-empty list of tensors");
  for (size_t i = 0; i < call.arg(0).elements.size(); ++i) {
    const int rank = e.Rank(call.arg(0).elements[i].value);
    const bool end = i == 0 || i + 1 == call.arg(0).elements.size();
    if (rank != 2 && !(rank == 1 && end)) return call.Error("expected matrices");
  }
  ValueId out = call.arg(0).elements[0].value;
  for (size_t i = 1; i < call.arg(0).elements.size(); ++i) out = EmitMatmul(e, out, call.arg(0).elements[i].value);
  return std::vector<ValueId>{out};
}

// convNd, conv_transposeNd, _convolution: padding as a list or as "same" and "valid".
Values Convolution(Emit& e, const OpCall& call, bool transposed) {
  ValueId input = call.arg(0).value;
  const ValueId weight = call.arg(1).value;
  const ValueId bias = TensorArg(call, "bias");
  const int rank = e.Rank(weight) - 2;
  auto list = [&](absl::string_view name, int64_t fallback) -> absl::StatusOr<std::vector<int64_t>> {
    std::vector<int64_t> v;
    if (call.Find(name) != nullptr && !call.IsNone(name)) {
      SMELT_ASSIGN_OR_RETURN(v, call.GetInts(name));
    }
    if (v.empty()) v = {fallback};
    if (v.size() == 1) v.resize(rank, v[0]);
    if (static_cast<int>(v.size()) != rank)
      return call.Error(absl::StrCat(name, " has ", v.size(), " elements, ", rank, " expected"));
    return v;
  };
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> stride, list("stride", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> dilation, list("dilation", 1));
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> output_padding, list("output_padding", 0));
  std::vector<int64_t> padding(rank, 0);
  const OpArg* p = call.Find("padding");
  if (p != nullptr && p->kind == OpArg::Kind::kString) {
    if (p->string == "same") {
      std::vector<int64_t> extra;
      bool uneven = false;
      for (int d = 0; d < rank; ++d) {
        const Expr k = e.Sizes(weight)[d + 2];
        if (!k.IsConstant()) return call.Unsupported("padding \"same\" for a kernel of unknown size");
        const int64_t total = dilation[d] * (*k.Constant() - 1);
        padding[d] = total / 2;
        extra.push_back(total % 2);
        uneven = uneven || total % 2 != 0;
      }
      if (uneven) {
        std::vector<int64_t> pads;
        for (int d = rank - 1; d >= 0; --d) {
          pads.push_back(0);
          pads.push_back(extra[d]);
        }
        input = e.Op("aten::constant_pad_nd", {input, e.Const(pads), e.Const(int64_t{0})});
      }
    } else if (p->string != "valid") {
      return call.Error(absl::StrCat("padding \"", p->string, "\", \"same\" or \"valid\" expected"));
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(padding, list("padding", 0));
  }
  SMELT_ASSIGN_OR_RETURN(int64_t groups, call.GetIntOr("groups", 1));
  // An unbatched input.
  const bool batched = e.Rank(input) == rank + 2;
  if (!batched) input = e.Unsqueeze(input, 0);
  ValueId b = call.Find("bias") != nullptr && call.Find("bias")->IsTensor() ? bias : e.None();
  ValueId out = e.Op("aten::convolution", {input, weight, b, e.Const(stride), e.Const(padding), e.Const(dilation),
                                           e.Const(transposed), e.Const(output_padding), e.Const(groups)});
  return std::vector<ValueId>{batched ? out : e.Squeeze(out, 0)};
}
Values Conv(Emit& e, const OpCall& call) { return Convolution(e, call, false); }
Values ConvTranspose(Emit& e, const OpCall& call) { return Convolution(e, call, true); }
Values UnderscoreConvolution(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool transposed, call.GetBool("transposed"));
  return Convolution(e, call, transposed);
}

// A transposed convolution whose kernels do not overlap (stride = kernel size, as in twofold upsampling): each input
// position produces its own block of the output. That is one product per position and a permutation, which kernels fuse
// with the bias and later operators; oneDNN 2's own code takes 2 to 7 times as long.
Values BlocksOfTransposedConvolution(Emit& e, const OpCall& call) {
  const std::vector<ValueId> keep;
  SMELT_ASSIGN_OR_RETURN(const bool transposed, call.GetBool("transposed"));
  if (!transposed) return keep;
  const ValueId input = call.arg(0).value, weight = call.arg(1).value, bias = TensorArg(call, "bias");
  const int spatial = e.Rank(weight) - 2;
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> stride, call.GetInts("stride"));
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> padding, call.GetInts("padding"));
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> dilation, call.GetInts("dilation"));
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> output_padding, call.GetInts("output_padding"));
  SMELT_ASSIGN_OR_RETURN(const int64_t groups, call.GetInt("groups"));
  if (groups != 1 || spatial < 1 || e.Rank(input) != spatial + 2) return keep;
  for (const auto* list : {&stride, &padding, &dilation, &output_padding}) {
    if (static_cast<int>(list->size()) != spatial) return keep;
  }
  const std::vector<Expr> in = e.Sizes(input), w = e.Sizes(weight);
  for (int d = 0; d < spatial; ++d) {
    const Expr kernel = w[d + 2];
    if (!kernel.IsConstant() || *kernel.Constant() != stride[d] || stride[d] < 2) return keep;
    if (padding[d] != 0 || dilation[d] != 1 || output_padding[d] != 0) return keep;
  }
  // Output channels and the positions of a block come before input channels, as in the weight of a 1x1 convolution.
  std::vector<int64_t> order, whole = {0, 1};
  std::vector<Expr> flat = {w[1], w[0]}, split = {in[0], w[1]}, out = {in[0], w[1]};
  for (int d = 0; d < spatial; ++d) {
    order.push_back(d + 2);
    flat[0] = flat[0] * w[d + 2];
    flat.push_back(1);
    split.push_back(w[d + 2]);
    whole.push_back(2 + spatial + d);
    whole.push_back(2 + d);
    out.push_back(in[d + 2] * w[d + 2]);
  }
  order.insert(order.begin(), 1);
  order.push_back(0);
  split.insert(split.end(), in.begin() + 2, in.end());
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  const ValueId blocks =
      e.Op("aten::convolution", {input, e.Reshape(e.Permute(weight, order), flat), e.None(), e.Const(ones),
                                 e.Const(zeros), e.Const(ones), e.Const(false), e.Const(zeros), e.Const(int64_t{1})});
  ValueId v = e.Reshape(e.Permute(e.Reshape(blocks, split), whole), out);
  if (bias.valid()) {
    std::vector<Expr> channels(spatial + 1, 1);
    channels[0] = w[1];
    v = e.Add(v, e.Reshape(bias, channels));
  }
  return std::vector<ValueId>{v};
}

Values Bilinear(Emit& e, const OpCall& call) {
  // out[n, k] = sum_ij x1[n, i] w[k, i, j] x2[n, j] + b[k]
  ValueId x1 = call.arg(0).value, x2 = call.arg(1).value, w = call.arg(2).value;
  const std::vector<Expr> sw = e.Sizes(w), batch(e.Sizes(x1).begin(), e.Sizes(x1).end() - 1);
  const Expr rows = Product(batch);
  x1 = e.Reshape(x1, {rows, sw[1]});
  x2 = e.Reshape(x2, {rows, sw[2]});
  ValueId t = e.View(e.Mm(x1, e.Reshape(e.Permute(w, {1, 0, 2}), {sw[1], sw[0] * sw[2]})), {rows, sw[0], sw[2]});
  ValueId out = e.Sum(e.Mul(t, e.Unsqueeze(x2, 1)), {2}, false);
  if (call.arg(3).IsTensor()) out = e.Add(out, call.arg(3).value);
  return std::vector<ValueId>{e.View(out, Joined(batch, {sw[0]}))};
}

// matrix_power(self, n), the products in PyTorch's order.
Values MatrixPower(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t n, call.GetInt("n"));
  const ValueId a = call.arg(0).value;
  if (n < 0) return call.Unsupported("the power of an inverse");
  if (e.Rank(a) < 2) return call.Error("the input tensor must have at least 2 dimensions");
  if (n == 0) {
    const Expr size = e.Sizes(a).back();
    const ValueId none = e.None();
    const ValueId eye = e.Op("aten::eye", {e.Size(size), e.Const(ScalarTypeOf(e.DTypeOf(a))), none, none, none});
    return std::vector<ValueId>{e.Op("aten::clone", {e.Expand(eye, e.Sizes(a)), e.Const(int64_t{0})})};
  }
  if (n == 1) return std::vector<ValueId>{e.Op("aten::clone", {a, e.None()})};
  if (n == 3) return std::vector<ValueId>{EmitMatmul(e, EmitMatmul(e, a, a), a)};
  ValueId square, result;
  for (; n > 0; n /= 2) {
    square = square.valid() ? EmitMatmul(e, square, square) : a;
    if (n % 2 == 1) result = result.valid() ? EmitMatmul(e, result, square) : square;
  }
  return std::vector<ValueId>{result};
}

// Kernels compute real values only.
Values Eye(Emit& e, const OpCall& call) {
  const std::optional<DType> t = call.GetDType("dtype");
  if (!t || !IsComplex(*t)) return std::vector<ValueId>();
  std::vector<ValueId> args;
  for (const OpArg& a : call.args()) args.push_back(ValueOf(e, a));
  args[call.op().overload() == "m" ? 2 : 1] = e.Const(ScalarTypeOf(RealOf(*t)));
  return std::vector<ValueId>{e.Cast(e.Op(call.op().full(), args), *t)};
}

}  // namespace

ValueId EmitMatmul(Emit& e, ValueId a, ValueId b, std::optional<DType> out) {
  if (!e.ok()) return ValueId();
  if (out == e.DTypeOf(a)) out = std::nullopt;
  const int ra = e.Rank(a), rb = e.Rank(b);
  const auto wide = [&](ValueId v) { return out ? e.Cast(v, *out) : v; };
  const auto product = [&](std::string op, ValueId x, ValueId y) {
    return out ? e.Op(op + ".dtype", {x, y, e.Const(ScalarTypeOf(*out))}) : e.Op(op, {x, y});
  };
  if (ra == 1 && rb == 1) {
    const ValueId second = wide(b);
    return e.Sum(e.Mul(wide(a), second), {0}, false);
  }
  if (ra == 1) return e.Squeeze(EmitMatmul(e, e.Unsqueeze(a, 0), b, out), -2);
  if (rb == 1) return e.Squeeze(EmitMatmul(e, a, e.Unsqueeze(b, 1), out), -1);
  if (ra == 2 && rb == 2) return product("aten::mm", a, b);
  const std::vector<Expr> sa = e.Sizes(a), sb = e.Sizes(b);
  if (rb == 2) {
    // The batch is part of the rows.
    ValueId flat = e.Reshape(a, {Product(absl::MakeSpan(sa).first(ra - 1)), sa[ra - 1]});
    std::vector<Expr> sizes(sa.begin(), sa.end() - 1);
    sizes.push_back(sb[1]);
    return e.View(product("aten::mm", flat, b), sizes);
  }
  // Batched: leading dims broadcast.
  const int rank = std::max(ra, rb) - 2;
  std::vector<Expr> batch(rank, Expr(1));
  for (int d = 0; d < rank; ++d) {
    const int da = d - (rank - (ra - 2)), db = d - (rank - (rb - 2));
    const Expr x = da >= 0 ? sa[da] : Expr(1), y = db >= 0 ? sb[db] : Expr(1);
    batch[d] = x == Expr(1) ? y : x;
  }
  const Expr count = Product(batch);
  auto flat = [&](ValueId v, const std::vector<Expr>& s) {
    const std::vector<Expr> matrix = {s[s.size() - 2], s[s.size() - 1]};
    return e.Reshape(e.Expand(v, Joined(batch, matrix)), Joined({count}, matrix));
  };
  const ValueId third = flat(b, sb);
  return e.View(product("aten::bmm", flat(a, sa), third), Joined(batch, {sa[ra - 2], sb[rb - 1]}));
}

void AddLinearAlgebraRules(DecompositionTable& t) {
  t["aten::linear"] = Linear;
  t["aten::eye"] = Eye;
  t["aten::matmul"] = t["aten::linalg_matmul"] = t["aten::mv"] = t["aten::dot"] = t["aten::vdot"] = Matmul;
  t["aten::addmm"] = t["aten::baddbmm"] = Addmm;
  t["aten::addmv"] = Addmv;
  t["aten::addr"] = Addr;
  t["aten::addbmm"] = Addbmm;
  t["aten::outer"] = t["aten::ger"] = Outer;
  t["aten::chain_matmul"] = t["aten::linalg_multi_dot"] = ChainMatmul;
  t["aten::conv1d"] = t["aten::conv2d"] = t["aten::conv3d"] = Conv;
  t["aten::convolution"] = BlocksOfTransposedConvolution;
  t["aten::conv_transpose1d"] = t["aten::conv_transpose2d"] = t["aten::conv_transpose3d"] = ConvTranspose;
  t["aten::_convolution"] = UnderscoreConvolution;
  t["aten::bilinear"] = Bilinear;
  t["aten::matrix_power"] = t["aten::linalg_matrix_power"] = MatrixPower;
}

}  // namespace smelt
