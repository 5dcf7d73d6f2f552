// Matrix products, convolutions, and small special functions. Sums are computed in double.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/wrapping.h"
#include "smelt/core/eval/kernels.h"

namespace smelt::eval_internal {
namespace {

// [n, k] x [k, m], row-major.
template <typename T>
std::vector<T> Multiply(const T* a, const T* b, int64_t n, int64_t k, int64_t m) {
  std::vector<T> out(n * m, T(0));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      const T x = a[i * k + l];
      for (int64_t j = 0; j < m; ++j) out[i * m + j] = WrappingAdd(out[i * m + j], WrappingMul(x, b[l * m + j]));
    }
  }
  return out;
}

// Returns beta * self + alpha * product, or only the product. Integer factors are integers.
template <typename T>
void Finish(const Call& c, const Tensor& out, std::vector<T> product, const Tensor& self) {
  if (self.defined()) {
    T alpha(1), beta(1);
    if constexpr (std::is_same_v<T, Cx>) {
      if (c.Has("alpha")) alpha = ToComplex(c.Arg("alpha"));
      if (c.Has("beta")) beta = ToComplex(c.Arg("beta"));
    } else {
      if (c.Has("alpha")) alpha = static_cast<T>(ToDouble(c.Arg("alpha")));
      if (c.Has("beta")) beta = static_cast<T>(ToDouble(c.Arg("beta")));
    }
    const std::vector<T> added = Read<T>(self);
    for (size_t i = 0; i < product.size(); ++i) {
      product[i] = WrappingMul(alpha, product[i]);
      // beta = 0 means that self is not read, so its NaNs do not count.
      if (beta != T(0)) product[i] = WrappingAdd(product[i], WrappingMul(beta, added[i]));
    }
  }
  Write(out, product);
}

absl::StatusOr<Tensor> SelfFor(const Call& c, const Tensor& out, absl::string_view name) {
  const Tensor self = c.T(name);
  if (!self.defined()) return Tensor();
  absl::StatusOr<Geometry> g = Broadcasted(self.geometry(), out.sizes());
  if (!g.ok()) return c.Error(g.status().message());
  return self.View(*g);
}

// mm(self, mat2), _int_mm, addmm(self, mat1, mat2), bmm, baddbmm, addbmm; unbatched products have a batch of 1.
absl::StatusOr<Values> MatrixProduct(Call& c) {
  const std::string& n = c.name();
  const bool add = absl::StrContains(n, "add");
  const bool batched = absl::StrContains(n, "bmm");
  const size_t first = add ? 1 : 0;
  const Tensor a = c.args[first].tensor(), b = c.args[first + 1].tensor();
  const int rank = batched ? 3 : 2;
  if (a.rank() != rank || b.rank() != rank) return c.Error(absl::StrCat("the factors must be ", rank, "-D tensors"));
  if (a.dtype() != b.dtype() && n != "aten::_int_mm")
    return c.Error(
        absl::StrCat("expected m1 and m2 to have the same dtype, but got: ", Name(a.dtype()), " != ", Name(b.dtype())));
  const int64_t batches = batched ? a.sizes()[0] : 1;
  const int64_t rows = a.sizes()[rank - 2], inner = a.sizes()[rank - 1], columns = b.sizes()[rank - 1];
  if (b.sizes()[rank - 2] != inner || (batched && b.sizes()[0] != batches)) {
    return c.Error(absl::StrCat("mat1 and mat2 shapes cannot be multiplied (", rows, "x", inner, " and ",
                                b.sizes()[rank - 2], "x", columns, ")"));
  }
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(Tensor self, SelfFor(c, out, add ? "self" : ""));
  WithNumber(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::vector<T> x = Read<T>(a), y = Read<T>(b);
    std::vector<T> product;
    for (int64_t i = 0; i < batches; ++i) {
      std::vector<T> p = Multiply(x.data() + i * rows * inner, y.data() + i * inner * columns, rows, inner, columns);
      if (absl::StartsWith(n, "aten::addbmm") && i > 0) {
        for (size_t k = 0; k < p.size(); ++k) product[k] = WrappingAdd(product[k], p[k]);
      } else {
        product.insert(product.end(), p.begin(), p.end());
      }
    }
    if (static_cast<int64_t>(product.size()) != out.NumElements()) product.resize(out.NumElements());
    Finish(c, out, std::move(product), self);
    return 0;
  });
  return Values{EvalValue(out)};
}

