#include "smelt/core/eval/pointwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/wrapping.h"
#include "smelt/core/eval/elements.h"

namespace smelt::eval_internal {
namespace {

ScalarValue LoadScalar(const char* p, DType t) {
  ScalarValue v;
  if (IsFloating(t)) {
    v.f = LoadAs<double>(p, t);
  } else {
    v.i = LoadAs<int64_t>(p, t);
  }
  return v;
}
void StoreScalar(char* p, DType t, ScalarValue v) {
  if (IsFloating(t)) {
    StoreAs<double>(p, t, v.f);
  } else {
    StoreAs<int64_t>(p, t, v.i);
  }
}
ScalarValue NumberAs(const EvalValue& x, DType t) {
  ScalarValue v;
  if (IsFloating(t)) {
    v.f = ToDouble(x);
  } else {
    v.i = ToInt(x);
  }
  return v;
}

std::vector<int64_t> StridesOf(const Tensor& t) { return {t.strides().begin(), t.strides().end()}; }

// The bare name: "aten::add_" and "aten::add" are "add".
std::string Bare(const std::string& name) { return name.substr(name.find("::") + 2); }

// Multiplies without C++'s special treatment of infinities, like PyTorch.
Cx Times(Cx a, Cx b) {
  return Cx(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
}

// Divides after scaling by the larger part, in T, as PyTorch's kernels do: an overflow of an intermediate result is
// visible.
template <typename T>
Cx QuotientIn(Cx x, Cx y) {
  const T a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (std::abs(c) >= std::abs(d)) {
    if (c == 0 && d == 0) return Cx(a / std::abs(c), b / std::abs(d));
    const T r = d / c, s = 1 / (c + d * r);
    return Cx((a + b * r) * s, (b - a * r) * s);
  }
  const T r = c / d, s = 1 / (d + c * r);
  return Cx((a * r + b) * s, (b * r - a) * s);
}

absl::StatusOr<Cx> ComplexFunction(const Call& c, const std::string& f, DType dtype, const std::vector<Cx>& x) {
  const auto quotient = dtype == DType::kComplex64 ? QuotientIn<float> : QuotientIn<double>;
  const Cx a = x.empty() ? Cx() : x[0], b = x.size() > 1 ? x[1] : Cx(), d = x.size() > 2 ? x[2] : Cx();
  const Cx alpha = c.Has("alpha") ? ToComplex(c.Arg("alpha")) : Cx(1);
  const Cx minus_alpha(-alpha.real(), 0 - alpha.imag());
  const Cx value = c.Has("value") ? ToComplex(c.Arg("value")) : Cx(1);
  const bool nan = std::isnan(a.real()) || std::isnan(a.imag());
  if (f == "add") return a + Times(alpha, b);
  if (f == "sub" || f == "subtract") return a + Times(minus_alpha, b);
  if (f == "rsub") return b + Times(minus_alpha, a);
  if (f == "mul" || f == "multiply") return Times(a, b);
  if (f == "div" || f == "true_divide" || f == "divide") return quotient(a, b);
  if (f == "neg" || f == "negative") return -a;
  if (f == "positive" || f == "clone" || f == "_to_copy" || f == "convert_element_type" || f == "lift_fresh_copy" ||
      f == "detach_copy" || f == "alias_copy" || f == "resolve_conj" || f == "resolve_neg") {
    return a;
  }
  if (f == "conj" || f == "conj_physical" || f == "_conj" || f == "_conj_physical") return std::conj(a);
  if (f == "abs" || f == "absolute") return Cx(std::hypot(a.real(), a.imag()));
  if (f == "angle") return Cx(nan ? NAN : std::arg(a));
  if (f == "exp") return std::exp(a);
  if (f == "exp2") return std::exp(a * M_LN2);
  if (f == "expm1") return std::exp(a) - 1.0;
  if (f == "log") return std::log(a);
  if (f == "log2") return std::log(a) / M_LN2;
  if (f == "log10") return std::log10(a);
  if (f == "log1p") return std::log(a + 1.0);
  if (f == "sqrt") return std::sqrt(a);
  if (f == "rsqrt") return quotient(1, std::sqrt(a));
  if (f == "reciprocal") return quotient(1, a);
  if (f == "square") return Times(a, a);
  if (f == "sin") return std::sin(a);
  if (f == "cos") return std::cos(a);
  if (f == "tan") return std::tan(a);
  if (f == "sinh") return std::sinh(a);
  if (f == "cosh") return std::cosh(a);
  if (f == "tanh") return std::tanh(a);
  if (f == "asin" || f == "arcsin") return std::asin(a);
  if (f == "acos" || f == "arccos") return std::acos(a);
  if (f == "atan" || f == "arctan") return std::atan(a);
  if (f == "asinh" || f == "arcsinh") return std::asinh(a);
  if (f == "acosh" || f == "arccosh") return std::acosh(a);
  if (f == "atanh" || f == "arctanh") return std::atanh(a);
  if (f == "sigmoid") return quotient(1, 1.0 + std::exp(-a));
  if (f == "sgn") return std::abs(a) == 0 ? Cx(0) : a / std::abs(a);
  if (f == "eq") return Cx(a == b);
  if (f == "ne" || f == "not_equal") return Cx(a != b);
  if (f == "logical_not") return Cx(a == Cx(0));
  if (f == "logical_and") return Cx(a != Cx(0) && b != Cx(0));
  if (f == "logical_or") return Cx(a != Cx(0) || b != Cx(0));
  if (f == "logical_xor") return Cx((a != Cx(0)) != (b != Cx(0)));
  if (f == "isnan") return Cx(nan);
  if (f == "isinf") return Cx(std::isinf(a.real()) || std::isinf(a.imag()));
  if (f == "isfinite") return Cx(std::isfinite(a.real()) && std::isfinite(a.imag()));
  if (f == "isreal") return Cx(a.imag() == 0);
  if (f == "pow") {
    if (b == Cx(0)) return Cx(1);
    if (b == Cx(1)) return a;
    if (b == Cx(2)) return a * a;
    if (a == Cx(0)) return b.real() > 0 ? Cx(0) : Cx(INFINITY, NAN);
    return std::pow(a, b);
  }
  if (f == "where") return a != Cx(0) ? b : d;
  if (f == "masked_fill") return b != Cx(0) ? d : a;
  if (f == "fill") return b;
  if (f == "copy") return b;
  if (f == "zero") return Cx(0);
  if (f == "addcmul") return a + Times(Times(value, b), d);
  if (f == "addcdiv") return a + quotient(Times(value, b), d);
  if (f == "lerp") return std::abs(d) < 0.5 ? a + d * (b - a) : b - (b - a) * (1.0 - d);
  if (f == "ldexp") return a * std::pow(2.0, b.real());
  return c.Unsupported("is not supported for complex numbers");
}

absl::StatusOr<Values> ComplexPointwise(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::string f = Bare(c.name());
  // Operands in order: tensors and numbers up to the first keyword argument.
  struct Operand {
    Tensor tensor;
    Cx number;
  };
  std::vector<Operand> operands;
  std::vector<PromotionOperand> kinds;
  std::vector<std::vector<int64_t>> strides = {StridesOf(out)};
  const bool copies = f == "_to_copy" || f == "clone" || f == "convert_element_type";
  for (size_t i = 0; i < c.args.size() && operands.size() < (copies ? 1 : 3); ++i) {
    if (c.schema->arguments[i].kw_only) break;
    const EvalValue& a = c.args[i];
    if (a.IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(Geometry g, Broadcasted(a.tensor().geometry(), out.sizes()));
      strides.push_back(g.strides);
      operands.push_back({a.tensor(), Cx()});
      kinds.push_back({a.tensor().dtype(), a.tensor().rank() == 0 ? PromotionOperand::Category::kZeroDim
                                                                  : PromotionOperand::Category::kDimensioned});
    } else if (a.IsNumber()) {
      kinds.push_back({a.IsComplex()  ? DType::kComplex128
                       : a.IsDouble() ? DType::kFloat64
                       : a.IsInt()    ? DType::kInt64
                                      : DType::kBool,
                       PromotionOperand::Category::kNumber});
      strides.push_back(std::vector<int64_t>(out.rank(), 0));
      operands.push_back({Tensor(), ToComplex(a)});
    }
  }
  // Operands are converted to the common dtype first: in complex64 an integer of many digits loses some.
  const bool single = !kinds.empty() && ResultType(kinds) == DType::kComplex64;
  absl::Status status;
  Walk(out.sizes(), strides, [&](const std::vector<int64_t>& o) {
    std::vector<Cx> x;
    for (size_t k = 0; k < operands.size(); ++k) {
      const Tensor& t = operands[k].tensor;
      x.push_back(t.defined() ? LoadAs<Cx>(static_cast<char*>(t.data()) + o[k + 1] * ItemSize(t.dtype()), t.dtype())
                              : operands[k].number);
      if (single) x.back() = Cx(static_cast<float>(x.back().real()), static_cast<float>(x.back().imag()));
    }
    absl::StatusOr<Cx> r = ComplexFunction(c, f, out.dtype(), x);
    if (!r.ok()) {
      status = r.status();
      return;
    }
    StoreAs<Cx>(static_cast<char*>(out.data()) + o[0] * ItemSize(out.dtype()), out.dtype(), *r);
  });
  SMELT_RETURN_IF_ERROR(status);
  return Values{EvalValue(out)};
}

bool HasComplex(const Call& c) {
  for (const EvalValue& v : c.args) {
    if (v.IsComplex() || (v.IsTensor() && IsComplex(v.tensor().dtype()))) return true;
  }
  const std::optional<DType> asked = c.op.GetDType("dtype");
  return asked && IsComplex(*asked);
}

// --- reductions ---

struct Accumulator {
  Combine combine;
  DType type;
  bool integral;
  double f = 0;
  int64_t i = 0;
  Cx c = 0;
  int64_t index = 0;
  bool any = false;

  void Reset() {
    any = false;
    index = 0;
    const bool one = combine == Combine::kProd || combine == Combine::kAnd;
    f = one ? 1 : 0;
    i = one ? 1 : 0;
    // The maximum of no elements is the smallest value of the type.
    if (combine == Combine::kMax) {
      f = -std::numeric_limits<double>::infinity();
      i = type == DType::kInt64 ? std::numeric_limits<int64_t>::min() : 0;
    }
    if (combine == Combine::kMin) {
      f = std::numeric_limits<double>::infinity();
      i = type == DType::kInt64 ? std::numeric_limits<int64_t>::max() : 0;
    }
  }
  // Returns whether the new value replaces the current one, for minima and maxima. NaN replaces all numbers, and is not
  // replaced.
  bool Better(ScalarValue v, bool ties) const {
    const bool max = combine == Combine::kMax || combine == Combine::kArgMax;
    if (!any) return true;
    if (integral) return v.i == i ? ties : max ? v.i > i : v.i < i;
    if (std::isnan(f)) return ties && std::isnan(v.f);
    if (std::isnan(v.f)) return true;
    return v.f == f ? ties : max ? v.f > f : v.f < f;
  }
  void Take(ScalarValue v, int64_t at, bool ties) {
    switch (combine) {
      case Combine::kSum:
        if (integral) {
          i = WrappingAdd(i, v.i);
        } else {
          f += v.f;
        }
        break;
      case Combine::kProd:
        if (integral) {
          i = WrappingMul(i, v.i);
        } else {
          f *= v.f;
        }
        break;
      case Combine::kAnd:
        i = i != 0 && v.i != 0;
        break;
      case Combine::kOr:
        i = i != 0 || v.i != 0;
        break;
      default:
        if (Better(v, ties)) {
          f = integral ? 0 : v.f;
          i = integral ? v.i : 0;
          index = at;
        }
    }
    any = true;
  }
  ScalarValue Result() const {
    ScalarValue v;
    if (combine == Combine::kArgMax || combine == Combine::kArgMin) {
      v.i = index;
    } else if (integral) {
      v.i = i;
    } else {
      v.f = type == DType::kFloat32 ? static_cast<double>(static_cast<float>(f)) : f;
    }
    return v;
  }
};

// sum, prod, mean, cumsum, cumprod, any and all of complex numbers.
absl::StatusOr<Values> ComplexReduction(Call& c) {
  const std::string f = Bare(c.name());
  const Tensor self = c.T("self");
  const std::optional<DType> asked = c.op.GetDType("dtype");
  const bool scan = f == "cumsum" || f == "cumprod";
  const bool logical = f == "any" || f == "all";
  const bool norm = f == "linalg_vector_norm" || f == "norm";
  if (!scan && !logical && !norm && f != "sum" && f != "prod" && f != "mean" && f != "nansum" && f != "count_nonzero")
    return c.Unsupported("is not supported for complex numbers");
  const DType dtype = logical                ? DType::kBool
                      : f == "count_nonzero" ? DType::kInt64
                      : norm                 ? RealOf(asked.value_or(self.dtype()))
                                             : asked.value_or(self.dtype());
  std::vector<bool> reduced(self.rank(), false);
  std::vector<int64_t> dims = c.Ints("dim");
  if (dims.empty()) {
    reduced.assign(self.rank(), true);
  }
  for (int64_t d : dims) {
    SMELT_ASSIGN_OR_RETURN(int w, Dim(c, d, self.rank()));
    if (self.rank() > 0) reduced[w] = true;
  }
  const double p = norm ? c.D("ord", c.D("p", 2)) : 2;
  std::vector<int64_t> kept, sizes;
  for (int d = 0; d < self.rank(); ++d) {
    kept.push_back(reduced[d] && !scan ? 1 : self.sizes()[d]);
    if (!reduced[d] || scan || c.B("keepdim")) sizes.push_back(kept.back());
  }
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, dtype, sizes, ContiguousStridesOf(sizes)));
  // A requested dtype converts the elements first.
  const std::vector<Cx> x = asked && !logical && !norm ? Read<Cx>(Converted(self, *asked)) : Read<Cx>(self);
  const std::vector<int64_t> strides = ContiguousStridesOf(kept);
  const bool product = f == "prod" || f == "cumprod" || f == "all";
  std::vector<Cx> acc(Product(kept), product ? Cx(1) : Cx(0)), result = acc;
  int64_t count = 1;
  for (int d = 0; d < self.rank(); ++d) count *= reduced[d] ? self.sizes()[d] : 1;
  if (scan) {
    std::vector<Cx> running(x.size());
    ForEachIndex(self.sizes(), [&](const std::vector<int64_t>& index, int64_t at) {
      int dim = 0;
      for (int d = 0; d < self.rank(); ++d) dim = reduced[d] ? d : dim;
      const bool first = self.rank() == 0 || index[dim] == 0;
      const Cx before = first ? (product ? Cx(1) : Cx(0)) : running[at - strides[dim]];
      running[at] = product ? before * x[at] : before + x[at];
    });
    Write(out, running);
    return Values{EvalValue(out)};
  }
  ForEachIndex(self.sizes(), [&](const std::vector<int64_t>& index, int64_t at) {
    int64_t to = 0;
    for (int d = 0; d < self.rank(); ++d) to += reduced[d] ? 0 : index[d] * strides[d];
    Cx& a = acc[to];
    if (f == "any") {
      a = a != Cx(0) || x[at] != Cx(0);
    } else if (f == "all") {
      a = a != Cx(0) && x[at] != Cx(0);
    } else if (f == "count_nonzero") {
      a += x[at] != Cx(0) ? 1 : 0;
    } else if (norm) {
      const double v = std::abs(x[at]);
      a = std::isinf(p) ? Cx(std::max(a.real(), v)) : a + (p == 0 ? (v != 0 ? 1.0 : 0.0) : std::pow(v, p));
    } else {
      a = product ? a * x[at] : a + x[at];
    }
  });
  for (Cx& a : acc) {
    if (f == "mean") a /= static_cast<double>(count);
    if (norm && !std::isinf(p) && p != 0) a = std::pow(a.real(), 1 / p);
  }
  Write(out, acc);
  return Values{EvalValue(out)};
}

}  // namespace

