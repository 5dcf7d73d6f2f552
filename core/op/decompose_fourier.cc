// Decomposes Fourier transforms into three: _fft_c2c, _fft_r2c and _fft_c2r (ATen/native/SpectralOps.cpp).
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// The divisor of the sum: 1, the square root of the number of elements, or that number. The values are those of
// _fft_c2c's argument.
enum class Normalization : int64_t { kNone = 0, kByRoot = 1, kByNumber = 2 };

absl::StatusOr<Normalization> NormalizationArg(const OpCall& call, bool forward) {
  std::string mode = "backward";
  if (!call.IsNone("norm")) {
    SMELT_ASSIGN_OR_RETURN(mode, call.GetString("norm"));
  }
  if (mode == "ortho") return Normalization::kByRoot;
  if (mode != "backward" && mode != "forward") return call.Error(absl::StrCat("invalid normalization mode: ", mode));
  return (mode == "backward") == forward ? Normalization::kNone : Normalization::kByNumber;
}

DType ComplexOf(DType t) { return t == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64; }

// Integers are transformed as float32.
absl::StatusOr<ValueId> Promoted(Emit& e, const OpCall& call, bool to_complex) {
  const ValueId x = call.arg(0).value;
  const DType t = e.DTypeOf(x);
  if (ItemSize(t) < 4 && IsFloating(t)) return call.Error(absl::StrCat("unsupported dtype ", Name(t)));
  if (IsComplex(t)) return x;
  const DType real = IsFloating(t) ? t : DType::kFloat32;
  return e.Cast(x, to_complex ? ComplexOf(real) : real);
}

struct Signal {
  std::vector<int64_t> dims;
  std::vector<Expr> sizes;     // of those dims, of what is transformed
  bool last_is_asked = false;  // the last size is one that the call names, not the operand's own
};

// Reads the dims and sizes of the transform: arguments s and dim for several dims, n and dim for one.
absl::StatusOr<Signal> SignalOf(Emit& e, const OpCall& call) {
  const std::vector<Expr> self = e.Sizes(call.arg(0).value);
  const int rank = static_cast<int>(self.size());
  Signal out;
  const bool one = call.Find("n") != nullptr;
  const absl::string_view sizes_name = one ? "n" : "s";
  std::vector<Expr> sizes;
  if (!call.IsNone(sizes_name)) {
    SMELT_ASSIGN_OR_RETURN(sizes, call.GetExprs(sizes_name));
  }
  if (call.IsNone("dim")) {
    const int count = sizes.empty() ? rank : static_cast<int>(sizes.size());
    if (count > rank) return call.Error("got shape with more values than the input has dims");
    for (int d = rank - count; d < rank; ++d) out.dims.push_back(d);
  } else {
    SMELT_ASSIGN_OR_RETURN(out.dims, call.GetInts("dim"));
    for (int64_t& d : out.dims) {
      d = WrapDim(d, rank);
      if (d < 0 || d >= rank) return call.Error("a dim is out of range");
      if (std::count(out.dims.begin(), out.dims.end(), d) > 1) return call.Error("FFT dims must be unique");
    }
  }
  if (!sizes.empty() && sizes.size() != out.dims.size()) {
    return call.Error("dim and shape arguments must have the same length");
  }
  out.last_is_asked = !sizes.empty() && !(sizes.back() == Expr(-1));
  for (size_t k = 0; k < out.dims.size(); ++k) {
    const Expr& own = self[out.dims[k]];
    out.sizes.push_back(sizes.empty() || sizes[k] == Expr(-1) ? own : sizes[k]);
    if (out.sizes[k].IsConstant() && *out.sizes[k].Constant() < 1) {
      return call.Error(absl::StrCat("invalid number of data points (", out.sizes[k].ToString(), ") specified"));
    }
  }
  return out;
}

