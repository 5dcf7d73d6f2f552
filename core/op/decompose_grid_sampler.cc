// Decomposes the sampling of images and volumes at computed positions, and its gradients.
#include <utility>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

ValueId Floor(Emit& e, ValueId v) { return e.Op("aten::floor", {v}); }
ValueId And(Emit& e, ValueId a, ValueId b) { return e.Op("aten::logical_and", {a, b}); }

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

  // The gradients of the input and the grid.
  std::vector<ValueId> Backward(ValueId grad);

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
    // PyTorch maps NaN to the first position of an image, but to the last position of a volume.
    const ValueId first = e_.Fill(v, 0), last = AddE(first, size - 1);
    if (places_.size() == 3) return e_.Op("aten::fmax", {e_.Op("aten::fmin", {v, last}), first});
    return e_.Op("aten::fmin", {e_.Op("aten::fmax", {v, first}), last});
  }
  // Reflects v into the range from twice_low / 2 to twice_high / 2.
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
    const ValueId sum = e_.Add(e_.Sub(span, extra), low);
    return e_.Where(even, e_.Add(extra, low), sum);
  }

  // Returns the input with its spatial dims flattened into one; a copy where its rows are not adjacent in memory.
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

  // A position, the same for all channels: whether it is inside, [n, 1, points], and its index in a flat image, [n, c,
  // points].
  struct Located {
    ValueId inside, place;
  };
  ValueId OfAllChannels(ValueId v) { return e_.View(v, {sizes_[0], Expr(1), points_}); }
  Located Locate(const std::vector<ValueId>& at) {
    ValueId inside;
    for (size_t k = 0; k < at.size(); ++k) {
      const ValueId third = e_.Op("aten::lt.Scalar", {at[k], e_.Size(Size(k))});
      const ValueId in = And(e_, e_.Op("aten::ge.Scalar", {at[k], e_.Const(int64_t{0})}), third);
      inside = inside.valid() ? And(e_, inside, in) : in;
    }
    ValueId place;  // in an image whose rows are adjacent
    for (size_t k = at.size(); k-- > 0;) {
      const ValueId step = e_.Cast(at[k], DType::kInt64);
      place = place.valid() ? e_.Add(MulE(place, Size(k)), step) : step;
    }
    place = e_.Where(inside, place, e_.Fill(place, 0));
    return {OfAllChannels(inside), e_.Expand(OfAllChannels(place), {sizes_[0], sizes_[1], points_})};
  }
  ValueId Gathered(const Located& at) {
    return ToCompute(e_, e_.Op("aten::gather", {image_, e_.Const(int64_t{2}), at.place, e_.Const(false)}));
  }

  // input[n, c, ..., at[1], at[0]] * weight, [n, c, points].
  ValueId Sample(const std::vector<ValueId>& at, ValueId weight) {
    const Located located = Locate(at);
    const ValueId v = Gathered(located);
    if (!weight.valid()) return e_.WhereN(located.inside, v, 0);
    weight = OfAllChannels(weight);
    // PyTorch skips positions outside of a volume; outside of an image it uses a 0, whose weight may be NaN.
    if (at.size() == 3) return e_.WhereN(located.inside, e_.Mul(v, weight), 0);
    return e_.Mul(e_.WhereN(located.inside, v, 0), weight);
  }

  // One of the elements along a dim that contribute to a position: its index, its weight, and the derivative of the
  // weight by the position.
  struct Tap {
    ValueId at, weight, slope;
  };
  std::vector<Tap> Taps(size_t k);
  ValueId PaddingSlope(ValueId v, const Expr& size);

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