absl::StatusOr<Values> Pointwise(Call& c) {
  if (HasComplex(c)) return ComplexPointwise(c);
  SMELT_ASSIGN_OR_RETURN(PointwiseMeaning m, BuildPointwise(c.op));
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  if (outs.size() > m.results.size()) return c.Unsupported("results that its scalar function does not give");
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].dtype() != m.results[i]) {
      return absl::InternalError(absl::StrCat(c.op.op().full(), ": inference says ", Name(outs[i].dtype()),
                                              ", the scalar function gives ", Name(m.results[i])));
    }
  }
  struct Operand {
    const char* data = nullptr;
    DType dtype = DType::kFloat32;
    ScalarValue number;
  };
  std::vector<Operand> operands;
  std::vector<std::vector<int64_t>> strides;
  std::vector<Tensor> alive;
  for (size_t k = 0; k < m.operands.size(); ++k) {
    const PointwiseOperand& o = m.operands[k];
    if (o.arg < 0 || o.arg >= static_cast<int>(c.args.size())) return c.Unsupported("an operand that is no argument");
    EvalValue v = c.args[o.arg];
    if (o.element >= 0) {
      if (!v.IsList() || o.element >= static_cast<int>(v.elements().size())) return c.Unsupported("no such element");
      v = EvalValue(v.elements()[o.element]);
    }
    Operand operand;
    if (v.IsTensor()) {
      const Tensor& t = v.tensor();
      absl::StatusOr<Geometry> g = Broadcasted(t.geometry(), outs[0].sizes());
      if (!g.ok()) return c.Error(g.status().message());
      strides.push_back(g->strides);
      operand.data = static_cast<const char*>(t.data());
      operand.dtype = t.dtype();
      if (t.dtype() != m.fn.arg_types[k])
        return absl::InternalError(absl::StrCat(c.op.op().full(), ": the scalar function takes another dtype"));
      alive.push_back(t);
    } else {
      strides.push_back(std::vector<int64_t>(outs[0].rank(), 0));
      operand.number = NumberAs(v, m.fn.arg_types[k]);
    }
    operands.push_back(operand);
  }
  const size_t first_out = strides.size();
  for (const Tensor& o : outs) strides.push_back(StridesOf(o));
  bool by_zero = false;
  std::vector<ScalarValue> x(operands.size());
  Walk(outs[0].sizes(), strides, [&](const std::vector<int64_t>& o) {
    for (size_t k = 0; k < operands.size(); ++k) {
      x[k] = operands[k].data == nullptr
                 ? operands[k].number
                 : LoadScalar(operands[k].data + o[k] * ItemSize(operands[k].dtype), operands[k].dtype);
    }
    const std::vector<ScalarValue> r = EvaluateScalarFn(m.fn, x, &by_zero);
    for (size_t i = 0; i < outs.size(); ++i) {
      const DType t = outs[i].dtype();
      StoreScalar(static_cast<char*>(outs[i].data()) + o[first_out + i] * ItemSize(t), t, r[i]);
    }
  });
  if (by_zero) return c.Error("ZeroDivisionError");
  Values results;
  for (Tensor& o : outs) results.push_back(EvalValue(o));
  return results;
}

