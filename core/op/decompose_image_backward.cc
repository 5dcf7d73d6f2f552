// Decomposes the gradients of padding, pooling and resizing images, one spatial dim after the other.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

ValueId Plus(Emit& e, ValueId v, const Expr& n) {
  return e.Op("aten::add.Scalar", {v, e.Size(n), e.Const(int64_t{1})});
}
ValueId Times(Emit& e, ValueId v, const Expr& n) { return e.Op("aten::mul.Scalar", {v, e.Size(n)}); }
ValueId FloorBy(Emit& e, ValueId v, const Expr& n) {
  return e.Op("aten::div.Scalar_mode", {v, e.Size(n), e.Const(std::string("floor"))});
}
ValueId AtMost(Emit& e, ValueId v, const Expr& n) { return e.Op("aten::clamp_max", {v, e.Size(n)}); }
ValueId AtLeast(Emit& e, ValueId v, int64_t n) { return e.Op("aten::clamp_min", {v, e.Const(n)}); }
ValueId And(Emit& e, ValueId a, ValueId b) { return e.Op("aten::logical_and", {a, b}); }
// Returns the vector as a tensor of that rank, along one of its dims.
ValueId Along(Emit& e, ValueId vector, int64_t dim, int rank) {
  std::vector<Expr> sizes(rank, Expr(1));
  sizes[dim] = e.Sizes(vector)[0];
  return e.View(vector, sizes);
}

// --- pads ---
// Zeros before and after, along a dim.
ValueId Framed(Emit& e, ValueId v, int64_t dim, const Expr& before, const Expr& after) {
  std::vector<Expr> pad(2 * (e.Rank(v) - dim), Expr(0));
  pad[pad.size() - 2] = before;
  pad[pad.size() - 1] = after;
  return e.Op("aten::constant_pad_nd", {v, e.Ints(pad), e.Const(int64_t{0})});
}

// reflection_pad*d_backward, replication_pad*d_backward(grad_output, self, padding): gradients in the frame belong to
// the elements that were mirrored or repeated there.
Values PadBackward(Emit& e, const OpCall& call) {
  ValueId grad = ToCompute(e, call.arg(0).value);
  const std::vector<Expr> sizes = e.Sizes(call.arg(1).value);
  const bool reflects = absl::StrContains(call.op().name(), "reflection");
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> padding, call.GetInts("padding"));
  if (padding.size() > 2 * sizes.size()) return call.Error("more padding than dims");
  if (e.Sizes(grad).size() != sizes.size()) return call.Error("the gradient does not fit the input");
  for (size_t k = 0; 2 * k + 1 < padding.size(); ++k) {
    const int64_t dim = static_cast<int64_t>(sizes.size() - 1 - k);
    const int64_t before = padding[2 * k], after = padding[2 * k + 1];
    if (before < 0 || after < 0) return call.Unsupported("a negative padding");
    const Expr n = sizes[dim];
    ValueId sum = e.Slice(grad, dim, before, n + before);
    auto frame = [&](const Expr& from, int64_t width, bool first) {
      ValueId part = e.Slice(grad, dim, from, from + width);
      if (reflects) {
        part = e.Op("aten::flip", {part, e.Dims({dim})});
        part = first ? Framed(e, part, dim, 1, n - width - 1) : Framed(e, part, dim, n - width - 1, 1);
      } else {
        part = e.Sum(part, {dim}, true);
        part = first ? Framed(e, part, dim, 0, n - 1) : Framed(e, part, dim, n - 1, 0);
      }
      sum = e.Add(sum, part);
    };
    if (before > 0) frame(0, before, true);
    if (after > 0) frame(n + before, after, false);
    if (!e.ok()) return e.status();
    grad = sum;
  }
  return std::vector<ValueId>{e.Cast(grad, e.DTypeOf(call.arg(0).value))};
}

// --- means of windows ---
// The windows of one dim. Each element lies in those from `first` on, `most` of them at most; up to `last` they do.
struct Windows {
  ValueId first, last;  // [size], int64
  int64_t most = 1;
  ValueId count;  // [windows], int64: elements that a window's mean is of
};

