// Decomposes numeric functions that are no single expression: common divisors, multivariate gamma functions, sequences
// between two numbers, cumulative sums of exponentials.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// The number of steps of Euclid's algorithm that suffices for any two numbers of `bits` bits: consecutive Fibonacci
// numbers, whose quotient is the golden ratio, take the most.
int EuclidSteps(int bits) {
  constexpr double kLog2OfGoldenRatio = 0.6942419136306174;
  return static_cast<int>(bits / kLog2OfGoldenRatio) + 2;
}

Values GcdOrLcm(Emit& e, const OpCall& call) {
  const DType t = *e.TypeOf(call.arg(0).value).dtype;
  const DType u = *e.TypeOf(call.arg(1).value).dtype;
  if (!IsIntegral(t) || !IsIntegral(u)) return call.Error("integers are expected");
  // If the dtypes differ, the smaller one is widened by adding a zero of the other dtype.
  const ValueId zero = e.Op("aten::mul.Scalar", {call.arg(1).value, e.Const(int64_t{0})});
  const ValueId x = e.Add(call.arg(0).value, zero);
  const DType common = e.DTypeOf(x);
  const ValueId y = e.Cast(call.arg(1).value, common);
  const bool is_signed = common != DType::kUInt8;
  ValueId a = is_signed ? e.Abs(x) : x, b = is_signed ? e.Abs(y) : y;
  for (int i = EuclidSteps(8 * ItemSize(common)); i > 0; --i) {
    // Once b is 0, further steps change nothing.
    const ValueId rest = e.Op("aten::fmod.Tensor", {a, e.Op("aten::clamp_min", {b, e.Const(int64_t{1})})});
    a = e.Where(e.Op("aten::eq.Scalar", {b, e.Const(int64_t{0})}), a, b);
    b = rest;
  }
  if (call.op().name() == "aten::gcd") return std::vector<ValueId>{a};
  const ValueId divisor = e.Op("aten::clamp_min", {a, e.Const(int64_t{1})});
  const ValueId quotient = e.Op("aten::div.Tensor_mode", {x, divisor, e.Const(std::string("trunc"))});
  // Multiplies as C++ does: small integers as int.
  const DType wide = ItemSize(common) < 4 ? DType::kInt32 : common;
  const ValueId cast = e.Cast(y, wide);
  return std::vector<ValueId>{e.Cast(e.Abs(e.Mul(e.Cast(quotient, wide), cast)), common)};
}

// polygamma(n, self) for n = 0 (digamma) and n = 1, which is PyTorch's series after six steps of the recurrence,
// mirrored below 1/2.
Values Polygamma(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t n, call.GetInt("n"));
  ValueId x = TensorArg(call, "self");
  if (!x.valid()) return call.Error("a tensor is expected");
  if (n < 0) return call.Error("polygamma(n, x) does not support negative n.");
  if (n > 1) return call.Unsupported("an order beyond 1");
  if (!IsFloating(e.DTypeOf(x))) x = e.Cast(x, DType::kFloat32);
  if (n == 0) return std::vector<ValueId>{e.Op("aten::digamma", {x})};
  const DType t = e.DTypeOf(x);
  x = ToCompute(e, x);
  const auto inverse = [&](ValueId v) { return e.Op("aten::reciprocal", {v}); };
  const auto from = [&](double a, ValueId v) { return e.Op("aten::rsub.Scalar", {v, e.Const(a), e.Const(1.0)}); };
  const ValueId mirrored = e.Op("aten::lt.Scalar", {x, e.Const(0.5)});
  const ValueId sine = e.Op("aten::sin", {e.MulN(x, std::numbers::pi)});
  const ValueId mirror = e.MulN(inverse(e.Square(sine)), -std::numbers::pi * std::numbers::pi);
  ValueId sum = e.WhereN(mirrored, mirror, 0);
  x = e.Where(mirrored, from(1, x), x);
  for (int i = 0; i < 6; ++i) {
    sum = e.Add(sum, inverse(e.Square(x)));
    x = e.AddN(x, 1);
  }
  const ValueId square = inverse(e.Square(x));
  const ValueId series = e.Mul(square, from(1.0 / 6, e.Mul(square, from(1.0 / 30, e.MulN(square, 1.0 / 42)))));
  const ValueId tail = e.Div(e.Add(e.AddN(e.MulN(inverse(x), 0.5), 1), series), x);
  sum = e.Add(sum, tail);
  return std::vector<ValueId>{e.Cast(e.Where(mirrored, e.Neg(sum), sum), t)};
}

