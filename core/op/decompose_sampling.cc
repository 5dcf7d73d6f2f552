// Sampling of images at computed places, distances between rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

ValueId Floor(Emit& e, ValueId v) { return e.Op("aten::floor", {v}); }
ValueId And(Emit& e, ValueId a, ValueId b) { return e.Op("aten::logical_and", {a, b}); }
// 0, 1, ..., n-1 as a tensor.
ValueId Range(Emit& e, const Expr& n, DType t) {
  return e.Op("aten::arange", {e.Size(n), e.Const(ScalarTypeOf(t)), e.None(), e.None(), e.None()});
}

// --- grid_sampler ---
enum Interpolation : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

class GridSampler {
 public:
  GridSampler(Emit& e, ValueId input, ValueId grid, int64_t mode, int64_t padding, bool align)
      : e_(e), input_(input), mode_(mode), padding_(padding), align_(align), sizes_(e.Sizes(input)) {
    const int spatial = e.Rank(input) - 2;
    grid = e.Contiguous(ToCompute(e, grid));
    for (int k = 0; k < spatial; ++k) {  // the grid's first number is that of the input's last dim
      places_.push_back(Unnormalize(e.Select(grid, spatial + 1, k), Size(k)));
    }
  }

  ValueId Run() {
    std::vector<Expr> sizes = e_.Sizes(places_[0]);
    for (size_t d = 1; d < sizes.size(); ++d) points_ = points_ * sizes[d];
    sizes.insert(sizes.begin() + 1, sizes_[1]);
    image_ = Flattened();
    return e_.View(Sampled(), sizes);
  }

 private:
  ValueId Sampled() {
    const DType t = e_.DTypeOf(input_);
    if (mode_ == kBicubic) return e_.Cast(Bicubic(), t);
    for (size_t k = 0; k < places_.size(); ++k) places_[k] = Padded(places_[k], Size(k));
    if (mode_ == kNearest) {
      std::vector<ValueId> at;
      for (ValueId p : places_) at.push_back(e_.Op("aten::round", {p}));
      return e_.Cast(Sample(at, ValueId()), t);
    }
    std::vector<ValueId> low, fraction;
    for (ValueId p : places_) {
      low.push_back(Floor(e_, p));
      fraction.push_back(e_.Sub(p, low.back()));
    }
    ValueId sum;
    for (int corner = 0; corner < 1 << places_.size(); ++corner) {
      std::vector<ValueId> at;
      ValueId weight;
      for (size_t k = 0; k < places_.size(); ++k) {
        const bool high = corner >> k & 1;
        at.push_back(high ? e_.AddN(low[k], 1) : low[k]);
        const ValueId w = high ? fraction[k] : e_.Op("aten::rsub.Scalar", {fraction[k], e_.Const(1.0), e_.Const(1.0)});
        weight = weight.valid() ? e_.Mul(weight, w) : w;
      }
      const ValueId v = Sample(at, weight);
      sum = sum.valid() ? e_.Add(sum, v) : v;
    }
    return e_.Cast(sum, t);
  }

  const Expr& Size(size_t k) const { return sizes_[sizes_.size() - 1 - k]; }
  ValueId AddE(ValueId v, const Expr& n) { return e_.Op("aten::add.Scalar", {v, e_.Size(n), e_.Const(int64_t{1})}); }
  ValueId MulE(ValueId v, const Expr& n) { return e_.Op("aten::mul.Scalar", {v, e_.Size(n)}); }