// mv(self, vec), addmv(self, mat, vec), dot, vdot, outer, addr.
absl::StatusOr<Values> VectorProduct(Call& c) {
  const std::string& n = c.name();
  const bool add = n == "aten::addmv" || n == "aten::addr";
  const size_t first = add ? 1 : 0;
  const Tensor a = c.args[first].tensor(), b = c.args[first + 1].tensor();
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(Tensor self, SelfFor(c, out, add ? "self" : ""));
  const bool outer = n == "aten::outer" || n == "aten::addr" || n == "aten::ger";
  const bool conjugate = n == "aten::vdot";
  if (outer && (a.rank() != 1 || b.rank() != 1)) return c.Error("vectors are expected");
  if (!outer && (b.rank() != 1 || a.rank() < 1 || a.sizes()[a.rank() - 1] != b.sizes()[0]))
    return c.Error("size mismatch of the factors");
  if (!outer && a.dtype() != b.dtype()) return c.Error("the factors must have the same dtype");
  WithNumber(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    std::vector<T> x = Read<T>(a);
    const std::vector<T> y = Read<T>(b);
    if constexpr (std::is_same_v<T, Cx>) {
      if (conjugate) {
        for (T& v : x) v = std::conj(v);
      }
    }
    std::vector<T> product;
    if (outer) {
      // The sum does not begin at 0: -0 is a possible product.
      for (const T& u : x) {
        for (const T& v : y) product.push_back(WrappingMul(u, v));
      }
    } else {
      product = Multiply(x.data(), y.data(), a.rank() == 2 ? a.sizes()[0] : 1, static_cast<int64_t>(y.size()), 1);
    }
    Finish(c, out, std::move(product), self);
    return 0;
  });
  return Values{EvalValue(out)};
}

// --- convolution ---

struct ConvolutionShape {
  int dims = 0;
  std::vector<int64_t> stride, padding, dilation;
  bool transposed = false;
  int64_t groups = 1;
  std::vector<int64_t> input, weight, output;  // sizes
};

// Calls f(n, group, in channel, out channel, input position or -1, weight index, output index), with flat indices into
// the three row-major arrays, for every product that a convolution adds up. A transposed convolution swaps input and
// output.
template <typename F>
void ForEachProduct(const ConvolutionShape& s, F f) {
  // The names are those of the convolution that is not transposed: "wide" is its input, "narrow" its output.
  const std::vector<int64_t>& wide = s.transposed ? s.output : s.input;
  const std::vector<int64_t>& narrow = s.transposed ? s.input : s.output;
  const int64_t wide_channels = wide[1] / s.groups, narrow_channels = narrow[1] / s.groups;
  std::vector<int64_t> kernel(s.weight.begin() + 2, s.weight.end());
  std::vector<int64_t> positions(narrow.begin() + 2, narrow.end());
  int64_t wide_area = 1, narrow_area = 1, kernel_area = 1;
  for (int d = 0; d < s.dims; ++d) {
    wide_area *= wide[2 + d];
    narrow_area *= narrow[2 + d];
    kernel_area *= kernel[d];
  }
  ForEachIndex(positions, [&](const std::vector<int64_t>& p, int64_t at) {
    ForEachIndex(kernel, [&](const std::vector<int64_t>& k, int64_t tap) {
      int64_t from = 0;
      for (int d = 0; d < s.dims; ++d) {
        const int64_t i = p[d] * s.stride[d] - s.padding[d] + k[d] * s.dilation[d];
        if (i < 0 || i >= wide[2 + d]) return;
        from = from * wide[2 + d] + i;
      }
      for (int64_t n = 0; n < wide[0]; ++n) {
        for (int64_t g = 0; g < s.groups; ++g) {
          for (int64_t co = 0; co < narrow_channels; ++co) {
            const int64_t narrow_at = (n * narrow[1] + g * narrow_channels + co) * narrow_area + at;
            for (int64_t ci = 0; ci < wide_channels; ++ci) {
              const int64_t wide_at = (n * wide[1] + g * wide_channels + ci) * wide_area + from;
              // weight: [out, in / groups, ...], of a transposed one [in, out / groups, ...]: the same here.
              const int64_t weight_at = ((g * narrow_channels + co) * wide_channels + ci) * kernel_area + tap;
              if (s.transposed) {
                f(narrow_at, weight_at, wide_at);
              } else {
                f(wide_at, weight_at, narrow_at);
              }
            }
          }
        }
      }
    });
  });
}