// The logarithm of the multivariate gamma function of dimension p: the sum of lgamma(x - i / 2) for i < p, plus p (p -
// 1) / 4 log(pi).
Values Mvlgamma(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t p, call.GetInt("p"));
  if (p < 1 || p > 64) return call.Error("p must be in [1, 64]");
  ValueId x = call.arg(0).value;
  if (!IsFloating(e.DTypeOf(x))) x = e.Cast(x, DType::kFloat32);
  ValueId sum;
  for (int64_t i = 0; i < p; ++i) {
    const ValueId term =
        e.Op("aten::lgamma", {e.AddN(x, (1 - static_cast<double>(p)) / 2 + static_cast<double>(i) / 2)});
    sum = i == 0 ? term : e.Add(sum, term);
  }
  // PyTorch sums over an additional dim, and a sum is contiguous.
  constexpr double kLogPi = 1.1447298858494002;
  return std::vector<ValueId>{e.Contiguous(e.AddN(sum, static_cast<double>(p * (p - 1)) / 4 * kLogPi))};
}

// frexp(x): x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1, computed from the bits; 0, infinities and NaN are
// their own mantissa.
Values Frexp(Emit& e, const OpCall& call) {
  const DType t = e.DTypeOf(call.arg(0).value);
  if (!IsFloating(t)) return call.Error("torch.frexp() only supports floating-point dtypes");
  const bool wide = t == DType::kFloat64;
  const DType bits_type = wide ? DType::kInt64 : DType::kInt32;
  const int digits = wide ? 52 : 23, bias = wide ? 1022 : 126;
  const int64_t exponent_bits = (wide ? int64_t{0x7ff} : int64_t{0xff}) << digits;
  const ValueId x = e.Cast(call.arg(0).value, wide ? t : DType::kFloat32), magnitude = e.Abs(x);
  // Scales subnormal numbers to normal ones.
  const ValueId small = e.Op("aten::lt.Scalar", {magnitude, e.Const(std::ldexp(1.0, -bias))});
  const ValueId normal = e.Where(small, e.MulN(x, std::ldexp(1.0, digits + 2)), x);
  const ValueId bits = e.Op("aten::view.dtype", {normal, e.Const(ScalarTypeOf(bits_type))});
  const ValueId shift = e.Const(static_cast<int64_t>(digits));
  ValueId exponent =
      e.Op("aten::__rshift__.Scalar", {e.Op("aten::bitwise_and.Scalar", {bits, e.Const(exponent_bits)}), shift});
  const ValueId scalar = e.Scalar(bits_type, 0);
  const ValueId chosen = e.Where(small, e.Scalar(bits_type, digits + 2), scalar);
  exponent = e.Sub(e.Op("aten::add.Scalar", {exponent, e.Const(int64_t{-bias}), e.Const(int64_t{1})}), chosen);
  const ValueId half =
      e.Op("aten::bitwise_or.Scalar", {e.Op("aten::bitwise_and.Scalar", {bits, e.Const(~exponent_bits)}),
                                       e.Const(static_cast<int64_t>(bias) << digits)});
  ValueId mantissa = e.Op("aten::view.dtype", {half, e.Const(ScalarTypeOf(e.DTypeOf(x)))});
  const ValueId own = e.Op("aten::logical_or", {e.EqN(x, 0), e.Op("aten::logical_not", {e.Op("aten::isfinite", {x})})});
  mantissa = e.Where(own, x, mantissa);
  exponent = e.Where(own, e.Scalar(bits_type, 0), exponent);
  return std::vector<ValueId>{e.Cast(mantissa, t), e.Cast(exponent, DType::kInt32)};
}

