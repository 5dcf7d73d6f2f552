// Images resized and put back where they were pooled from, distances between rows.
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

// The weights [out, in] of _upsample_bilinear2d_aa_backward and _upsample_bicubic2d_aa_backward along a dim: where the
// image shrinks, the filter is as much wider.
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

// The rows (dim 2) or columns (dim 3) of an image, smoothed: sums over windows, as PyTorch places them. What lies
// outside a window is not read, be it infinite.
ValueId Smoothed(Emit& e, ValueId v, int dim, const Resampled& d, bool cubic) {
  const DType t = e.DTypeOf(v);
  const double stretch = std::max(d.scale, 1.0), support = (cubic ? 2 : 1) * stretch;
  const int64_t taps = std::min(2 * static_cast<int64_t>(std::ceil(support)) + 1, *d.in_size.Constant());
  const auto bounded = [&](ValueId places, ValueId least, ValueId most) {
    return e.Op("aten::clamp", {e.Cast(places, DType::kInt64), least, most});
  };
  const ValueId center = e.MulN(e.AddN(Range(e, d.out_size, t), 0.5), d.scale);  // of elements at halves
  const ValueId begin = bounded(e.AddN(e.AddN(center, -support), 0.5), e.Const(int64_t{0}), e.None());
  const ValueId end = bounded(e.AddN(e.AddN(center, support), 0.5), e.None(), e.Size(d.in_size));
  const ValueId tap = e.Unsqueeze(Range(e, taps), 1);
  const ValueId distance =
      e.Abs(e.MulN(e.AddN(e.Add(e.Sub(e.Cast(begin, t), center), e.Cast(tap, t)), 0.5), 1 / stretch));
  const ValueId inside = e.Op("aten::lt.Tensor", {e.Add(begin, tap), end});
  const ValueId weights = e.WhereN(inside, cubic ? Keys(e, distance) : Triangle(e, distance), 0);
  return SumAlongWindows(e, v, dim, {begin, end, taps}, e.Div(weights, e.Sum(weights, {0}, true)));
}

// _upsample_bilinear2d_aa, _upsample_bicubic2d_aa. Columns are smoothed where there are fewer rows of them.
Values UpsampleSmoothed(Emit& e, const OpCall& call) {
  const bool cubic = call.op().name() == "aten::_upsample_bicubic2d_aa";
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(std::vector<Resampled> dims, ResampledDims(e, call));
  ValueId v = ToCompute(e, input);
  const bool rows_first = *dims[0].out_size.Constant() < *dims[0].in_size.Constant();
  for (int dim : {rows_first ? 2 : 3, rows_first ? 3 : 2}) {
    v = Smoothed(e, v, dim, dims[dim - 2], cubic);
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

ValueId SumAlongWindows(Emit& e, ValueId v, int dim, const WindowsAlong& windows, ValueId weights) {
  if (!e.ok()) return ValueId();
  std::vector<Expr> sizes = e.Sizes(v);
  const Expr last = sizes[dim] - 1, out = e.Sizes(windows.begin)[0], taps = windows.taps;
  const ValueId at = e.Add(windows.begin, e.Unsqueeze(Range(e, taps), 1));  // [taps, out], as what follows
  const ValueId inside = e.Op("aten::lt.Tensor", {at, windows.end});
  const ValueId read = e.Reshape(e.Op("aten::clamp", {at, e.None(), e.Size(last)}), {taps * out});
  sizes[dim] = out;
  sizes.insert(sizes.begin() + dim, taps);
  ValueId parts = e.View(e.Op("aten::index_select", {v, e.Const(int64_t{dim}), read}), sizes);
  const auto along = [&](ValueId w) {
    for (size_t d = dim + 2; d < sizes.size(); ++d) w = e.Unsqueeze(w, -1);
    return w;
  };
  if (weights.valid()) parts = e.Mul(parts, along(weights));
  return e.Sum(e.WhereN(along(inside), parts, 0), {dim}, false);
}

void AddSamplingRules(DecompositionTable& t) {
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