absl::StatusOr<ConvolutionShape> ShapeOf(const Call& c, const Tensor& input, const Tensor& weight,
                                         absl::Span<const int64_t> output) {
  ConvolutionShape s;
  s.dims = weight.rank() - 2;
  if (s.dims < 1 || input.rank() != weight.rank() || static_cast<int>(output.size()) != weight.rank())
    return c.Error("input and weight must have the same rank, 3 or more");
  s.stride = c.PerDim("stride", s.dims, 1);
  s.padding = c.PerDim("padding", s.dims, 0);
  s.dilation = c.PerDim("dilation", s.dims, 1);
  s.transposed = c.B("transposed");
  s.groups = c.I("groups", 1);
  s.input.assign(input.sizes().begin(), input.sizes().end());
  s.weight.assign(weight.sizes().begin(), weight.sizes().end());
  s.output.assign(output.begin(), output.end());
  const std::vector<int64_t>& wide = s.transposed ? s.output : s.input;
  const std::vector<int64_t>& narrow = s.transposed ? s.input : s.output;
  if (s.groups < 1 || narrow[1] != s.weight[0] || wide[1] != s.weight[1] * s.groups || narrow[1] % s.groups != 0 ||
      s.input[0] != s.output[0])
    return c.Error("the channels of input, weight and output do not fit");
  return s;
}

absl::StatusOr<Values> Convolution(Call& c) {
  const Tensor input = c.T("input"), weight = c.T("weight"), bias = c.T("bias");
  // Without a batch dim, one is added at the front.
  if (input.rank() == weight.rank() - 1) {
    Values args = c.args;
    SMELT_ASSIGN_OR_RETURN(Tensor batched, Run1(*c.state, "aten::unsqueeze", {EvalValue(input), Val(0)}));
    args[0] = EvalValue(batched);
    SMELT_ASSIGN_OR_RETURN(Values r, Run(*c.state, c.op.op(), args));
    return Run(*c.state, OpName::Get("aten::squeeze.dim"), {r[0], Val(0)});
  }
  if (input.dtype() != weight.dtype())
    return c.Error(absl::StrCat("Input type (", Name(input.dtype()), ") and weight type (", Name(weight.dtype()),
                                ") should be the same"));
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(ConvolutionShape s, ShapeOf(c, input, weight, out.sizes()));
  if (bias.defined() && (bias.rank() != 1 || bias.sizes()[0] != out.sizes()[1]))
    return c.Error("the bias does not fit");
  WithNumber(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::vector<T> x = Read<T>(input), w = Read<T>(weight);
    std::vector<T> y(out.NumElements(), T(0));
    ForEachProduct(s, [&](int64_t i, int64_t k, int64_t o) { y[o] += x[i] * w[k]; });
    if (bias.defined()) {
      const std::vector<T> b = Read<T>(bias);
      ForEachIndex(out.sizes(), [&](const std::vector<int64_t>& index, int64_t at) { y[at] += b[index[1]]; });
    }
    Write(out, y);
    return 0;
  });
  return Values{EvalValue(out)};
}