  ValueId Unnormalize(ValueId v, const Expr& size) {
    if (align_) return MulE(e_.MulN(e_.AddN(v, 1), 0.5), size - 1);
    return e_.MulN(e_.AddN(MulE(e_.AddN(v, 1), size), -1), 0.5);
  }
  ValueId Padded(ValueId v, const Expr& size) {
    if (padding_ == kZeros) return v;
    if (padding_ == kReflection) v = align_ ? Reflect(v, Expr(0), 2 * (size - 1)) : Reflect(v, Expr(-1), 2 * size - 1);
    // Of a NaN PyTorch makes the first place of an image, and the last one of a volume.
    const ValueId first = e_.Fill(v, 0), last = AddE(first, size - 1);
    if (places_.size() == 3) return e_.Op("aten::fmax", {e_.Op("aten::fmin", {v, last}), first});
    return e_.Op("aten::fmin", {e_.Op("aten::fmax", {v, first}), last});
  }
  // Between twice_low / 2 and twice_high / 2.
  ValueId Reflect(ValueId v, const Expr& twice_low, const Expr& twice_high) {
    if (twice_low == twice_high) return e_.MulN(v, 0);
    const ValueId low =
        e_.MulN(e_.Op("aten::full", {e_.Ints({}), e_.Size(twice_low), e_.Const(ScalarTypeOf(e_.DTypeOf(v))), e_.None(),
                                     e_.None(), e_.None()}),
                0.5);
    const ValueId span =
        e_.MulN(e_.Op("aten::full", {e_.Ints({}), e_.Size(twice_high - twice_low),
                                     e_.Const(ScalarTypeOf(e_.DTypeOf(v))), e_.None(), e_.None(), e_.None()}),
                0.5);
    const ValueId from = e_.Abs(e_.Sub(v, low));
    const ValueId extra = e_.Op("aten::fmod.Tensor", {from, span});
    const ValueId flips = Floor(e_, e_.Div(from, span));
    const ValueId even = e_.EqN(e_.Op("aten::fmod.Scalar", {flips, e_.Const(2.0)}), 0);
    return e_.Where(even, e_.Add(extra, low), e_.Add(e_.Sub(span, extra), low));
  }

  // The input with one spatial dim for all; a copy where its rows do not follow each other.
  ValueId Flattened() {
    const std::vector<Expr>& strides = *e_.TypeOf(input_).strides;
    Expr elements = sizes_.back();
    bool follow = true;
    for (size_t d = sizes_.size() - 1; d-- > 2;) {
      follow = follow && strides[d] == sizes_[d + 1] * strides[d + 1];
      elements = elements * sizes_[d];
    }
    return e_.View(follow ? input_ : e_.Contiguous(input_), {sizes_[0], sizes_[1], elements});
  }

  // input[n, c, ..., at[1], at[0]] * weight, [n, c, points]. Place and weight are the same for all channels.
  ValueId Sample(const std::vector<ValueId>& at, ValueId weight) {
    ValueId inside;
    for (size_t k = 0; k < at.size(); ++k) {
      const ValueId in = And(e_, e_.Op("aten::ge.Scalar", {at[k], e_.Const(int64_t{0})}),
                             e_.Op("aten::lt.Scalar", {at[k], e_.Size(Size(k))}));
      inside = inside.valid() ? And(e_, inside, in) : in;
    }
    ValueId place;  // in an image whose rows follow each other
    for (size_t k = at.size(); k-- > 0;) {
      const ValueId step = e_.Cast(at[k], DType::kInt64);
      place = place.valid() ? e_.Add(MulE(place, Size(k)), step) : step;
    }
    place = e_.Where(inside, place, e_.Fill(place, 0));
    const auto of_all_channels = [&](ValueId v) { return e_.View(v, {sizes_[0], Expr(1), points_}); };
    const ValueId places = e_.Expand(of_all_channels(place), {sizes_[0], sizes_[1], points_});
    ValueId v = ToCompute(e_, e_.Op("aten::gather", {image_, e_.Const(int64_t{2}), places, e_.Const(false)}));
    inside = of_all_channels(inside);
    if (!weight.valid()) return e_.WhereN(inside, v, 0);
    weight = of_all_channels(weight);
    // PyTorch leaves out what is outside of a volume; outside of an image it is a 0, whose weight may be NaN.
    if (at.size() == 3) return e_.WhereN(inside, e_.Mul(v, weight), 0);
    return e_.Mul(e_.WhereN(inside, v, 0), weight);
  }

  ValueId Bicubic();

  Emit& e_;
  ValueId input_;
  int64_t mode_, padding_;
  bool align_;
  std::vector<Expr> sizes_;
  Expr points_ = 1;  // of an image of the result
  ValueId image_;
  std::vector<ValueId> places_;
};

