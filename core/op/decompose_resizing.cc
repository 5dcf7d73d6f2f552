// Decomposes the resizing of images: bicubic and antialiased interpolation of floats, and linear and cubic
// interpolation of bytes with and without antialiasing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// One dim of upsample_*2d(self, output_size, align_corners, scales_h, scales_w) and of upsample_*2d.vec(input,
// output_size, align_corners, scale_factors): its size before and after, and the distance of its positions.
struct Resampled {
  int64_t in_size, out_size;
  double scale;  // a float for images that are computed in float32
  bool align;    // the corners' centers
};
constexpr double kLeastScale = 1e-9;  // below, places are beyond all numbers
absl::StatusOr<Resampled> ResampledDim(const OpCall& call, const Expr& in_size, const Expr& out_size, double given,
                                       bool align, DType t) {
  if (!in_size.IsConstant() || !out_size.IsConstant()) return call.Unsupported("symbolic sizes");
  if (!align && given > 0 && !(given > kLeastScale)) return call.Unsupported("such a factor");
  const double in = static_cast<double>(*in_size.Constant()), out = static_cast<double>(*out_size.Constant());
  double scale = align ? (out > 1 ? (in - 1) / (out - 1) : 0) : given > 0 ? 1 / given : in / out;
  if (t != DType::kFloat64 && IsFloating(t)) scale = static_cast<float>(scale);
  return Resampled{*in_size.Constant(), *out_size.Constant(), scale, align};
}
// The same for sizes that may be known only in a call.
struct ResizedDim {
  Expr in, out;
  double given;  // the factor between them; 0: that of the sizes
  bool align;
};
absl::StatusOr<std::vector<ResizedDim>> ResizedDims(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  if (!IsFloating(e.DTypeOf(input)) && e.DTypeOf(input) != DType::kUInt8)
    return call.Unsupported("images of integers other than bytes");
  double scales[2] = {0, 0};
  if (call.op().overload() == "vec") {
    if (const OpArg* f = call.Find("scale_factors"); f != nullptr && f->kind == OpArg::Kind::kFloatList) {
      for (size_t k = 0; k < 2 && k < f->floats.size(); ++k) scales[k] = f->floats[k];
    }
  } else {
    SMELT_ASSIGN_OR_RETURN(scales[0], call.GetDoubleOr("scales_h", 0));
    SMELT_ASSIGN_OR_RETURN(scales[1], call.GetDoubleOr("scales_w", 0));
  }
  std::vector<Expr> output;
  if (!call.IsNone("output_size")) {
    SMELT_ASSIGN_OR_RETURN(output, call.GetExprs("output_size"));
  }
  std::vector<ResizedDim> dims;
  for (int k = 0; k < 2; ++k) {
    const Expr& in = e.Sizes(input)[2 + k];
    Expr out;
    if (output.size() == 2) {
      out = output[k];
    } else if (in.IsConstant()) {
      const double size = static_cast<double>(*in.Constant()) * scales[k];
      if (!(size >= 0 && size < 1e15)) return call.Error("a factor that gives no size");
      out = static_cast<int64_t>(size);
    } else {
      // Multiplication by a multiple of 2^-8 is exact.
      const double parts = scales[k] * 256;
      if (parts != std::floor(parts) || parts < 1 || parts > 1 << 20)
        return call.Unsupported("a size known only at run time times such a factor");
      out = FloorDiv(in * static_cast<int64_t>(parts), 256);
    }
    dims.push_back({in, out, scales[k], align});
  }
  return dims;
}
absl::StatusOr<std::vector<Resampled>> ResampledDims(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<ResizedDim> resized, ResizedDims(e, call));
  std::vector<Resampled> dims;
  for (const ResizedDim& d : resized) {
    SMELT_ASSIGN_OR_RETURN(dims.emplace_back(),
                           ResampledDim(call, d.in, d.out, d.given, d.align, e.DTypeOf(call.arg(0).value)));
  }
  return dims;
}
// Returns the distance between a dim's positions, as a number.
absl::StatusOr<ValueId> Distance(Emit& e, const OpCall& call, const ResizedDim& d, DType t) {
  if (d.in.IsConstant() && d.out.IsConstant()) {
    SMELT_ASSIGN_OR_RETURN(const Resampled known, ResampledDim(call, d.in, d.out, d.given, d.align, t));
    return e.Const(known.scale);
  }
  if (!d.align && d.given > 0)
    return e.Const(t == DType::kFloat64 ? 1 / d.given : static_cast<double>(static_cast<float>(1 / d.given)));
  const auto number = [&](const Expr& n) { return e.Op("aten::Float.Scalar", {e.Size(n)}); };
  // A single position is at 0, whatever the distance.
  return d.align ? e.Op("aten::div.float", {number(d.in - 1), number(Max(d.out - 1, 1))})
                 : e.Op("aten::div.float", {number(d.in), number(d.out)});
}