// int8_convolution(input, weight, stride, padding, dilation, zero_point): of what the elements differ from the zero point.
absl::StatusOr<Values> Int8Convolution(Call& c) {
  const Tensor input = c.T("input"), weight = c.T("weight");
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(ConvolutionShape s, ShapeOf(c, input, weight, out.sizes()));
  const std::vector<int64_t> x = Read<int64_t>(input), w = Read<int64_t>(weight);
  const int64_t zero = c.I("zero_point");
  std::vector<int64_t> y(out.NumElements(), 0);
  ForEachProduct(s, [&](int64_t i, int64_t k, int64_t o) { y[o] += (x[i] - zero) * w[k]; });
  Write(out, y);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> ConvolutionBackward(Call& c) {
  const Tensor grad = c.T("grad_output"), input = c.T("input"), weight = c.T("weight");
  const std::vector<int64_t> mask = c.Ints("output_mask");
  SMELT_ASSIGN_OR_RETURN(ConvolutionShape s, ShapeOf(c, input, weight, grad.sizes()));
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const std::vector<double> x = Read<double>(input), w = Read<double>(weight), g = Read<double>(grad);
  std::vector<double> gx(x.size()), gw(w.size()), gb(grad.sizes()[1]);
  ForEachProduct(s, [&](int64_t i, int64_t k, int64_t o) {
    gx[i] += g[o] * w[k];
    gw[k] += g[o] * x[i];
  });
  ForEachIndex(grad.sizes(), [&](const std::vector<int64_t>& index, int64_t at) { gb[index[1]] += g[at]; });
  Values results(3);
  const std::vector<double>* values[] = {&gx, &gw, &gb};
  for (size_t i = 0; i < 3; ++i) {
    if (i >= mask.size() || mask[i] == 0 || i >= outs.size()) continue;
    if (outs[i].NumElements() != static_cast<int64_t>(values[i]->size()))
      return c.Error("inference gives another size");
    Write(outs[i], *values[i]);
    results[i] = EvalValue(outs[i]);
  }
  return results;
}

// --- elementwise functions that are not in ScalarOp ---

double Erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  const double y = 1 / (x * x);  // asymptotic
  return (1 - y / 2 * (1 - 1.5 * y * (1 - 2.5 * y))) / (x * std::sqrt(M_PI));
}

// The Hurwitz zeta function by Euler-Maclaurin summation.
double Zeta(double s, double q) {
  double sum = 0;
  constexpr int kTerms = 12;
  for (int k = 0; k < kTerms; ++k) sum += std::pow(q + k, -s);
  const double a = q + kTerms;
  sum += std::pow(a, 1 - s) / (s - 1) + std::pow(a, -s) / 2;
  constexpr double kBernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
  double factor = s, power = std::pow(a, -s - 1), factorial = 2;
  for (int j = 0; j < 7; ++j) {
    sum += kBernoulli[j] / factorial * factor * power;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
    power /= a * a;
    factorial *= (2 * j + 3) * (2 * j + 4);
  }
  return sum;
}