// linspace with a tensor as an end; logspace: base to the power of such a sequence. PyTorch counts from the nearer end;
// for integer dtypes it truncates the ends and computes in double.
Values Sequence(Emit& e, const OpCall& call) {
  const bool powers = call.op().name() == "aten::logspace";
  SMELT_ASSIGN_OR_RETURN(int64_t steps, call.GetInt("steps"));
  if (steps < 0) return call.Error("number of steps must be non-negative");
  const DType t = call.GetDType("dtype").value_or(DType::kFloat32);
  if (IsComplex(t)) return call.Unsupported("complex numbers");
  const DType compute = IsFloating(t) ? OpMathType(t) : DType::kFloat64;
  ValueId ends[2];
  for (int k = 0; k < 2; ++k) {
    const OpArg& a = call.arg(k);
    if (!a.IsTensor() && !a.known) return call.Unsupported("an end that is known only at run time");
    double number = a.kind == OpArg::Kind::kInt ? static_cast<double>(a.expr.Constant().value_or(0)) : a.number;
    if (!IsFloating(t)) number = std::trunc(number);
    ends[k] = a.IsTensor() ? e.Cast(IsFloating(t) ? a.value : e.Cast(a.value, t), compute) : e.Scalar(compute, number);
    if (a.IsTensor() && e.Rank(ends[k]) != 0) return call.Error("0-dimensional ends are expected");
  }
  const ValueId i = e.Cast(e.Op("aten::arange", {e.Const(steps), e.None(), e.None(), e.None(), e.None()}), compute);
  const ValueId step = e.DivN(e.Sub(ends[1], ends[0]), static_cast<double>(std::max<int64_t>(steps - 1, 1)));
  const ValueId up = e.Add(ends[0], e.Mul(step, i));
  const ValueId back = e.AddN(e.Neg(i), static_cast<double>(steps - 1));
  const ValueId down = e.Sub(ends[1], e.Mul(step, back));
  ValueId out = steps == 1 ? up : e.Where(e.Op("aten::lt.Scalar", {i, e.Const(steps / 2)}), up, down);
  if (powers) {
    SMELT_ASSIGN_OR_RETURN(double base, call.GetDoubleOr("base", 10));
    out = e.Op("aten::pow.Scalar", {e.Const(base), out});
  }
  return std::vector<ValueId>{e.Cast(out, t)};
}

// The arguments of each window function: n elements, symmetric from the first to `last`.
struct WindowArgs {
  int64_t n, last;
  DType dtype;
};
absl::StatusOr<WindowArgs> GetWindowArgs(const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t n, call.GetInt("window_length"));
  SMELT_ASSIGN_OR_RETURN(bool periodic, call.GetBoolOr("periodic", true));
  if (n < 0) return call.Error("a window's length must not be negative");
  const DType t = call.GetDType("dtype").value_or(DType::kFloat32);
  if (!IsFloating(t)) return call.Error("a window of floating point numbers is expected");
  return WindowArgs{n, periodic ? n : n - 1, t};
}

// hann_window, hamming_window, blackman_window: sums of cosines over one period.
Values Window(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(WindowArgs w, GetWindowArgs(call));
  if (w.n <= 1) return std::vector<ValueId>{e.Full(w.dtype, {w.n}, 1)};
  const ValueId i = e.Op("aten::arange", {e.Const(w.n), e.Const(ScalarTypeOf(w.dtype)), e.None(), e.None(), e.None()});
  const double last = static_cast<double>(w.last);
  if (call.op().name() == "aten::blackman_window") {
    const ValueId x = e.MulN(i, std::numbers::pi / last);
    const auto cosine = [&](double times, double factor) {
      return e.MulN(e.Op("aten::cos", {e.MulN(x, times)}), factor);
    };
    const ValueId second = cosine(2, 0.5);
    return std::vector<ValueId>{e.AddN(e.Sub(cosine(4, 0.08), second), 0.42)};
  }
  const bool hann = call.op().name() == "aten::hann_window";
  SMELT_ASSIGN_OR_RETURN(double alpha, call.GetDoubleOr("alpha", hann ? 0.5 : 0.54));
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", hann ? 0.5 : 0.46));
  const ValueId cosine = e.Op("aten::cos", {e.MulN(i, 2 * std::numbers::pi / last)});
  return std::vector<ValueId>{e.AddN(e.MulN(cosine, -beta), alpha)};
}

// bartlett_window rises to 1 and falls again; kaiser_window is a Bessel function over an arc.
Values ArcWindow(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(WindowArgs w, GetWindowArgs(call));
  if (w.n <= 1) return std::vector<ValueId>{e.Full(w.dtype, {w.n}, 1)};
  const ValueId i = e.Op("aten::arange", {e.Const(w.n), e.Const(ScalarTypeOf(w.dtype)), e.None(), e.None(), e.None()});
  const ValueId x = e.MulN(i, 2.0 / static_cast<double>(w.last));
  if (call.op().name() == "aten::bartlett_window") {
    const ValueId up = e.Op("aten::le.Scalar", {i, e.Const(w.last / 2)});
    return std::vector<ValueId>{e.Where(up, x, e.AddN(e.Neg(x), 2))};
  }
  SMELT_ASSIGN_OR_RETURN(double beta, call.GetDoubleOr("beta", 12));
  const ValueId from_middle = e.AddN(x, -1);
  const ValueId arc = e.Op("aten::clamp_min", {e.AddN(e.Neg(e.Mul(from_middle, from_middle)), 1), e.Const(0.0)});
  const ValueId at = e.Op("aten::i0", {e.MulN(e.Op("aten::sqrt", {arc}), beta)});
  return std::vector<ValueId>{
      e.Cast(e.Op("aten::div.Tensor", {at, e.Op("aten::i0", {e.Scalar(w.dtype, beta)})}), w.dtype)};
}