// --- windows ---

// The elements that contribute to each position of the result, and their weights.
struct Windows {
  int64_t count = 0,
          taps = 0;  // as long as the longest; the first begins at 0 or later, the last ends where the dim does
  std::vector<int64_t> begin;   // [count]
  std::vector<double> weights;  // [taps, count]; NaN: not in the window

  // Windows [begin, begin + weights.size()) of a dim of `in` elements.
  static Windows Of(int64_t in, const std::vector<std::pair<int64_t, std::vector<double>>>& windows) {
    Windows w;
    w.count = static_cast<int64_t>(windows.size());
    for (const auto& [begin, weights] : windows) w.taps = std::max(w.taps, static_cast<int64_t>(weights.size()));
    w.weights.assign(w.taps * w.count, std::numeric_limits<double>::quiet_NaN());
    for (int64_t i = 0; i < w.count; ++i) {
      const auto& [begin, weights] = windows[i];
      w.begin.push_back(std::min(begin, in - w.taps));
      for (size_t k = 0; k < weights.size(); ++k)
        w.weights[(begin - w.begin.back() + static_cast<int64_t>(k)) * w.count + i] = weights[k];
    }
    return w;
  }
};

// Returns the weight of an element at distance x: a triangle, or Keys' cubic.
template <typename T>
T Triangle(T x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}
template <typename T>
T Keys(T x, T a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// Returns the windows of _upsample_bilinear2d_aa and _upsample_bicubic2d_aa along a dim: the filter widens as the image
// shrinks. Computed in T, as PyTorch does.
template <typename T>
Windows SmoothedWindows(const Resampled& d, bool cubic) {
  const T scale = static_cast<T>(d.scale), half = cubic ? 2 : 1;
  const T support = scale >= 1 ? half * scale : half, inverse = scale >= 1 ? 1 / scale : 1;
  std::vector<std::pair<int64_t, std::vector<double>>> windows;
  for (int64_t i = 0; i < d.out_size; ++i) {
    const T center = static_cast<T>(scale * (static_cast<double>(i) + 0.5));
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), d.in_size);
    const T before = static_cast<T>(begin) - center;
    std::vector<T> weights;
    T sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      const T distance = static_cast<T>((static_cast<T>(k - begin) + before + 0.5) * inverse);
      weights.push_back(cubic ? Keys<T>(distance, -0.5) : Triangle<T>(distance));
      sum += weights.back();
    }
    if (sum != 0) {
      for (T& w : weights) w /= sum;
    }
    windows.emplace_back(begin, std::vector<double>(weights.begin(), weights.end()));
  }
  return Windows::Of(d.in_size, windows);
}

// Returns the windows of upsample_bilinear2d and upsample_bicubic2d of bytes: two or four neighbours, where positions
// beyond an edge use the edge.
Windows NeighbourWindows(const Resampled& d, bool cubic) {
  const int64_t half = cubic ? 2 : 1;
  std::vector<std::pair<int64_t, std::vector<double>>> windows;
  for (int64_t i = 0; i < d.out_size; ++i) {
    double place = d.align ? d.scale * static_cast<double>(i) : d.scale * (static_cast<double>(i) + 0.5) - 0.5;
    if (!cubic) place = std::max(place, 0.0);
    const int64_t at = std::min(static_cast<int64_t>(std::floor(place)), d.in_size - 1);
    const double rest = std::clamp(place - static_cast<double>(at), 0.0, 1.0);
    const int64_t first = at - half + 1;
    const int64_t begin = std::max<int64_t>(first, 0), end = std::min(at + half + 1, d.in_size);
    std::vector<double> weights(end - begin, 0.0);
    for (int64_t k = 0; k < 2 * half; ++k) {
      const double distance = static_cast<double>(k + 1 - half) - rest;
      weights[std::clamp(first + k, begin, end - 1) - begin] += cubic ? Keys(distance, -0.75) : Triangle(distance);
    }
    windows.emplace_back(begin, std::move(weights));
  }
  return Windows::Of(d.in_size, windows);
}