absl::StatusOr<Windows> SlidingWindows(Emit& e, const Expr& size, const Expr& windows, int64_t kernel, int64_t stride,
                                       int64_t padding, bool include_pad) {
  Windows w;
  const ValueId at = Plus(e, Range(e, size), padding);
  w.last = FloorBy(e, at, stride);
  // The first window that contains the position begins at (at - kernel + 1) or later, rounded up to a window.
  w.first = FloorBy(e, Plus(e, at, stride - kernel), stride);
  w.most = (kernel + stride - 1) / stride;
  const ValueId begin = Plus(e, Times(e, Range(e, windows), stride), -padding);
  const ValueId end = AtMost(e, Plus(e, begin, kernel), size + padding);
  const ValueId counted_from = include_pad ? begin : AtLeast(e, begin, 0);
  w.count = e.Sub(include_pad ? end : AtMost(e, end, size), counted_from);
  return w;
}

absl::StatusOr<Windows> AdaptiveWindows(Emit& e, const OpCall& call, const Expr& size, const Expr& windows) {
  Windows w;
  const Expr each = FloorDiv(size, windows);
  if (each * windows == size) {
    w.first = w.last = FloorBy(e, Range(e, size), each);
    w.count = Plus(e, Times(e, Range(e, windows), 0), each);
    return w;
  }
  if (!size.IsConstant() || !windows.IsConstant()) return call.Unsupported("sizes known only at run time");
  const auto up = [&](ValueId v, const Expr& by) { return FloorBy(e, Plus(e, v, by - 1), by); };
  const ValueId at = Range(e, size), o = Range(e, windows);
  w.first = FloorBy(e, Times(e, at, windows), size);
  w.last = Plus(e, up(Times(e, Plus(e, at, 1), windows), size), -1);
  w.most = (*windows.Constant() + *size.Constant() - 1) / *size.Constant() + 1;
  const ValueId floor_by = FloorBy(e, Times(e, o, size), windows);
  w.count = e.Sub(up(Times(e, Plus(e, o, 1), size), windows), floor_by);
  return w;
}

// Returns each element's part of the gradient of the k-th window that contains it along a dim, or 0 if fewer windows
// contain it.
ValueId OfWindow(Emit& e, ValueId grad, int64_t dim, const Windows& w, int64_t k) {
  const ValueId at = k == 0 ? w.first : Plus(e, w.first, k);
  const ValueId third = e.Op("aten::le.Tensor", {at, w.last});
  const ValueId both = And(e, e.Op("aten::lt.Scalar", {at, e.Size(e.Sizes(grad)[dim])}), third);
  const ValueId exists = And(e, e.Op("aten::ge.Scalar", {at, e.Const(int64_t{0})}), both);
  const ValueId place = e.Where(exists, at, e.Fill(at, 0));
  const ValueId second = e.Op("aten::index_select", {grad, e.Const(dim), place});
  return e.WhereN(Along(e, exists, dim, e.Rank(grad)), second, 0);
}

// Sums, from dim `first` on, over all windows that contain each element. Adds window by window as PyTorch does, which
// rounds each sum to the gradient's dtype, or dim by dim if there are so many windows that the graph would grow too
// large.
ValueId SumOfWindows(Emit& e, ValueId grad, int64_t first, const std::vector<Windows>& windows) {
  constexpr int64_t kMostTogether = 64;
  int64_t together = 1;
  for (const Windows& w : windows) together *= w.most;
  std::vector<ValueId> parts = {grad};
  for (size_t k = 0; k < windows.size(); ++k) {
    std::vector<ValueId> next;
    for (ValueId part : parts) {
      for (int64_t i = 0; i < windows[k].most && e.ok(); ++i) {
        next.push_back(OfWindow(e, part, first + static_cast<int64_t>(k), windows[k], i));
      }
    }
    if (!e.ok()) return ValueId();
    if (together > kMostTogether || k + 1 == windows.size()) {
      for (size_t i = 1; i < next.size(); ++i) next[0] = e.Add(next[0], next[i]);
      next.resize(1);
    }
    parts = std::move(next);
  }
  return parts[0];
}