// Returns the derivative of a position by the position before padding: 0 at the borders and beyond.
ValueId GridSampler::PaddingSlope(ValueId v, const Expr& size) {
  const ValueId one = e_.AddN(e_.MulN(v, 0), 1);
  if (padding_ == kZeros) return one;
  ValueId slope = one;
  if (padding_ == kReflection) {
    const Expr twice_low = align_ ? Expr(0) : Expr(-1), twice_high = align_ ? 2 * (size - 1) : 2 * size - 1;
    if (twice_low == twice_high) return e_.MulN(v, 0);
    const auto half = [&](const Expr& n) { return e_.MulN(AddE(e_.Fill(v, 0), n), 0.5); };
    const ValueId from = e_.Sub(v, half(twice_low));
    const ValueId second = half(twice_high - twice_low);
    const ValueId flips = Floor(e_, e_.Div(e_.Abs(from), second));
    const ValueId odd = e_.Op("aten::ne.Scalar", {e_.Op("aten::fmod.Scalar", {flips, e_.Const(2.0)}), e_.Const(0.0)});
    const ValueId before = e_.Op("aten::lt.Scalar", {from, e_.Const(0.0)});
    const ValueId negative = e_.Neg(one);
    slope = e_.Where(e_.Op("aten::ne.Tensor", {odd, before}), negative, one);
    v = Reflect(v, twice_low, twice_high);
  }
  const ValueId third = e_.Op("aten::lt.Scalar", {v, e_.Size(size - 1)});
  const ValueId inside = And(e_, e_.Op("aten::gt.Scalar", {v, e_.Const(int64_t{0})}), third);
  return e_.WhereN(inside, slope, 0);
}

std::vector<GridSampler::Tap> GridSampler::Taps(size_t k) {
  const Expr& size = Size(k);
  const ValueId place = places_[k];
  const ValueId scale = e_.MulN(AddE(e_.Fill(place, 0), align_ ? size - 1 : size), 0.5);  // of the grid's numbers
  if (mode_ == kNearest) {
    const ValueId at = e_.Op("aten::round", {Padded(place, size)});
    return {{at, e_.AddN(e_.MulN(at, 0), 1), e_.MulN(at, 0)}};
  }
  if (mode_ == kBilinear) {
    const ValueId padded = Padded(place, size), low = Floor(e_, padded), rest = e_.Sub(padded, low);
    const ValueId slope = e_.Mul(PaddingSlope(place, size), scale);
    return {{low, e_.Op("aten::rsub.Scalar", {rest, e_.Const(1.0), e_.Const(1.0)}), e_.Neg(slope)},
            {e_.AddN(low, 1), rest, slope}};
  }
  constexpr double kA = -0.75;
  const ValueId low = Floor(e_, place), t = e_.Sub(place, low);
  const std::vector<ValueId> weights = CubicWeights(e_, t);
  // -((a x + b) x + c), where x is the distance from a neighbour.
  const auto square = [&](double x, double a, double b, double c) {
    const ValueId from = e_.Op("aten::rsub.Scalar", {t, e_.Const(x), e_.Const(1.0)});
    return e_.Neg(e_.Mul(e_.AddN(e_.Mul(e_.AddN(e_.MulN(from, a), b), from), c), scale));
  };
  const ValueId slopes[] = {square(-1, -3 * kA, -10 * kA, -8 * kA), square(0, -3 * (kA + 2), -2 * (kA + 3), 0),
                            square(1, 3 * (kA + 2), -2 * (kA + 3), 0), square(2, 3 * kA, -10 * kA, 8 * kA)};
  std::vector<Tap> taps;
  for (int i = 0; i < 4; ++i) taps.push_back({Padded(e_.AddN(low, i - 1), size), weights[i], slopes[i]});
  return taps;
}