// Sums over windows along dim 2 or 3 of v; `weights` is [taps, windows], of v's dtype. Elements outside a window are
// not multiplied: infinities times 0 would be NaN.
ValueId SumOfWindows(Emit& e, ValueId v, int dim, const Windows& windows, const Tensor& weights) {
  if (!e.ok()) return ValueId();
  std::vector<Expr> sizes = e.Sizes(v);
  const Tensor at = Tensor::Empty(DType::kInt64, {windows.taps * windows.count});
  for (int64_t k = 0; k < at.NumElements(); ++k)
    at.data_as<int64_t>()[k] = windows.begin[k % windows.count] + k / windows.count;
  sizes[dim] = windows.count;
  sizes.insert(sizes.begin() + dim, windows.taps);
  const ValueId parts = e.View(e.Op("aten::index_select", {v, e.Const(int64_t{dim}), e.Const(at)}), sizes);
  ValueId w = e.Const(weights);
  if (dim == 2) w = e.Unsqueeze(w, 2);
  ValueId product = e.Mul(parts, w);
  if (IsFloating(weights.dtype())) product = e.WhereN(e.Op("aten::eq.Tensor", {w, w}), product, 0);
  const ValueId dtype = e.Const(ScalarTypeOf(weights.dtype()));
  return e.Op("aten::sum.dim_IntList", {product, e.Dims({dim}), e.Const(false), dtype});
}

// Returns a tensor of float32 or float64.
Tensor Floats(DType t, const std::vector<int64_t>& sizes, const std::vector<double>& values) {
  SMELT_CHECK(t == DType::kFloat32 || t == DType::kFloat64);
  const Tensor out = Tensor::Empty(t, sizes);
  if (t == DType::kFloat64) {
    std::copy(values.begin(), values.end(), out.data_as<double>());
  } else {
    std::transform(values.begin(), values.end(), out.data_as<float>(), [](double v) { return static_cast<float>(v); });
  }
  return out;
}

// Returns a weighted sum of bytes, computed in integers: the weights are scaled by the largest power of two with which
// they fit in 16 bits, and the sums are rounded to bytes again.
ValueId SumOfBytes(Emit& e, ValueId v, int dim, const Windows& windows) {
  double largest = 0;
  for (double w : windows.weights) largest = std::max(largest, std::isnan(w) ? 0 : w);
  int64_t bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + largest * static_cast<double>(int64_t{1} << (bits + 1))) < 1 << 15)
    ++bits;
  const double unit = static_cast<double>(int64_t{1} << bits);
  const Tensor weights = Tensor::Empty(DType::kInt32, {windows.taps, windows.count});
  for (int64_t k = 0; k < weights.NumElements(); ++k) {
    const double w = windows.weights[k];
    weights.data_as<int32_t>()[k] = std::isnan(w) ? 0 : static_cast<int32_t>(w * unit + (w < 0 ? -0.5 : 0.5));
  }
  const auto number = [&](int64_t n) { return e.Const(n); };
  const ValueId sum = SumOfWindows(e, e.Cast(v, DType::kInt32), dim, windows, weights);
  const ValueId rounded = e.Op("aten::add.Scalar", {sum, number(int64_t{1} << (bits - 1)), number(1)});
  const ValueId shifted = e.Op("aten::bitwise_right_shift.Tensor_Scalar", {rounded, number(bits)});
  return e.Cast(e.Op("aten::clamp", {shifted, number(0), number(255)}), DType::kUInt8);
}

// A file may claim any size, so the number of weights is limited.
absl::Status CheckSizes(const OpCall& call, const std::vector<Resampled>& dims) {
  constexpr int64_t kMost = 1 << 22;
  for (const Resampled& d : dims) {
    if (d.in_size > kMost || d.out_size > kMost) return call.Unsupported("images of more than 2^22 rows or columns");
    if (d.in_size < 1 || d.out_size < 1) return call.Error("Input and output sizes should be greater than 0");
  }
  return absl::OkStatus();
}