ValueId GridSampler::Bicubic() {
  std::vector<std::vector<ValueId>> weights;
  std::vector<ValueId> low;
  for (ValueId p : places_) {
    low.push_back(Floor(e_, p));
    weights.push_back(CubicWeights(e_, e_.Sub(p, low.back())));
  }
  ValueId sum;
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) {
      const std::vector<ValueId> at = {Padded(e_.AddN(low[0], x - 1), Size(0)),
                                       Padded(e_.AddN(low[1], y - 1), Size(1))};
      const ValueId v = Sample(at, e_.Mul(weights[0][x], weights[1][y]));
      sum = sum.valid() ? e_.Add(sum, v) : v;
    }
  }
  return sum;
}

// grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
Values GridSample(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t mode, call.GetInt("interpolation_mode"));
  SMELT_ASSIGN_OR_RETURN(int64_t padding, call.GetInt("padding_mode"));
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  const ValueId input = call.arg(0).value;
  if (e.Rank(input) < 4 || (mode == kBicubic && e.Rank(input) != 4)) return call.Unsupported("an input of this rank");
  GridSampler sampler(e, input, call.arg(1).value, mode, padding, align);
  return std::vector<ValueId>{sampler.Run()};
}

// affine_grid_generator(theta [N, 2, 3], size, align_corners): theta times (x, y, 1) at each place of the image.
Values AffineGrid(Emit& e, const OpCall& call) {
  const ValueId theta = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> size, call.GetExprs("size"));
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  if (size.size() != 4) return call.Unsupported("volumes");
  const DType t = e.DTypeOf(theta);
  auto line = [&](const Expr& n, bool last) -> ValueId {
    if (!n.IsConstant()) {
      e.Fail(call.Unsupported("symbolic sizes"));
      return ValueId();
    }
    const double count = static_cast<double>(*n.Constant());
    ValueId v = Range(e, n, t);
    if (align) {
      v = count > 1 ? e.AddN(e.MulN(v, 2 / (count - 1)), -1) : e.MulN(v, 0);
    } else {
      v = e.AddN(e.MulN(v, 2 / count), 1 / count - 1);
    }
    return e.Expand(e.View(v, last ? std::vector<Expr>{Expr(1), n} : std::vector<Expr>{n, Expr(1)}),
                    {size[2], size[3]});
  };
  const ValueId x = line(size[3], true), y = line(size[2], false);
  if (!e.ok()) return e.status();
  const ValueId matrix = ToCompute(e, theta);
  const auto place = [&](int row) {
    const auto number = [&](int k) {  // [N, 1, 1]
      return e.Unsqueeze(e.Unsqueeze(e.Select(e.Select(matrix, 1, row), 1, k), 1), 1);
    };
    const ValueId sum = e.Add(e.Mul(ToCompute(e, x), number(0)), e.Mul(ToCompute(e, y), number(1)));
    return e.Unsqueeze(e.Cast(e.Add(sum, number(2)), t), 3);
  };
  return std::vector<ValueId>{e.Cat({place(0), place(1)}, 3)};
}

// What upsample_*2d(self, output_size, align_corners, scales_h, scales_w) and upsample_*2d.vec(input, output_size,
// align_corners, scale_factors) do to one dim: from how many rows to how many, and how far apart they lie.
struct Resampled {
  Expr in_size, out_size;
  double scale;  // a float for images that are computed in float32
};
absl::StatusOr<Resampled> ResampledDim(const OpCall& call, const Expr& in_size, const Expr& out_size, double given,
                                       bool align, DType t) {
  if (!in_size.IsConstant() || !out_size.IsConstant()) return call.Unsupported("symbolic sizes");
  const double in = static_cast<double>(*in_size.Constant()), out = static_cast<double>(*out_size.Constant());
  double scale = align ? (out > 1 ? (in - 1) / (out - 1) : 0) : given > 0 ? 1 / given : in / out;
  if (t != DType::kFloat64) scale = static_cast<float>(scale);
  return Resampled{in_size, out_size, scale};
}
absl::StatusOr<std::vector<Resampled>> ResampledDims(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  if (!IsFloating(e.DTypeOf(input))) return call.Unsupported("images of integers");
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
  std::vector<Resampled> dims;
  for (int k = 0; k < 2; ++k) {
    const Expr& in = e.Sizes(input)[2 + k];
    if (!in.IsConstant()) return call.Unsupported("symbolic sizes");
    const Expr out =
        output.size() == 2 ? output[k] : Expr(static_cast<int64_t>(static_cast<double>(*in.Constant()) * scales[k]));
    SMELT_ASSIGN_OR_RETURN(Resampled d, ResampledDim(call, in, out, scales[k], align, e.DTypeOf(input)));
    dims.push_back(d);
  }
  return dims;
}