// avg_pool*d_backward(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
// _adaptive_avg_pool*d_backward(grad_output, self)
Values AvgPoolBackward(Emit& e, const OpCall& call) {
  const bool adaptive = absl::StrContains(call.op().name(), "adaptive");
  const int64_t spatial = absl::StrContains(call.op().name(), "3d") ? 3 : 2;
  ValueId grad = call.arg(0).value;
  const std::vector<Expr> sizes = e.Sizes(call.arg(1).value), outs = e.Sizes(grad);
  const int rank = static_cast<int>(sizes.size());
  if (rank < spatial + 1 || outs.size() != sizes.size()) return call.Error("the gradient does not fit the input");
  std::vector<int64_t> kernel, stride, padding;
  bool include_pad = true;
  Expr divisor = 0;
  if (!adaptive) {
    SMELT_ASSIGN_OR_RETURN(kernel, call.GetInts("kernel_size"));
    SMELT_ASSIGN_OR_RETURN(stride, call.GetInts("stride"));
    SMELT_ASSIGN_OR_RETURN(padding, call.GetInts("padding"));
    SMELT_ASSIGN_OR_RETURN(include_pad, call.GetBool("count_include_pad"));
    if (!call.IsNone("divisor_override")) {
      SMELT_ASSIGN_OR_RETURN(divisor, call.GetExpr("divisor_override"));
    }
    if (stride.empty()) stride = kernel;
    // Each window that contains an element takes at least one operator.
    constexpr int64_t kMost = 1024, kMostSteps = int64_t{1} << 31;
    for (auto* list : {&kernel, &stride, &padding}) {
      if (list->size() == 1) list->resize(spatial, (*list)[0]);
      if (static_cast<int64_t>(list->size()) != spatial) return call.Error("a number is expected for each dim");
      for (int64_t v : *list) {
        if (v < (list == &padding ? 0 : 1)) return call.Error("a window, a stride or a padding is too small");
        if (v > kMostSteps) return call.Error("a window, a stride or a padding is too large");
      }
    }
    for (int64_t k = 0; k < spatial; ++k) {
      if (kernel[k] / stride[k] > kMost) return call.Unsupported("windows of which so many overlap");
    }
  }
  for (int64_t d = rank - spatial; d < rank; ++d) {
    if (sizes[d] != Expr(0) && outs[d] != Expr(0)) continue;
    return std::vector<ValueId>{e.Full(e.DTypeOf(call.arg(0).value), sizes, 0)};
  }
  std::vector<Windows> windows;
  ValueId count;
  for (int64_t k = 0; k < spatial; ++k) {
    const int64_t dim = rank - spatial + k;
    Windows w;
    if (adaptive) {
      SMELT_ASSIGN_OR_RETURN(w, AdaptiveWindows(e, call, sizes[dim], outs[dim]));
    } else {
      SMELT_ASSIGN_OR_RETURN(w,
                             SlidingWindows(e, sizes[dim], outs[dim], kernel[k], stride[k], padding[k], include_pad));
    }
    if (!e.ok()) return e.status();
    const ValueId c = Along(e, w.count, dim, rank);
    if (adaptive) {
      // Divides once per dim, with a rounding each time.
      grad = e.Div(grad, e.Cast(c, e.DTypeOf(grad)));
    } else {
      count = count.valid() ? e.Mul(count, c) : c;
    }
    windows.push_back(w);
  }
  if (!adaptive) {
    grad = divisor == Expr(0) ? e.Div(grad, e.Cast(count, e.DTypeOf(grad))) : e.DivBy(grad, divisor);
  }
  if (!e.ok()) return e.status();
  return std::vector<ValueId>{SumOfWindows(e, grad, rank - spatial, windows)};
}