// Resizes columns first, as PyTorch does, with a rounding to bytes after each dim.
Values ResizeBytes(Emit& e, const OpCall& call, bool cubic, bool smoothed) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Resampled> dims, ResampledDims(e, call));
  SMELT_RETURN_IF_ERROR(CheckSizes(call, dims));
  ValueId v = call.arg(0).value;
  for (int dim : {3, 2}) {
    const Resampled& d = dims[dim - 2];
    v = SumOfBytes(e, v, dim, smoothed ? SmoothedWindows<double>(d, cubic) : NeighbourWindows(d, cubic));
    if (!e.ok()) return e.status();
  }
  return std::vector<ValueId>{v};
}

// --- rules ---

// Resizes the last of three dims, by the given factor or that of the sizes.
ValueId ResizeLine(Emit& e, ValueId v, const ResizedDim& d) {
  return e.Op("aten::upsample_linear1d",
              {v, e.Ints({d.out}), e.Const(d.align), d.given != 0 ? e.Const(d.given) : e.None()});
}

// Interpolates floats in kernels from four neighbours, two of them in each of two rows. If the number of rows grows,
// resizing columns first, as PyTorch does, gathers from fewer rows.
Values UpsampleBilinear(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  const DType t = e.DTypeOf(input);
  if (t == DType::kUInt8) return ResizeBytes(e, call, /*cubic=*/false, /*smoothed=*/false);
  SMELT_ASSIGN_OR_RETURN(const std::vector<ResizedDim> dims, ResizedDims(e, call));
  const std::vector<Expr> sizes = e.Sizes(input);
  const auto rows = dims[0].in.Constant(), to_rows = dims[0].out.Constant();
  const bool adds_rows = rows && to_rows ? *to_rows * 2 >= *rows * 3 : dims[0].given >= 1.5;
  if (!adds_rows || dims[1].in == dims[1].out || !e.IsContiguous(input)) return std::vector<ValueId>();
  const Expr images = sizes[0] * sizes[1];
  ValueId v = ToCompute(e, e.View(input, {images, dims[0].in, dims[1].in}));
  v = e.Transpose(ResizeLine(e, v, dims[1]), 1, 2);
  v = e.Contiguous(e.Transpose(ResizeLine(e, v, dims[0]), 1, 2));
  return std::vector<ValueId>{e.Cast(e.View(v, {sizes[0], sizes[1], dims[0].out, dims[1].out}), t)};
}

// Resizes rows and columns one after the other.
Values UpsampleBicubic(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  if (e.DTypeOf(input) == DType::kUInt8) return ResizeBytes(e, call, /*cubic=*/true, /*smoothed=*/false);
  SMELT_ASSIGN_OR_RETURN(const std::vector<ResizedDim> dims, ResizedDims(e, call));
  ValueId v = ToCompute(e, input);
  for (int k = 1; k >= 0; --k) {
    const ResizedDim& d = dims[k];
    const DType t = e.DTypeOf(v);
    SMELT_ASSIGN_OR_RETURN(const ValueId scale, Distance(e, call, d, e.DTypeOf(input)));
    const auto scaled = [&](ValueId places) { return e.Op("aten::mul.Scalar", {places, scale}); };
    ValueId place = Range(e, d.out, t);
    place = d.align ? scaled(place) : e.AddN(scaled(e.AddN(place, 0.5)), -0.5);
    const ValueId low = e.Op("aten::floor", {place});
    const std::vector<ValueId> weights = CubicWeights(e, e.Sub(place, low));
    const ValueId first = e.Cast(low, DType::kInt64);
    ValueId sum;
    for (int tap = 0; tap < 4; ++tap) {
      const ValueId at =
          e.Op("aten::clamp", {e.Op("aten::add.Scalar", {first, e.Const(int64_t{tap - 1}), e.Const(int64_t{1})}),
                               e.Const(int64_t{0}), e.Size(d.in - 1)});
      ValueId w = weights[tap];
      if (k == 0) w = e.Unsqueeze(w, 1);
      const ValueId part = e.Mul(e.Op("aten::index_select", {v, e.Const(int64_t{2 + k}), at}), w);
      sum = sum.valid() ? e.Add(sum, part) : part;
    }
    v = sum;
    if (!e.ok()) return e.status();
  }
  return std::vector<ValueId>{e.Cast(v, e.DTypeOf(input))};
}