// Rows and columns one after the other.
Values UpsampleBicubic(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  if (!IsFloating(e.DTypeOf(input))) return call.Unsupported("interpolation of integers");
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Resampled> dims, ResampledDims(e, call));
  ValueId v = ToCompute(e, input);
  for (int k = 1; k >= 0; --k) {
    const auto& [in_size, out_size, scale] = dims[k];
    const DType t = e.DTypeOf(v);
    ValueId place = Range(e, out_size, t);
    place = align ? e.MulN(place, scale) : e.AddN(e.MulN(e.AddN(place, 0.5), scale), -0.5);
    const ValueId low = Floor(e, place);
    const std::vector<ValueId> weights = CubicWeights(e, e.Sub(place, low));
    const ValueId first = e.Cast(low, DType::kInt64);
    ValueId sum;
    for (int tap = 0; tap < 4; ++tap) {
      const ValueId at =
          e.Op("aten::clamp", {e.Op("aten::add.Scalar", {first, e.Const(int64_t{tap - 1}), e.Const(int64_t{1})}),
                               e.Const(int64_t{0}), e.Size(in_size - 1)});
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

// The weight of an element at distance x, of the filters that _upsample_*_aa smooth with: a triangle, or Keys' cubic
// with a = -1/2.
ValueId Triangle(Emit& e, ValueId x) {
  return e.Op("aten::relu", {e.Op("aten::rsub.Scalar", {x, e.Const(1.0), e.Const(1.0)})});
}
ValueId Keys(Emit& e, ValueId x) {
  const double a = -0.5;
  const ValueId near = e.AddN(e.Mul(e.Mul(e.AddN(e.MulN(x, a + 2), -(a + 3)), x), x), 1);
  const ValueId far = e.MulN(e.AddN(e.Mul(e.AddN(e.Mul(e.AddN(x, -5), x), 8), x), -4), a);
  auto below = [&](double limit) { return e.Op("aten::lt.Scalar", {x, e.Const(limit)}); };
  return e.Where(below(1), near, e.WhereN(below(2), far, 0));
}

// The weights [out, in] of _upsample_bilinear2d_aa and _upsample_bicubic2d_aa along a dim: where the image shrinks, the
// filter is as much wider.
ValueId SmoothingWeights(Emit& e, const Resampled& d, bool cubic, DType t) {
  const double stretch = std::max(d.scale, 1.0);
  // Distances of elements, whose centers are at halves, to the places of the result.
  const ValueId center = e.Unsqueeze(e.MulN(e.AddN(Range(e, d.out_size, t), 0.5), d.scale), 1);
  const ValueId distance =
      e.Abs(e.MulN(e.AddN(e.Sub(e.Unsqueeze(Range(e, d.in_size, t), 0), center), 0.5), 1 / stretch));
  const ValueId weights = cubic ? Keys(e, distance) : Triangle(e, distance);
  return e.Div(weights, e.Sum(weights, {1}, true));
}

// An image whose rows (dim 2) or columns (dim 3) are multiplied by a matrix [from, to].
ValueId TimesMatrix(Emit& e, ValueId v, int dim, ValueId matrix) {
  if (dim == 2) v = e.Transpose(v, 2, 3);
  std::vector<Expr> sizes = e.Sizes(v);
  const Expr rows = sizes[0] * sizes[1] * sizes[2], from = sizes[3];
  sizes[3] = e.Sizes(matrix)[1];
  v = e.View(e.Mm(e.Reshape(v, {rows, from}), matrix), sizes);
  return dim == 2 ? e.Contiguous(e.Transpose(v, 2, 3)) : v;
}

// _upsample_bilinear2d_aa, _upsample_bicubic2d_aa: one product a dim, columns first.
Values UpsampleSmoothed(Emit& e, const OpCall& call) {
  const bool cubic = call.op().name() == "aten::_upsample_bicubic2d_aa";
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Resampled> dims, ResampledDims(e, call));
  ValueId v = ToCompute(e, input);
  for (int k = 1; k >= 0; --k) {
    v = TimesMatrix(e, v, 2 + k, e.Transpose(SmoothingWeights(e, dims[k], cubic, e.DTypeOf(v)), 0, 1));
    if (!e.ok()) return e.status();
  }
  return std::vector<ValueId>{e.Cast(v, e.DTypeOf(input))};
}

// _upsample_bilinear2d_aa_backward, _upsample_bicubic2d_aa_backward(grad_output, output_size, input_size,
// align_corners, scales_h, scales_w)
Values UpsampleSmoothedBackward(Emit& e, const OpCall& call) {
  const bool cubic = call.op().name() == "aten::_upsample_bicubic2d_aa_backward";
  const DType t = e.DTypeOf(call.arg(0).value);
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> in, call.GetExprs("input_size"));
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  ValueId v = ToCompute(e, call.arg(0).value);
  if (in.size() != 4 || e.Rank(v) != 4) return call.Error("the gradient does not fit the input");
  for (int k = 0; k < 2; ++k) {
    SMELT_ASSIGN_OR_RETURN(double scale, call.GetDoubleOr(k == 0 ? "scales_h" : "scales_w", 0));
    SMELT_ASSIGN_OR_RETURN(Resampled d, ResampledDim(call, in[2 + k], e.Sizes(v)[2 + k], scale, align, t));
    v = TimesMatrix(e, v, 2 + k, SmoothingWeights(e, d, cubic, e.DTypeOf(v)));
    if (!e.ok()) return e.status();
  }
  return std::vector<ValueId>{e.Cast(v, t)};
}