absl::StatusOr<Values> Special(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  if (c.name() == "aten::gcd" || c.name() == "aten::lcm") {
    SMELT_ASSIGN_OR_RETURN(Geometry a, Broadcasted(c.T("self").geometry(), out.sizes()));
    SMELT_ASSIGN_OR_RETURN(Geometry b, Broadcasted(c.T("other").geometry(), out.sizes()));
    const std::vector<int64_t> x = Read<int64_t>(c.T("self").View(a)), y = Read<int64_t>(c.T("other").View(b));
    std::vector<int64_t> r;
    for (size_t i = 0; i < x.size(); ++i) {
      int64_t u = WrappingAbs(x[i]), v = WrappingAbs(y[i]);
      while (v != 0) std::swap(u = v == -1 ? 0 : u % v, v);
      r.push_back(c.name() == "aten::gcd" ? u
                  : u == 0 ? 0
                           : WrappingAbs(WrappingMul(u == -1 ? WrappingSub(int64_t{0}, x[i]) : x[i] / u, y[i])));
    }
    Write(out, r);
    return Values{EvalValue(out)};
  }
  const Tensor self = c.name() == "aten::polygamma" ? c.T("self") : c.args[0].tensor();
  std::vector<double> v = Read<double>(self);
  if (c.name() == "aten::polygamma") {
    const int64_t n = c.I("n");
    if (n < 0) return c.Error("polygamma(n, x) does not support negative n.");
    if (n == 0) {
      SMELT_ASSIGN_OR_RETURN(Tensor d, Run1(*c.state, "aten::digamma", {EvalValue(self)}));
      return Values{EvalValue(d)};
    }
    for (double& x : v) {
      const double factorial = std::tgamma(static_cast<double>(n) + 1);
      if (x > 0) {
        x = (n % 2 == 1 ? 1 : -1) * factorial * Zeta(static_cast<double>(n) + 1, x);
      } else if (n == 1 && x == std::floor(x)) {
        x = INFINITY;
      } else if (n == 1) {
        // By reflection.
        const double s = std::sin(M_PI * x);
        x = M_PI * M_PI / (s * s) - Zeta(2, 1 - x);
      } else {
        x = NAN;
      }
    }
  } else {
    for (double& x : v) x = Erfcx(x);
  }
  Write(out, v);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> ComplexOf(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(Geometry a, Broadcasted(c.args[0].tensor().geometry(), out.sizes()));
  SMELT_ASSIGN_OR_RETURN(Geometry b, Broadcasted(c.args[1].tensor().geometry(), out.sizes()));
  const std::vector<double> x = Read<double>(c.args[0].tensor().View(a)), y = Read<double>(c.args[1].tensor().View(b));
  std::vector<Cx> r;
  for (size_t i = 0; i < x.size(); ++i)
    r.push_back(c.name() == "aten::complex" ? Cx(x[i], y[i]) : Cx(x[i] * std::cos(y[i]), x[i] * std::sin(y[i])));
  Write(out, r);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Cdist(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor a = c.T("x1"), b = c.T("x2");
  const double p = c.D("p", 2);
  if (a.rank() < 2 || b.rank() < 2) return c.Error("cdist needs matrices");
  const int64_t m = a.sizes()[a.rank() - 1];
  std::vector<int64_t> as(out.sizes().begin(), out.sizes().end()), bs = as;
  as[as.size() - 1] = m;
  bs[bs.size() - 2] = bs[bs.size() - 1];
  bs[bs.size() - 1] = m;
  SMELT_ASSIGN_OR_RETURN(Geometry ag, Broadcasted(a.geometry(), as));
  SMELT_ASSIGN_OR_RETURN(Geometry bg, Broadcasted(b.geometry(), bs));
  const std::vector<double> x = Read<double>(a.View(ag)), y = Read<double>(b.View(bg));
  const int64_t rows = as[as.size() - 2], columns = bs[bs.size() - 2];
  std::vector<double> r;
  for (int64_t n = 0, batches = rows * columns == 0 ? 0 : out.NumElements() / (rows * columns); n < batches; ++n) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double s = 0;
        for (int64_t k = 0; k < m; ++k) {
          const double d = std::abs(x[(n * rows + i) * m + k] - y[(n * columns + j) * m + k]);
          if (p == 0) {
            s += d != 0;
          } else if (std::isinf(p)) {
            s = std::max(s, d);
          } else {
            s += std::pow(d, p);
          }
        }
        r.push_back(p == 0 || std::isinf(p) ? s : std::pow(s, 1 / p));
      }
    }
  }
  Write(out, r);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Compare(Call& c) {
  const Tensor a = c.args[0].tensor(), b = c.args[1].tensor();
  const bool same = a.sizes() == b.sizes();
  if (c.name() == "aten::is_same_size" || !same) return Values{EvalValue(same)};
  const std::vector<Cx> x = Read<Cx>(a), y = Read<Cx>(b);
  bool all = true;
  const double rtol = c.D("rtol", 0), atol = c.D("atol", 0);
  for (size_t i = 0; i < x.size(); ++i) {
    bool ok = x[i] == y[i];
    if (c.name() == "aten::allclose") {
      ok = ok || (std::isfinite(std::abs(y[i])) && std::abs(x[i] - y[i]) <= atol + rtol * std::abs(y[i])) ||
           (c.B("equal_nan") && std::isnan(std::abs(x[i])) && std::isnan(std::abs(y[i])));
    }
    all = all && ok;
  }
  if (c.name() == "aten::equal" && a.dtype() != b.dtype()) return c.Error("Expected object of the same data type");
  return Values{EvalValue(all)};
}