// fft_fftfreq(n, d): the frequencies of a spectrum's elements, the upper half as negative frequencies; fft_rfftfreq:
// those of half a spectrum.
Values Frequencies(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t n, call.GetInt("n"));
  SMELT_ASSIGN_OR_RETURN(double d, call.GetDoubleOr("d", 1));
  const bool half = call.op().name() == "aten::fft_rfftfreq";
  const DType t = call.GetDType("dtype").value_or(DType::kFloat32);
  if (n < 0 || !IsFloating(t)) return call.Unsupported("frequencies that are not floating point numbers");
  ValueId i =
      e.Op("aten::arange", {e.Const(half ? n / 2 + 1 : n), e.Const(ScalarTypeOf(t)), e.None(), e.None(), e.None()});
  if (!half) {
    const ValueId low = e.Op("aten::lt.Scalar", {i, e.Const(n / 2 + n % 2)});
    i = e.Where(low, i, e.AddN(i, -static_cast<double>(n)));
  }
  return std::vector<ValueId>{e.MulN(i, 1 / (static_cast<double>(n) * d))};
}

// A parallel prefix sum: each element becomes the logaddexp of itself and the partial result 1, 2, 4, ... elements
// before it.
Values LogCumSumExp(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  if (!IsFloating(e.DTypeOf(x))) return call.Unsupported("numbers that are not floating");
  if (e.Rank(x) == 0) return std::vector<ValueId>{e.Op("aten::clone", {x, e.None()})};
  SMELT_ASSIGN_OR_RETURN(int64_t dim, call.GetInt("dim"));
  dim = WrapDim(dim, e.Rank(x));
  const DType t = e.DTypeOf(x);
  const std::optional<int64_t> n = e.Sizes(x)[dim].Constant();
  if (!n) return call.Unsupported("a dim whose size is not known");
  // Every step rounds once, so it computes in float64, as PyTorch does.
  x = e.Cast(x, DType::kFloat64);
  if (*n <= 1) x = e.Op("aten::clone", {x, e.None()});
  for (int64_t before = 1; before < *n; before *= 2) {
    std::vector<Expr> sizes = e.Sizes(x);
    sizes[dim] = before;
    const ValueId nothing = e.Full(e.DTypeOf(x), sizes, -INFINITY);
    x = e.Op("aten::logaddexp", {x, e.Cat({nothing, e.Slice(x, dim, 0, *n - before)}, dim)});
  }
  return std::vector<ValueId>{e.Cast(x, t)};
}

// all and any of bools, under the names that torch._check_tensor_all uses.
Values IsTrue(Emit& e, const OpCall& call) {
  const ValueId x = call.arg(0).value;
  if (e.DTypeOf(x) != DType::kBool) return call.Error("a tensor of bools is expected");
  return std::vector<ValueId>{e.Op(call.op() == "aten::_is_all_true" ? "aten::all" : "aten::any", {x})};
}

}  // namespace

void AddNumberRules(DecompositionTable& t) {
  t["aten::_is_all_true"] = t["aten::_is_any_true"] = IsTrue;
  t["aten::gcd"] = t["aten::lcm"] = GcdOrLcm;
  t["aten::frexp.Tensor"] = Frexp;
  t["aten::polygamma"] = Polygamma;
  t["aten::mvlgamma"] = t["aten::special_multigammaln"] = Mvlgamma;
  t["aten::logspace"] = t["aten::linspace.Tensor_Tensor"] = t["aten::linspace.Tensor_Scalar"] =
      t["aten::linspace.Scalar_Tensor"] = Sequence;
  t["aten::logcumsumexp"] = LogCumSumExp;
  t["aten::hann_window"] = t["aten::hamming_window"] = t["aten::blackman_window"] = Window;
  t["aten::bartlett_window"] = t["aten::kaiser_window"] = ArcWindow;
  t["aten::fft_fftfreq"] = t["aten::fft_rfftfreq"] = Frequencies;
}

}  // namespace smelt