// max_pool*d_with_indices_backward(grad_output, self, …, indices), adaptive_max_pool*d_backward(grad_output, self,
// indices): an index counts within an image.
Values MaxPoolBackward(Emit& e, const OpCall& call) {
  const int spatial = absl::StrContains(call.op().name(), "3d") ? 3 : 2;
  const ValueId grad = call.arg(0).value, indices = call.args().back().value;
  const std::vector<Expr> in = e.Sizes(call.arg(1).value), out = e.Sizes(grad);
  const int lead = static_cast<int>(in.size()) - spatial;
  if (lead < 1 || out.size() != in.size()) return call.Error("the gradient does not fit the input");
  auto flat = [&](const std::vector<Expr>& s) {
    Expr planes = 1, places = 1;
    for (size_t d = 0; d < s.size(); ++d) {
      Expr& product = static_cast<int>(d) < lead ? planes : places;
      product = product * s[d];
    }
    return std::vector<Expr>{planes, places};
  };
  const ValueId zeros = e.Full(e.DTypeOf(grad), flat(in), 0);
  const ValueId sum = e.Op("aten::scatter_add",
                           {zeros, e.Const(int64_t{1}), e.Reshape(indices, flat(out)), e.Reshape(grad, flat(out))});
  return std::vector<ValueId>{e.View(sum, in)};
}

// --- interpolation ---
// One of the elements that each place of a result is a sum of, along a dim, and its weight; without one it is 1.
struct Tap {
  ValueId index, weight;
};

ValueId SumOfTaps(Emit& e, ValueId grad, int64_t dim, const Expr& size, const std::vector<Tap>& taps) {
  std::vector<Expr> sizes = e.Sizes(grad);
  sizes[dim] = size;
  ValueId sum = e.Full(e.DTypeOf(grad), sizes, 0);
  for (const Tap& tap : taps) {
    const ValueId part = tap.weight.valid() ? e.Mul(grad, Along(e, tap.weight, dim, e.Rank(grad))) : grad;
    sum = e.Op("aten::index_add", {sum, e.Const(dim), tap.index, part, e.Const(int64_t{1})});
  }
  return sum;
}

// upsample_nearest*d_backward, _upsample_nearest_exact*d_backward, upsample_linear1d_backward,
// upsample_bilinear2d_backward, upsample_trilinear3d_backward, upsample_bicubic2d_backward: (grad_output, output_size,
// input_size, align_corners?, scales...)
class UpsampleBackward {
 public:
  UpsampleBackward(Emit& e, const OpCall& call) : e_(e), call_(call), name_(call.op().name()) {}

  Values Run() {
    ValueId grad = ToCompute(e_, call_.arg(0).value);
    SMELT_ASSIGN_OR_RETURN(std::vector<Expr> sizes, call_.GetExprs("input_size"));
    if (sizes.size() != static_cast<size_t>(e_.Rank(grad)) || sizes.size() < 3)
      return call_.Error("the gradient does not fit the input");
    for (const Expr& size : sizes) {
      if (size == Expr(0)) return call_.Error("an image without elements");
    }
    if (call_.IndexOf("align_corners") >= 0) {
      SMELT_ASSIGN_OR_RETURN(align_, call_.GetBool("align_corners"));
    }
    const size_t spatial = sizes.size() - 2;
    static const char* const kScales[] = {"scales_d", "scales_h", "scales_w"};
    for (size_t k = 0; k < spatial; ++k) {
      SMELT_ASSIGN_OR_RETURN(double scale, call_.GetDoubleOr(spatial == 1 ? "scales" : kScales[3 - spatial + k], 0));
      SMELT_ASSIGN_OR_RETURN(grad, OneDim(grad, static_cast<int64_t>(k) + 2, sizes[k + 2], scale));
      if (!e_.ok()) return e_.status();
    }
    return std::vector<ValueId>{e_.Cast(grad, e_.DTypeOf(call_.arg(0).value))};
  }

 private:
  absl::StatusOr<ValueId> OneDim(ValueId grad, int64_t dim, const Expr& in, double scale) {
    const Expr out = e_.Sizes(grad)[dim];
    const bool linear = absl::StrContains(name_, "linear");
    if (linear && in == out) return grad;  // whatever factor the call names
    if (!absl::StrContains(name_, "nearest")) return SumOfTaps(e_, grad, dim, in, SmoothTaps(grad, in, out, scale));
    const bool exact = absl::StrContains(name_, "exact");
    const Expr times = FloorDiv(out, in);
    const bool by_sizes = !exact && (times == Expr(1) || times == Expr(2));
    if (times * in == out && times.IsConstant() &&
        (scale <= 0 || by_sizes || scale == static_cast<double>(*times.Constant()))) {
      std::vector<Expr> sizes = e_.Sizes(grad);
      sizes[dim] = in;
      sizes.insert(sizes.begin() + dim + 1, times);
      return e_.Sum(e_.Reshape(grad, sizes), {dim + 1}, false);
    }
    // The operator itself, applied to indices, says where each position comes from.
    const ValueId numbers = e_.View(Range(e_, in, DType::kFloat32), {Expr(1), Expr(1), in});
    const ValueId from = e_.Op(exact ? "aten::_upsample_nearest_exact1d" : "aten::upsample_nearest1d",
                               {numbers, e_.Ints({out}), scale > 0 ? e_.Const(scale) : e_.None()});
    return SumOfTaps(e_, grad, dim, in, {{e_.Cast(e_.View(from, {out}), DType::kInt64), ValueId()}});
  }