// Cuts the operand to the signal's sizes, or fills it up with zeros.
ValueId Resized(Emit& e, ValueId x, const Signal& signal) {
  for (size_t k = 0; k < signal.dims.size(); ++k) {
    const int64_t d = signal.dims[k];
    const Expr have = e.Sizes(x)[d], want = signal.sizes[k];
    if (have == want) continue;
    const SymbolRanges& ranges = e.graph().symbols;
    Expr kept = ranges.AlwaysLessOrEqual(want, have) == true   ? want
                : ranges.AlwaysLessOrEqual(have, want) == true ? have
                                                               : Min(have, want);
    // A negative size is rejected later, by the padding.
    if (ranges.AlwaysLessOrEqual(0, kept) != true) kept = Max(kept, 0);
    if (kept != have) x = e.Slice(x, d, 0, kept);
    if (kept == want) continue;
    std::vector<Expr> pad(2 * (e.Rank(x) - d), Expr(0));
    pad.back() = want - kept;
    x = e.Op("aten::constant_pad_nd", {x, e.Ints(pad), e.Const(int64_t{0})});
  }
  return x;
}

ValueId ComplexToComplex(Emit& e, ValueId x, const std::vector<int64_t>& dims, Normalization by, bool forward) {
  return e.Op("aten::_fft_c2c", {x, e.Dims(dims), e.Const(static_cast<int64_t>(by)), e.Const(forward)});
}
ValueId RealToComplex(Emit& e, ValueId x, const std::vector<int64_t>& dims, Normalization by, bool onesided) {
  return e.Op("aten::_fft_r2c", {x, e.Dims(dims), e.Const(static_cast<int64_t>(by)), e.Const(onesided)});
}
ValueId ComplexToReal(Emit& e, ValueId x, const std::vector<int64_t>& dims, Normalization by, const Expr& last) {
  return e.Op("aten::_fft_c2r", {x, e.Dims(dims), e.Const(static_cast<int64_t>(by)), e.Size(last)});
}
ValueId Conj(Emit& e, ValueId x) { return e.Op("aten::conj_physical", {x}); }

// fft, ifft, fft2, fftn and others. A real signal of one dim uses the real transform, one of several dims the complex
// one.
Values Complex(Emit& e, const OpCall& call) {
  const bool forward = !absl::StrContains(call.op().name(), "ifft");
  const bool one = call.Find("n") != nullptr;
  SMELT_ASSIGN_OR_RETURN(Normalization by, NormalizationArg(call, forward));
  SMELT_ASSIGN_OR_RETURN(ValueId x, Promoted(e, call, !one));
  SMELT_ASSIGN_OR_RETURN(Signal signal, SignalOf(e, call));
  x = Resized(e, x, signal);
  if (IsComplex(e.DTypeOf(x))) return std::vector<ValueId>{ComplexToComplex(e, x, signal.dims, by, forward)};
  const ValueId out = RealToComplex(e, x, signal.dims, by, false);
  return std::vector<ValueId>{forward ? out : Conj(e, out)};
}

// Returns a real operand, cut or filled up to the signal's sizes.
absl::StatusOr<ValueId> RealSignal(Emit& e, const OpCall& call, Signal* signal) {
  SMELT_ASSIGN_OR_RETURN(ValueId x, Promoted(e, call, false));
  if (IsComplex(e.DTypeOf(x))) return call.Error("expects a real input tensor");
  SMELT_ASSIGN_OR_RETURN(*signal, SignalOf(e, call));
  if (signal->dims.empty()) return call.Error("must transform at least one axis");
  return Resized(e, x, *signal);
}

// rfft, rfft2, rfftn.
Values Real(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(Normalization by, NormalizationArg(call, true));
  Signal signal;
  SMELT_ASSIGN_OR_RETURN(ValueId x, RealSignal(e, call, &signal));
  return std::vector<ValueId>{RealToComplex(e, x, signal.dims, by, true)};
}

// ihfft, ihfft2, ihfftn: of a real signal, the conjugate of rfft along the last dim, then ifft along the others.
Values InverseHermitian(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(Normalization by, NormalizationArg(call, false));
  Signal signal;
  SMELT_ASSIGN_OR_RETURN(ValueId x, RealSignal(e, call, &signal));
  x = Conj(e, RealToComplex(e, x, {signal.dims.back()}, by, true));
  signal.dims.pop_back();
  if (!signal.dims.empty()) x = ComplexToComplex(e, x, signal.dims, by, false);
  return std::vector<ValueId>{x};
}