std::vector<ValueId> GridSampler::Backward(ValueId grad) {
  const std::vector<Expr> grid_sizes = e_.Sizes(places_[0]);
  for (size_t d = 1; d < grid_sizes.size(); ++d) points_ = points_ * grid_sizes[d];
  image_ = Flattened();
  Expr elements = 1;
  for (size_t d = 2; d < sizes_.size(); ++d) elements = elements * sizes_[d];
  grad = e_.Reshape(ToCompute(e_, grad), {sizes_[0], sizes_[1], points_});
  const DType t = e_.DTypeOf(grad);
  const size_t dims = places_.size();
  std::vector<std::vector<Tap>> taps;
  size_t corners = 1;
  for (size_t k = 0; k < dims; ++k) {
    taps.push_back(Taps(k));
    corners *= taps[k].size();
  }
  ValueId of_input = e_.Full(t, {sizes_[0], sizes_[1], elements}, 0);
  std::vector<ValueId> of_grid(dims);
  for (size_t corner = 0; corner < corners; ++corner) {
    std::vector<Tap> chosen;
    size_t rest = corner;
    for (size_t k = 0; k < dims; ++k) {
      chosen.push_back(taps[k][rest % taps[k].size()]);
      rest /= taps[k].size();
    }
    std::vector<ValueId> at;
    for (const Tap& tap : chosen) at.push_back(tap.at);
    const Located located = Locate(at);
    ValueId weight = chosen[0].weight;
    for (size_t k = 1; k < dims; ++k) weight = e_.Mul(weight, chosen[k].weight);
    const ValueId part = e_.WhereN(located.inside, e_.Mul(grad, OfAllChannels(weight)), 0);
    of_input = e_.Op("aten::scatter_add", {of_input, e_.Const(int64_t{2}), located.place, part});
    if (mode_ == kNearest) continue;
    const ValueId seen = e_.WhereN(located.inside, Gathered(located), 0);
    const ValueId dot = e_.View(e_.Sum(e_.Mul(seen, grad), {1}, false), grid_sizes);
    for (size_t k = 0; k < dims; ++k) {
      ValueId slope = e_.Mul(chosen[k].slope, dot);
      for (size_t j = 0; j < dims; ++j) {
        if (j != k) slope = e_.Mul(slope, chosen[j].weight);
      }
      of_grid[k] = of_grid[k].valid() ? e_.Add(of_grid[k], slope) : slope;
    }
  }
  for (size_t k = 0; k < dims; ++k) {
    if (mode_ == kNearest) of_grid[k] = e_.MulN(places_[k], 0);
    of_grid[k] = e_.Unsqueeze(of_grid[k], static_cast<int64_t>(grid_sizes.size()));
  }
  return {e_.View(of_input, sizes_), e_.Cat(of_grid, static_cast<int64_t>(grid_sizes.size()))};
}

absl::StatusOr<GridSampler> SamplerOf(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t mode, call.GetInt("interpolation_mode"));
  SMELT_ASSIGN_OR_RETURN(int64_t padding, call.GetInt("padding_mode"));
  SMELT_ASSIGN_OR_RETURN(bool align, call.GetBool("align_corners"));
  const ValueId input = TensorArg(call, "input"), grid = TensorArg(call, "grid");
  if (e.Rank(input) < 4 || (mode == kBicubic && e.Rank(input) != 4)) return call.Unsupported("an input of this rank");
  if (e.Rank(grid) != e.Rank(input) || e.Sizes(grid).back() != Expr(e.Rank(input) - 2))
    return call.Error("a grid of as many numbers as the input has spatial dims is expected");
  return GridSampler(e, input, grid, mode, padding, align);
}

// grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
Values GridSample(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(GridSampler sampler, SamplerOf(e, call));
  return std::vector<ValueId>{sampler.Run()};
}

// grid_sampler_2d_backward, grid_sampler_3d_backward(grad_output, input, grid, interpolation_mode, padding_mode,
// align_corners, output_mask)
Values GridSampleBackward(Emit& e, const OpCall& call) {
  if (e.Rank(call.arg(0).value) != e.Rank(call.arg(1).value)) return call.Error("the gradient does not fit the input");
  SMELT_ASSIGN_OR_RETURN(GridSampler sampler, SamplerOf(e, call));
  std::vector<ValueId> out = sampler.Backward(call.arg(0).value);
  if (!e.ok()) return e.status();
  for (int k = 0; k < 2; ++k) out[k] = e.Cast(out[k], e.DTypeOf(call.arg(k + 1).value));
  return out;
}

}  // namespace

void AddGridSamplerRules(DecompositionTable& t) {
  t["aten::grid_sampler"] = t["aten::grid_sampler_2d"] = t["aten::grid_sampler_3d"] = GridSample;
  t["aten::grid_sampler_2d_backward"] = t["aten::grid_sampler_3d_backward"] = GridSampleBackward;
}

}  // namespace smelt