// max_unpool2d(self, indices, output_size), max_unpool3d(self, indices, output_size, stride, padding): an index counts
// within the last dims.
Values MaxUnpool(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value, indices = call.arg(1).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Expr> out, call.GetExprs("output_size"));
  const std::vector<Expr> in = e.Sizes(self);
  const size_t dims = call.op().name() == "aten::max_unpool3d" ? 3 : 2;
  if (out.size() != dims || in.size() <= dims) return call.Unsupported("these sizes");
  std::vector<Expr> lead(in.begin(), in.end() - static_cast<int64_t>(dims));
  auto flat = [&](const Expr& n) {
    std::vector<Expr> s = lead;
    s.push_back(n);
    return s;
  };
  Expr elements = 1, places = 1;
  for (size_t d = 0; d < dims; ++d) {
    elements = elements * in[lead.size() + d];
    places = places * out[d];
  }
  const ValueId zeros = e.Full(e.DTypeOf(self), flat(places), 0);
  const ValueId filled =
      e.Op("aten::scatter.src", {zeros, e.Const(static_cast<int64_t>(lead.size())), e.Reshape(indices, flat(elements)),
                                 e.Reshape(self, flat(elements))});
  std::vector<Expr> sizes = lead;
  sizes.insert(sizes.end(), out.begin(), out.end());
  return std::vector<ValueId>{e.View(e.Contiguous(filled), sizes)};
}