  // Computes in the operator's own dtype and order of operations.
  std::vector<Tap> SmoothTaps(ValueId grad, const Expr& in, const Expr& out, double scale) {
    const DType t = e_.DTypeOf(grad);
    const bool cubic = absl::StrContains(name_, "bicubic");
    const auto number = [&](const Expr& n) {
      return e_.Op("aten::scalar_tensor", {e_.Size(n), e_.Const(ScalarTypeOf(t)), e_.None(), e_.None(), e_.None()});
    };
    const auto ratio = [&](const Expr& input, const Expr& output) {
      const ValueId divisor = number(output);
      return e_.Div(number(input), divisor);
    };
    ValueId place = Range(e_, out, t);
    if (align_) {
      place = out == Expr(1) ? e_.MulN(place, 0) : e_.Mul(ratio(in - 1, Max(out - 1, 1)), place);
    } else {
      place = e_.AddN(place, 0.5);
      place = scale > 0 ? e_.MulN(place, 1 / scale) : e_.Mul(ratio(in, out), place);
      place = e_.AddN(place, -0.5);
      if (!cubic) place = AtLeast(e_, place, 0);
    }
    const ValueId low = e_.Op("aten::floor", {place});
    const ValueId first = e_.Cast(low, DType::kInt64);
    const ValueId rest = e_.Sub(place, low);
    const std::vector<ValueId> weights =
        cubic ? CubicWeights(e_, rest)
              : std::vector<ValueId>{e_.Op("aten::rsub.Scalar", {rest, e_.Const(1.0), e_.Const(1.0)}), rest};
    std::vector<Tap> taps;
    for (size_t k = 0; k < weights.size(); ++k) {
      const int64_t step = static_cast<int64_t>(k) - (cubic ? 1 : 0);
      taps.push_back({AtMost(e_, AtLeast(e_, Plus(e_, first, step), 0), in - 1), weights[k]});
    }
    return taps;
  }

  Emit& e_;
  const OpCall& call_;
  const std::string& name_;
  bool align_ = false;
};
Values Upsample(Emit& e, const OpCall& call) { return UpsampleBackward(e, call).Run(); }

}  // namespace

void AddImageBackwardRules(DecompositionTable& t) {
  for (const char* d : {"1d", "2d", "3d"}) {
    t[absl::StrCat("aten::reflection_pad", d, "_backward")] = PadBackward;
    t[absl::StrCat("aten::replication_pad", d, "_backward")] = PadBackward;
    t[absl::StrCat("aten::upsample_nearest", d, "_backward")] = Upsample;
    t[absl::StrCat("aten::_upsample_nearest_exact", d, "_backward")] = Upsample;
  }
  for (const char* name : {"linear1d", "bilinear2d", "trilinear3d", "bicubic2d"}) {
    t[absl::StrCat("aten::upsample_", name, "_backward")] = Upsample;
  }
  for (const char* d : {"2d", "3d"}) {
    t[absl::StrCat("aten::avg_pool", d, "_backward")] = AvgPoolBackward;
    t[absl::StrCat("aten::_adaptive_avg_pool", d, "_backward")] = AvgPoolBackward;
    t[absl::StrCat("aten::max_pool", d, "_with_indices_backward")] = MaxPoolBackward;
    t[absl::StrCat("aten::adaptive_max_pool", d, "_backward")] = MaxPoolBackward;
  }
}

}  // namespace smelt