// irfft and hfft of one or more dims: a real signal from half of its spectrum.
Values ToReal(Emit& e, const OpCall& call) {
  const bool hermitian = absl::StrContains(call.op().name(), "_hfft");
  SMELT_ASSIGN_OR_RETURN(Normalization by, NormalizationArg(call, hermitian));
  SMELT_ASSIGN_OR_RETURN(ValueId x, Promoted(e, call, true));
  SMELT_ASSIGN_OR_RETURN(Signal signal, SignalOf(e, call));
  if (signal.dims.empty()) return call.Error("must transform at least one axis");
  const Expr last = signal.last_is_asked ? signal.sizes.back() : (signal.sizes.back() - Expr(1)) * 2;
  if (last.IsConstant() && *last.Constant() < 1) {
    return call.Error(absl::StrCat("invalid number of data points (", last.ToString(), ") specified"));
  }
  signal.sizes.back() = FloorDiv(last, Expr(2)) + 1;
  x = Resized(e, x, signal);
  if (!hermitian) return std::vector<ValueId>{ComplexToReal(e, x, signal.dims, by, last)};
  const std::vector<int64_t> half = {signal.dims.back()};
  signal.dims.pop_back();
  if (!signal.dims.empty()) x = ComplexToComplex(e, x, signal.dims, by, true);
  return std::vector<ValueId>{ComplexToReal(e, Conj(e, x), half, by, last)};
}

// fftshift moves the zero frequency to the middle; ifftshift moves it back.
Values Shift(Emit& e, const OpCall& call) {
  const ValueId x = call.arg(0).value;
  std::vector<int64_t> dims;
  if (call.IsNone("dim")) {
    for (int d = 0; d < e.Rank(x); ++d) dims.push_back(d);
  } else {
    SMELT_ASSIGN_OR_RETURN(dims, call.GetInts("dim"));
  }
  const Expr round_up = absl::StrContains(call.op().name(), "ifft") ? Expr(1) : Expr(0);
  std::vector<Expr> shifts;
  for (int64_t& d : dims) {
    d = WrapDim(d, e.Rank(x));
    if (d < 0 || d >= e.Rank(x)) return call.Error("a dim is out of range");
    shifts.push_back(FloorDiv(e.Sizes(x)[d] + round_up, Expr(2)));
  }
  return std::vector<ValueId>{e.Op("aten::roll", {x, e.Ints(shifts), e.Dims(dims)})};
}

// stft: transforms windows of n_fft elements that begin hop_length apart.
Values ShortTime(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  const bool batched = e.Rank(x) == 2;
  if (e.Rank(x) != 1 && !batched) return call.Error("expected a 1D or 2D tensor");
  SMELT_ASSIGN_OR_RETURN(int64_t n_fft, call.GetInt("n_fft"));
  SMELT_ASSIGN_OR_RETURN(int64_t hop, call.GetIntOr("hop_length", n_fft / 4));
  SMELT_ASSIGN_OR_RETURN(int64_t win_length, call.GetIntOr("win_length", n_fft));
  SMELT_ASSIGN_OR_RETURN(bool center, call.GetBoolOr("center", false));
  SMELT_ASSIGN_OR_RETURN(bool normalized, call.GetBoolOr("normalized", false));
  SMELT_ASSIGN_OR_RETURN(bool aligned, call.GetBoolOr("align_to_window", false));
  if (aligned) return call.Unsupported("align_to_window");
  if (n_fft <= 0) return call.Error("expected 0 < n_fft");
  if (hop <= 0) return call.Error("expected hop_length > 0");
  if (win_length <= 0 || win_length > n_fft) return call.Error("expected 0 < win_length <= n_fft");
  if (!batched) x = e.Unsqueeze(x, 0);
  if (center) {
    std::string mode = "reflect";
    if (!call.IsNone("pad_mode")) {
      SMELT_ASSIGN_OR_RETURN(mode, call.GetString("pad_mode"));
    }
    const int64_t pad = n_fft / 2;
    // Padding by reflection needs a dim of channels.
    x = e.Op("aten::pad", {e.Unsqueeze(x, 0), e.Dims({pad, pad}), e.Const(mode), e.None()});
    x = e.Squeeze(x, 0);
  }
  if (!e.ok()) return e.status();
  const std::optional<int64_t> length = e.Sizes(x)[1].Constant();
  if (length && *length < n_fft) {
    return call.Error(absl::StrCat("expected 0 < n_fft < ", *length, ", but got n_fft=", n_fft));
  }
  ValueId window = TensorArg(call, "window");
  if (win_length < n_fft) {
    if (!window.valid()) window = e.Full(e.DTypeOf(x), {Expr(win_length)}, 1);
    const int64_t left = (n_fft - win_length) / 2;
    window = e.Op("aten::constant_pad_nd", {window, e.Dims({left, n_fft - win_length - left}), e.Const(int64_t{0})});
  }
  x = e.Op("aten::unfold", {x, e.Const(int64_t{1}), e.Const(n_fft), e.Const(hop)});
  if (window.valid()) x = e.Mul(x, window);
  if (!e.ok()) return e.status();
  const bool complex = IsComplex(e.DTypeOf(x));
  SMELT_ASSIGN_OR_RETURN(bool onesided, call.GetBoolOr("onesided", !complex));
  const Normalization by = normalized ? Normalization::kByRoot : Normalization::kNone;
  x = complex ? ComplexToComplex(e, x, {2}, by, true) : RealToComplex(e, x, {2}, by, onesided);
  x = e.Transpose(x, 1, 2);
  if (!batched) x = e.Squeeze(x, 0);
  SMELT_ASSIGN_OR_RETURN(bool return_complex, call.GetBoolOr("return_complex", complex));
  return std::vector<ValueId>{return_complex ? x : e.Op("aten::view_as_real", {x})};
}