// cdist(x1, x2, p, compute_mode), _cdist_forward likewise: norms of differences.
Values Cdist(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(double p, call.GetDoubleOr("p", 2));
  ValueId a = call.arg(0).value, b = call.arg(1).value;
  if (e.DTypeOf(a) != e.DTypeOf(b)) return call.Unsupported("operands of different dtypes");
  const ValueId d = e.Abs(e.Sub(e.Unsqueeze(a, -2), e.Unsqueeze(b, -3)));
  const std::vector<int64_t> last = {e.ok() ? e.Rank(d) - 1 : 0};
  ValueId out;
  if (p == 2) {
    out = e.Sqrt(e.Sum(e.Square(d), last, false));
  } else if (p == 1) {
    out = e.Sum(d, last, false);
  } else if (p == 0) {
    out = e.Sum(e.Cast(e.NeInt(d, 0), e.DTypeOf(a)), last, false);
  } else if (std::isinf(p)) {
    out = e.Amax(d, last, false);
  } else {
    out = e.PowN(e.Sum(e.PowN(d, p), last, false), 1 / p);
  }
  return std::vector<ValueId>{out};
}

// pdist(self, p): the distances of each row from those after it.
Values PairwiseDistances(Emit& e, const OpCall& call) {
  const ValueId x = call.arg(0).value;
  if (e.Rank(x) != 2) return call.Error(absl::StrCat("pdist only supports 2D tensors, got: ", e.Rank(x), "D"));
  const ValueId rows = e.Size(e.Sizes(x)[0]), none = e.None();
  const ValueId pairs = e.Op("aten::triu_indices",
                             {rows, rows, e.Const(int64_t{1}), e.Const(ScalarTypeOf(DType::kInt64)), none, none, none});
  const auto row = [&](int64_t which) {
    return e.Op("aten::index_select", {x, e.Const(int64_t{0}), e.Select(pairs, 0, which)});
  };
  return std::vector<ValueId>{e.Op(
      "aten::linalg_vector_norm", {e.Sub(row(0), row(1)), ValueOf(e, call.arg(1)), e.Dims({1}), e.Const(false), none})};
}

// isin(elements, test_elements, assume_unique, invert)
Values IsIn(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(bool invert, call.GetBoolOr("invert", false));
  const ValueId elements = call.arg(0).value, test = call.arg(1).value;
  const ValueId flat = e.Reshape(test, {Product(e.Sizes(test))});
  const ValueId equal = e.Op("aten::eq.Tensor", {e.Unsqueeze(elements, -1), flat});
  if (!e.ok()) return e.status();
  ValueId any = e.Op("aten::any.dim", {equal, e.Const(static_cast<int64_t>(e.Rank(equal) - 1)), e.Const(false)});
  return std::vector<ValueId>{invert ? e.Op("aten::logical_not", {any}) : any};
}

}  // namespace

std::vector<ValueId> CubicWeights(Emit& e, ValueId t) {
  constexpr double kA = -0.75;
  auto near = [&](ValueId x) {  // |x| <= 1
    return e.AddN(e.Mul(e.Mul(e.AddN(e.MulN(x, kA + 2), -(kA + 3)), x), x), 1);
  };
  auto far = [&](ValueId x) {  // 1 < |x| < 2
    return e.AddN(e.Mul(e.AddN(e.Mul(e.AddN(e.MulN(x, kA), -5 * kA), x), 8 * kA), x), -4 * kA);
  };
  const ValueId rest = e.Op("aten::rsub.Scalar", {t, e.Const(1.0), e.Const(1.0)});
  return {far(e.AddN(t, 1)), near(t), near(rest), far(e.AddN(rest, 1))};
}

void AddSamplingRules(DecompositionTable& t) {
  t["aten::grid_sampler"] = t["aten::grid_sampler_2d"] = t["aten::grid_sampler_3d"] = GridSample;
  t["aten::affine_grid_generator"] = AffineGrid;
  t["aten::upsample_bicubic2d"] = UpsampleBicubic;
  t["aten::_upsample_bilinear2d_aa"] = t["aten::_upsample_bicubic2d_aa"] = UpsampleSmoothed;
  t["aten::_upsample_bilinear2d_aa_backward"] = t["aten::_upsample_bicubic2d_aa_backward"] = UpsampleSmoothedBackward;
  t["aten::max_unpool2d"] = t["aten::max_unpool3d"] = MaxUnpool;
  t["aten::pdist"] = PairwiseDistances;
  t["aten::cdist"] = t["aten::_cdist_forward"] = Cdist;
  t["aten::isin.Tensor_Tensor"] = IsIn;
}

}  // namespace smelt