// _upsample_bilinear2d_aa, _upsample_bicubic2d_aa. Filters columns when there are fewer rows.
Values UpsampleSmoothed(Emit& e, const OpCall& call) {
  const bool cubic = call.op().name() == "aten::_upsample_bicubic2d_aa";
  const ValueId input = call.arg(0).value;
  if (e.DTypeOf(input) == DType::kUInt8) return ResizeBytes(e, call, cubic, /*smoothed=*/true);
  SMELT_ASSIGN_OR_RETURN(std::vector<Resampled> dims, ResampledDims(e, call));
  SMELT_RETURN_IF_ERROR(CheckSizes(call, dims));
  ValueId v = ToCompute(e, input);
  const bool rows_first = dims[0].out_size < dims[0].in_size;
  for (int dim : {rows_first ? 2 : 3, rows_first ? 3 : 2}) {
    const Resampled& d = dims[dim - 2];
    const DType t = e.DTypeOf(v);
    const Windows w = t == DType::kFloat64 ? SmoothedWindows<double>(d, cubic) : SmoothedWindows<float>(d, cubic);
    v = SumOfWindows(e, v, dim, w, Floats(t, {w.taps, w.count}, w.weights));
    if (!e.ok()) return e.status();
  }
  return std::vector<ValueId>{e.Cast(v, e.DTypeOf(input))};
}

// Multiplies the rows (dim 2) or columns (dim 3) of an image by a matrix [from, to].
ValueId TimesMatrix(Emit& e, ValueId v, int dim, ValueId matrix) {
  if (dim == 2) v = e.Transpose(v, 2, 3);
  std::vector<Expr> sizes = e.Sizes(v);
  const Expr rows = sizes[0] * sizes[1] * sizes[2], from = sizes[3];
  sizes[3] = e.Sizes(matrix)[1];
  v = e.View(e.Mm(e.Reshape(v, {rows, from}), matrix), sizes);
  return dim == 2 ? e.Contiguous(e.Transpose(v, 2, 3)) : v;
}

// _upsample_bilinear2d_aa_backward, _upsample_bicubic2d_aa_backward(grad_output, output_size, input_size,
// align_corners, scales_h, scales_w): multiplies by the matrix of the windows' weights.
Values UpsampleSmoothedBackward(Emit& e, const OpCall& call) {
  const bool cubic = call.op().name() == "aten::_upsample_bicubic2d_aa_backward";
  const DType t = e.DTypeOf(call.arg(0).value);
  if (!IsFloating(t)) return call.Error(absl::StrCat("not implemented for '", Name(t), "'"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> in, call.GetExprs("input_size"));
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  ValueId v = ToCompute(e, call.arg(0).value);
  if (in.size() != 4 || e.Rank(v) != 4) return call.Error("the gradient does not fit the input");
  std::vector<Resampled> dims;
  for (int k = 0; k < 2; ++k) {
    SMELT_ASSIGN_OR_RETURN(double scale, call.GetDoubleOr(k == 0 ? "scales_h" : "scales_w", 0));
    SMELT_ASSIGN_OR_RETURN(Resampled d, ResampledDim(call, in[2 + k], e.Sizes(v)[2 + k], scale, align, t));
    dims.push_back(d);
  }
  SMELT_RETURN_IF_ERROR(CheckSizes(call, dims));
  for (int k = 0; k < 2; ++k) {
    const Resampled& d = dims[k];
    if (d.in_size > (int64_t{1} << 24) / d.out_size) return call.Unsupported("images of so many rows or columns");
    const Windows windows = SmoothedWindows<float>(d, cubic);
    std::vector<double> matrix(d.out_size * d.in_size, 0.0);
    for (int64_t i = 0; i < static_cast<int64_t>(windows.weights.size()); ++i) {
      const int64_t to = i % windows.count, from = windows.begin[to] + i / windows.count;
      if (!std::isnan(windows.weights[i])) matrix[to * d.in_size + from] = windows.weights[i];
    }
    v = TimesMatrix(e, v, 2 + k, e.Const(Floats(e.DTypeOf(v), {d.out_size, d.in_size}, matrix)));
    if (!e.ok()) return e.status();
  }
  return std::vector<ValueId>{e.Cast(v, t)};
}

}  // namespace

void AddResizingRules(DecompositionTable& t) {
  t["aten::upsample_bilinear2d"] = UpsampleBilinear;
  t["aten::upsample_bicubic2d"] = UpsampleBicubic;
  t["aten::_upsample_bilinear2d_aa"] = t["aten::_upsample_bicubic2d_aa"] = UpsampleSmoothed;
  t["aten::_upsample_bilinear2d_aa_backward"] = t["aten::_upsample_bicubic2d_aa_backward"] = UpsampleSmoothedBackward;
}

}  // namespace smelt