// Reductions and scans go over the same lines, and differ in when they store. The lambdas share the accumulators.
absl::StatusOr<Values> Reduction(Call& c) {
  if (HasComplex(c)) return ComplexReduction(c);
  SMELT_ASSIGN_OR_RETURN(ReductionMeaning m, BuildReduction(c.op));
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  if (!c.args[m.arg].IsTensor()) return c.Unsupported("a reduction of no tensor");
  const Tensor self = c.args[m.arg].tensor();
  const int rank = self.rank();
  std::vector<bool> reduced(rank, false);
  for (int d : m.dims) {
    if (d < rank) reduced[d] = true;
  }
  // The sizes with reduced dims 1 (a scan keeps all), and the positions of their elements in row-major order.
  std::vector<int64_t> outer, inner;
  std::vector<int> inner_dims;
  for (int d = 0; d < rank; ++d) {
    outer.push_back(reduced[d] ? 1 : self.sizes()[d]);
    if (reduced[d]) {
      inner.push_back(self.sizes()[d]);
      inner_dims.push_back(d);
    }
  }
  const int64_t count = Product(inner);
  if (m.needs_elements && count == 0 && Product(outer) > 0)
    return c.Error(
        "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
        "argument.");
  std::vector<ScalarValue> numbers;
  for (size_t k = 0; k < m.scalars.size(); ++k)
    numbers.push_back(NumberAs(c.args[m.scalars[k]], m.pre.arg_types[1 + k]));

  std::vector<Accumulator> acc;
  for (size_t k = 0; k < m.combine.size(); ++k) {
    Accumulator a;
    a.combine = m.combine[k];
    a.type = m.accumulator[k];
    a.integral = !IsFloating(a.type);
    acc.push_back(a);
  }
  std::vector<std::vector<ScalarValue>> results(outs.size());
  bool by_zero = false;
  const char* base = static_cast<const char*>(self.data());
  const int item = ItemSize(self.dtype());
  auto finish = [&](int64_t n, size_t where) {
    std::vector<ScalarValue> x;
    for (const Accumulator& a : acc) x.push_back(a.Result());
    ScalarValue v;
    v.i = n;
    x.push_back(v);
    x.insert(x.end(), numbers.begin(), numbers.end());
    x.resize(m.post.arg_types.size());
    const std::vector<ScalarValue> r = EvaluateScalarFn(m.post, x, &by_zero);
    for (size_t i = 0; i < outs.size(); ++i) {
      if (results[i].size() <= where) results[i].resize(where + 1);
      results[i][where] = r[i];
    }
  };
  std::vector<int64_t> inner_strides;
  for (int d : inner_dims) inner_strides.push_back(self.strides()[d]);
  // The destination of a scan's result: its row-major position in the whole tensor.
  const std::vector<int64_t> dense = ContiguousStridesOf(self.sizes());
  ForEachIndex(outer, [&](const std::vector<int64_t>& index, int64_t where) {
    int64_t at = 0, to = 0;
    for (int d = 0; d < rank; ++d) {
      at += index[d] * self.strides()[d];
      to += index[d] * dense[d];
    }
    for (Accumulator& a : acc) a.Reset();
    int64_t k = 0;
    Walk(inner, {inner_strides}, [&](const std::vector<int64_t>& o) {
      std::vector<ScalarValue> x = {LoadScalar(base + (at + o[0]) * item, self.dtype())};
      x.insert(x.end(), numbers.begin(), numbers.end());
      const std::vector<ScalarValue> v = EvaluateScalarFn(m.pre, x, &by_zero);
      for (size_t i = 0; i < acc.size(); ++i) acc[i].Take(v[i], k, m.is_scan);
      if (m.is_scan) finish(k + 1, to + (inner_dims.empty() ? 0 : k * dense[inner_dims[0]]));
      ++k;
    });
    if (!m.is_scan) finish(count, where);
  });
  if (by_zero) return c.Error("ZeroDivisionError");
  Values values;
  for (size_t i = 0; i < outs.size(); ++i) {
    char* data = static_cast<char*>(outs[i].data());
    const DType t = outs[i].dtype();
    if (static_cast<int64_t>(results[i].size()) != outs[i].NumElements())
      return absl::InternalError(absl::StrCat(c.op.op().full(), ": inference says ", outs[i].geometry().ToString(),
                                              ", there are ", results[i].size(), " results"));
    size_t k = 0;
    Walk(outs[i].sizes(), {StridesOf(outs[i])},
         [&](const std::vector<int64_t>& o) { StoreScalar(data + o[0] * ItemSize(t), t, results[i][k++]); });
    values.push_back(EvalValue(outs[i]));
  }
  return values;
}

}  // namespace smelt::eval_internal