// Computes row after row, as the formula says.
absl::StatusOr<Values> Attention(Call& c) {
  const Tensor query = c.T("query"), key = c.T("key"), value = c.T("value"), mask = c.T("mask");
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const int rank = static_cast<int>(query.sizes().size());
  const int64_t rows = query.sizes()[rank - 2], depth = query.sizes()[rank - 1];
  const int64_t keys = key.sizes()[rank - 2], columns = value.sizes()[rank - 1];
  const std::vector<int64_t> heads(query.sizes().begin(), query.sizes().end() - 2);
  const std::vector<double> q = Read<double>(query), k = Read<double>(key), v = Read<double>(value);
  std::vector<int64_t> shape = heads;
  shape.insert(shape.end(), {rows, keys});
  std::vector<double> added(Product(shape));
  if (mask.defined()) {
    absl::StatusOr<Geometry> g = Broadcasted(mask.geometry(), shape);
    if (!g.ok()) return c.Error(g.status().message());
    added = Read<double>(mask.View(*g));
    if (mask.dtype() == DType::kBool) {
      for (double& x : added) x = x != 0 ? 0 : -HUGE_VAL;
    }
  }
  for (int d = 0; d < rank - 2; ++d) {
    for (int64_t n : {key.sizes()[d], value.sizes()[d]}) {
      if (n == 0 ? heads[d] != 0 : heads[d] % n != 0) return c.Error("the sizes do not fit");
    }
  }
  const double scale = c.D("scale"), cap = c.D("cap"), nan = std::nan("");
  const int64_t first = c.I("first"), last = c.I("last");
  std::vector<double> y(out.NumElements());
  ForEachIndex(heads, [&](const std::vector<int64_t>& index, int64_t head) {
    // Neighbouring heads of queries share one of keys, and one of values.
    int64_t key_head = 0, value_head = 0;
    for (int d = 0; d < rank - 2; ++d) {
      key_head = key_head * key.sizes()[d] + index[d] / (heads[d] / key.sizes()[d]);
      value_head = value_head * value.sizes()[d] + index[d] / (heads[d] / value.sizes()[d]);
    }
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> weights(keys);
      double largest = -HUGE_VAL, sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t e = 0; e < depth; ++e)
          score += q[(head * rows + i) * depth + e] * k[(key_head * keys + j) * depth + e];
        score *= scale;
        if (cap > 0) score = cap * std::tanh(score / cap);
        score += added[(head * rows + i) * keys + j];
        weights[j] = first <= j - i && j - i <= last ? score : -HUGE_VAL;
        largest = std::max(largest, weights[j]);
      }
      bool counts = false;
      for (double& w : weights) {
        counts = counts || !(w == -HUGE_VAL);
        w = std::exp(w - (largest == -HUGE_VAL ? 0 : largest));
        sum += w;
      }
      for (int64_t f = 0; f < columns; ++f) {
        double& to = y[(head * rows + i) * columns + f];
        for (int64_t j = 0; j < keys; ++j) to += weights[j] / sum * v[(value_head * keys + j) * columns + f];
        if (!counts) to = c.B("empty_is_nan") && keys > 0 ? nan : 0;
      }
    }
  });
  Write(out, y);
  return Values{EvalValue(out)};
}

}  // namespace

void AddLinearAlgebraKernels(KernelTable& t) {
  t["aten::mm"] = t["aten::_int_mm"] = t["aten::addmm"] = t["aten::bmm"] = t["aten::baddbmm"] = t["aten::addbmm"] =
      MatrixProduct;
  t["aten::mv"] = t["aten::addmv"] = t["aten::dot"] = t["aten::vdot"] = t["aten::outer"] = t["aten::ger"] =
      t["aten::addr"] = VectorProduct;
  t["smelt::int8_convolution"] = Int8Convolution;
  t["smelt::attention"] = Attention;
  t["aten::convolution"] = t["aten::_convolution"] = t["aten::convolution_overrideable"] = Convolution;
  t["aten::convolution_backward"] = ConvolutionBackward;
  t["aten::gcd"] = t["aten::lcm"] = t["aten::polygamma"] = t["aten::special_polygamma"] = t["aten::special_erfcx"] =
      Special;
  t["aten::complex"] = t["aten::polar"] = ComplexOf;
  t["aten::cdist"] = t["aten::_cdist_forward"] = Cdist;
  t["aten::equal"] = t["aten::is_same_size"] = t["aten::allclose"] = Compare;
}

}  // namespace smelt::eval_internal