// Adds up windows of n_fft elements, hop apart, [channels, frames, n_fft], where they overlap.
ValueId OverlapAdd(Emit& e, ValueId windows, int64_t n_fft, int64_t hop, const Expr& length) {
  if (IsComplex(e.DTypeOf(windows))) {
    const auto part = [&](const char* name) { return OverlapAdd(e, e.Op(name, {windows}), n_fft, hop, length); };
    const ValueId real = part("aten::real");
    return e.Op("aten::complex", {real, part("aten::imag")});
  }
  const ValueId one = e.Dims({1, 1});
  const ValueId image = e.Op("aten::col2im", {e.Transpose(windows, 1, 2), e.Ints({Expr(1), length}), e.Dims({1, n_fft}),
                                              one, e.Dims({0, 0}), e.Dims({1, hop})});
  return e.View(image, {e.Sizes(windows)[0], length});
}

// istft: multiplies each column's signal by the window, adds the windows up where they overlap, and divides by the sum
// of the squared windows, which must not be 0 anywhere.
Values InverseShortTime(Emit& e, const OpCall& call) {
  ValueId x = call.arg(0).value;
  const bool batched = e.Rank(x) == 3;
  if (!IsComplex(e.DTypeOf(x))) return call.Error("requires a complex-valued input tensor");
  if (e.Rank(x) != 2 && !batched) return call.Error("expected a tensor with 2 or 3 dimensions");
  SMELT_ASSIGN_OR_RETURN(int64_t n_fft, call.GetInt("n_fft"));
  SMELT_ASSIGN_OR_RETURN(int64_t hop, call.GetIntOr("hop_length", n_fft / 4));
  SMELT_ASSIGN_OR_RETURN(int64_t win_length, call.GetIntOr("win_length", n_fft));
  SMELT_ASSIGN_OR_RETURN(bool center, call.GetBoolOr("center", true));
  SMELT_ASSIGN_OR_RETURN(bool normalized, call.GetBoolOr("normalized", false));
  SMELT_ASSIGN_OR_RETURN(bool return_complex, call.GetBoolOr("return_complex", false));
  if (n_fft <= 0) return call.Error("expected 0 < n_fft");
  if (hop <= 0 || hop > win_length) return call.Error("expected 0 < hop_length <= win_length");
  if (win_length <= 0 || win_length > n_fft) return call.Error("expected 0 < win_length <= n_fft");
  if (!batched) x = e.Unsqueeze(x, 0);
  const Expr bins = e.Sizes(x)[1], frames = e.Sizes(x)[2];
  SMELT_ASSIGN_OR_RETURN(bool onesided, call.GetBoolOr("onesided", !(bins == Expr(n_fft))));
  if (const Expr want = onesided ? n_fft / 2 + 1 : n_fft; !(bins == want)) {
    return call.Error(absl::StrCat("expected the frequency dimension (3rd to the last) of the input tensor to be ",
                                   want.ToString(), ", but got ", bins.ToString()));
  }
  for (const Expr& size : e.Sizes(x)) {
    if (size == Expr(0)) return call.Error("input tensor cannot be empty");
  }
  if (return_complex && onesided) return call.Error("cannot have onesided output if window or input is complex");
  ValueId window = TensorArg(call, "window");
  if (!window.valid()) {
    window = e.Full(e.DTypeOf(x) == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32, {Expr(win_length)}, 1);
  } else if (e.Rank(window) != 1 || !(e.Sizes(window)[0] == Expr(win_length))) {
    return call.Error(absl::StrCat("expected a 1D window tensor of size equal to win_length=", win_length));
  } else if (IsComplex(e.DTypeOf(window)) && !return_complex) {
    return call.Error("complex windows are incompatible with return_complex=False");
  }
  if (win_length < n_fft) {
    const int64_t left = (n_fft - win_length) / 2;
    window = e.Op("aten::constant_pad_nd", {window, e.Dims({left, n_fft - win_length - left}), e.Const(int64_t{0})});
  }
  const Normalization by = normalized ? Normalization::kByRoot : Normalization::kByNumber;
  x = e.Transpose(x, 1, 2);
  if (return_complex) {
    x = ComplexToComplex(e, x, {2}, by, false);
  } else {
    if (!onesided) x = e.Slice(x, 2, 0, n_fft / 2 + 1);
    x = ComplexToReal(e, x, {2}, by, n_fft);
  }
  const Expr length = (frames - 1) * hop + n_fft;
  const ValueId windows = e.Expand(e.View(e.Square(window), {1, 1, n_fft}), {1, frames, n_fft});
  ValueId y = OverlapAdd(e, e.Mul(x, window), n_fft, hop, length);
  ValueId envelope = OverlapAdd(e, windows, n_fft, hop, length);
  const Expr start = center ? n_fft / 2 : 0;
  Expr end = center ? length - n_fft / 2 : length, missing = 0;
  if (!call.IsNone("length")) {
    SMELT_ASSIGN_OR_RETURN(Expr asked, call.GetExpr("length"));
    end = start + asked;
    missing = end - length;
    if (!missing.IsConstant()) return call.Unsupported("a length that differs from a symbolic one");
    if (*missing.Constant() > 0) end = length;
  }
  y = e.Slice(y, 1, start, end);
  envelope = e.Slice(envelope, 1, start, end);
  const ValueId lowest = e.Op("aten::amin", {e.Abs(envelope), e.Dims({}), e.Const(false)});
  const ValueId holds = e.Op("aten::logical_not", {e.Op("aten::lt.Scalar", {lowest, e.Const(1e-11)})});
  e.Multi("aten::_assert_async.msg", {holds, e.Const(std::string("window overlap add min: 1"))}, 0);
  y = e.Div(y, envelope);
  if (!batched) y = e.Squeeze(y, 0);
  if (missing.IsConstant() && *missing.Constant() > 0) {
    y = e.Op("aten::constant_pad_nd", {y, e.Ints({Expr(0), missing}), e.Const(int64_t{0})});
  }
  return std::vector<ValueId>{y};
}

}  // namespace

void AddFourierRules(DecompositionTable& t) {
  for (const char* dims : {"", "2", "n"}) {
    t[absl::StrCat("aten::fft_fft", dims)] = t[absl::StrCat("aten::fft_ifft", dims)] = Complex;
    t[absl::StrCat("aten::fft_rfft", dims)] = Real;
    t[absl::StrCat("aten::fft_ihfft", dims)] = InverseHermitian;
    t[absl::StrCat("aten::fft_irfft", dims)] = t[absl::StrCat("aten::fft_hfft", dims)] = ToReal;
  }
  t["aten::fft_fftshift"] = t["aten::fft_ifftshift"] = Shift;
  t["aten::stft"] = ShortTime;
  t["aten::istft"] = InverseShortTime;
}

}  // namespace smelt
