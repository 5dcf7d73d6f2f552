// Operators that place elements by their index alone: cat, pad, flip, triangles, upsampling.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"

namespace smelt::eval_internal {
namespace {

std::vector<int64_t> SizesOf(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }

// Sets each element of `out` to the element of `source` (flat, row-major) at f(index), or to `fill` if that is -1.
template <typename F>
void Pick(const Tensor& out, const Tensor& source, F f, const EvalValue& fill = EvalValue(int64_t{0})) {
  const int item = ItemSize(out.dtype());
  const std::vector<char> from = ReadBytes(source);
  const Tensor filler = ScalarTensor(out.dtype(), fill);
  std::vector<char> to(out.NumElements() * item);
  ForEachIndex(out.sizes(), [&](const Index& index, int64_t at) {
    const int64_t p = f(index);
    std::memcpy(to.data() + at * item, p < 0 ? static_cast<const char*>(filler.data()) : from.data() + p * item, item);
  });
  WriteBytes(out, to);
}

absl::StatusOr<Values> Cat(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::vector<Tensor> parts = c.Tensors("tensors");
  SMELT_ASSIGN_OR_RETURN(int dim, Dim(c, c.I("dim"), out.rank()));
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    if (!part.defined()) return c.Error("an element of the list is None");
    if (part.rank() == 1 && part.sizes()[0] == 0) continue;  // PyTorch's legacy: an empty 1-D tensor is skipped
    if (part.rank() != out.rank()) return c.Error("Tensors must have same number of dimensions");
    Geometry g = out.geometry();
    g.sizes[dim] = part.sizes()[dim];
    g.offset += begin * g.strides[dim];
    if (begin + g.sizes[dim] > out.sizes()[dim] || absl::MakeSpan(g.sizes) != part.sizes())
      return c.Error("Sizes of tensors must match except in the given dimension");
    SMELT_RETURN_IF_ERROR(CopyInto(out.View(g), part));
    begin += part.sizes()[dim];
  }
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Pad(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  const std::vector<int64_t> sizes = SizesOf(self), strides = ContiguousStridesOf(sizes);
  const std::vector<int64_t> pad = c.schema->FindArgument("pad") >= 0 ? c.Ints("pad") : c.Ints("padding");
  const bool reflect = absl::StartsWith(c.name(), "aten::reflection");
  const bool constant = c.name() == "aten::constant_pad_nd";
  const int rank = self.rank();
  for (size_t k = 0; reflect && 2 * k + 1 < pad.size(); ++k) {
    const int64_t n = sizes[rank - 1 - k];
    if (pad[2 * k] >= n || pad[2 * k + 1] >= n)
      return c.Error("Padding size should be less than the corresponding input dimension");
  }
  if (!constant && out.NumElements() > 0 && self.NumElements() == 0)
    return c.Error("expected a non-empty tensor: there is nothing to pad with");
  Pick(
      out, self,
      [&](const Index& index) -> int64_t {
        int64_t at = 0;
        for (int d = 0; d < rank; ++d) {
          const size_t k = rank - 1 - d;
          int64_t i = index[d] - (2 * k < pad.size() ? pad[2 * k] : 0);
          const int64_t n = sizes[d];
          if (i < 0 || i >= n) {
            if (constant) return -1;
            if (reflect) {
              i = i < 0 ? -i : 2 * (n - 1) - i;
            } else {
              i = std::clamp<int64_t>(i, 0, n - 1);
            }
          }
          at += i * strides[d];
        }
        return at;
      },
      constant&& c.Has("value") ? c.Arg("value") : EvalValue(int64_t{0}));
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Flip(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  const std::vector<int64_t> sizes = SizesOf(self), strides = ContiguousStridesOf(sizes);
  std::vector<bool> flipped(self.rank(), false);
  for (int64_t d : c.Ints("dims")) {
    SMELT_ASSIGN_OR_RETURN(int w, Dim(c, d, self.rank()));
    if (self.rank() > 0) flipped[w] = true;
  }
  Pick(out, self, [&](const Index& index) {
    int64_t at = 0;
    for (int d = 0; d < self.rank(); ++d) at += (flipped[d] ? sizes[d] - 1 - index[d] : index[d]) * strides[d];
    return at;
  });
  return Values{EvalValue(out)};
}

// Returns a modulo n > 0, in [0, n).
int64_t PositiveRest(int64_t a, int64_t n) { return a % n < 0 ? a % n + n : a % n; }

absl::StatusOr<Values> Roll(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  const std::vector<int64_t> shifts = c.Ints("shifts"), dims = c.Ints("dims");
  std::vector<int64_t> sizes = SizesOf(self), strides = ContiguousStridesOf(sizes);
  const int64_t n = self.NumElements();
  if (dims.empty()) {
    if (shifts.size() != 1) return c.Error("shifts and dimensions must align");
    if (n == 0) return Values{EvalValue(out)};
    const std::vector<int64_t> of_out = ContiguousStridesOf(sizes);
    const int64_t by = PositiveRest(shifts[0], n);
    Pick(out, self, [&](const Index& index) { return (Flat(index, of_out) + n - by) % n; });
    return Values{EvalValue(out)};
  }
  if (shifts.size() != dims.size()) return c.Error("shifts and dimensions must align");
  std::vector<int64_t> by(self.rank(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(int d, Dim(c, dims[i], self.rank()));
    if (self.rank() > 0 && sizes[d] > 0) by[d] = (by[d] + PositiveRest(shifts[i], sizes[d])) % sizes[d];
  }
  Pick(out, self, [&](const Index& index) {
    int64_t at = 0;
    for (int d = 0; d < self.rank(); ++d) at += ((index[d] + sizes[d] - by[d]) % sizes[d]) * strides[d];
    return at;
  });
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Repeat(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  const std::vector<int64_t> sizes = SizesOf(self), strides = ContiguousStridesOf(sizes);
  const int lead = out.rank() - self.rank();
  if (lead < 0)
    return c.Error("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  Pick(out, self, [&](const Index& index) {
    int64_t at = 0;
    for (int d = 0; d < self.rank(); ++d) at += index[lead + d] % sizes[d] * strides[d];
    return at;
  });
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Triangle(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self");
  if (self.rank() < 2) return c.Error("the input tensor must have at least 2 dimensions");
  const bool lower = c.name() == "aten::tril";
  const int64_t k = c.I("diagonal");
  const std::vector<int64_t> strides = ContiguousStridesOf(SizesOf(self));
  Pick(out, self, [&](const Index& index) {
    const int64_t d = index[index.size() - 1] - index[index.size() - 2];
    return (lower ? d <= k : d >= k) ? Flat(index, strides) : -1;
  });
  return Values{EvalValue(out)};
}

// Writes the gradient into zeros of the input's sizes, at the elements that the view shows.
absl::StatusOr<Values> ViewBackward(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor grad = c.args[0].tensor();
  const EvalValue o(out);
  if (c.name() == "aten::unfold_backward") {
    SMELT_ASSIGN_OR_RETURN(int d, Dim(c, c.I("dim"), out.rank()));
    const std::vector<int64_t> strides = ContiguousStridesOf(out.sizes());
    const int64_t step = c.I("step");
    if (grad.rank() != out.rank() + 1 || out.rank() == 0 || step <= 0 || step > (1 << 30))
      return c.Error("the gradient does not fit the sizes");
    for (int k = 0; k < out.rank(); ++k) {
      if (k != d && grad.sizes()[k] > out.sizes()[k]) return c.Error("the gradient does not fit the sizes");
    }
    std::vector<double> sum(out.NumElements());
    const std::vector<double> g = Read<double>(grad);
    bool outside = false;
    ForEachIndex(grad.sizes(), [&](const Index& index, int64_t at) {
      Index to(index.begin(), index.end() - 1);
      to[d] = index[d] * step + index.back();
      outside = outside || to[d] >= out.sizes()[d];
      if (!outside) sum[Flat(to, strides)] += g[at];
    });
    if (outside) return c.Error("the gradient does not fit the sizes");
    Write(out, sum);
    return Values{o};
  }
  Tensor view;
  if (c.name() == "aten::slice_backward") {
    SMELT_ASSIGN_OR_RETURN(view, Run1(*c.state, "aten::slice.Tensor",
                                      {o, Val(c.I("dim")), Val(c.I("start")), Val(c.I("end")), Val(c.I("step"))}));
  } else if (c.name() == "aten::select_backward") {
    SMELT_ASSIGN_OR_RETURN(view, Run1(*c.state, "aten::select.int", {o, Val(c.I("dim")), Val(c.I("index"))}));
  } else {
    SMELT_ASSIGN_OR_RETURN(
        view, Run1(*c.state, "aten::diagonal", {o, Val(c.I("offset")), Val(c.I("dim1")), Val(c.I("dim2"))}));
  }
  SMELT_RETURN_IF_ERROR(CopyInto(view, grad));
  return Values{o};
}

// Returns a copy of self with src written to a view of it.
absl::StatusOr<Values> Scatter(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const Tensor self = c.T("self"), src = c.T("src");
  if (out.strides() == self.strides() && CheckNotExpanded(c, self).ok()) {
    out = self.CloneWithGaps();
  } else {
    SMELT_RETURN_IF_ERROR(CopyInto(out, self));
  }
  const EvalValue o(out);
  Tensor view;
  if (c.name() == "aten::slice_scatter") {
    SMELT_ASSIGN_OR_RETURN(view, Run1(*c.state, "aten::slice.Tensor",
                                      {o, Val(c.I("dim")), c.Arg("start"), c.Arg("end"), Val(c.I("step", 1))}));
  } else if (c.name() == "aten::select_scatter") {
    SMELT_ASSIGN_OR_RETURN(view, Run1(*c.state, "aten::select.int", {o, Val(c.I("dim")), Val(c.I("index"))}));
  } else if (c.name() == "aten::diagonal_scatter") {
    SMELT_ASSIGN_OR_RETURN(
        view, Run1(*c.state, "aten::diagonal", {o, Val(c.I("offset")), Val(c.I("dim1")), Val(c.I("dim2"))}));
  } else {
    SMELT_ASSIGN_OR_RETURN(
        view, Run1(*c.state, "aten::as_strided", {o, c.Arg("size"), c.Arg("stride"), c.Arg("storage_offset")}));
  }
  if (view.sizes() != src.sizes()) return c.Error("expected src to have the sizes of the slice");
  SMELT_RETURN_IF_ERROR(CopyInto(view, src));
  return Values{o};
}

absl::StatusOr<Values> FillDiagonal_(Call& c) {
  const Tensor self = c.T("self");
  // Elements at the same address get the same value, which PyTorch allows.
  if (self.rank() < 2) return c.Error("dimensions must larger than 1");
  int64_t smallest = self.sizes()[0], sum = 0;
  for (int d = 0; d < self.rank(); ++d) {
    smallest = std::min(smallest, self.sizes()[d]);
    if (self.rank() > 2 && self.sizes()[d] != self.sizes()[0])
      return c.Error("all dimensions of input must be of equal length");
    sum += self.strides()[d];
  }
  std::vector<Geometry> lines = {{{smallest}, {sum}, self.offset()}};
  const int64_t rows = self.sizes()[0], columns = self.sizes()[1];
  if (c.B("wrap") && self.rank() == 2 && rows > columns + 1) {
    // The diagonal continues below, after a row without a diagonal element.
    for (int64_t begin = columns + 1; begin < rows; begin += columns + 1) {
      lines.push_back({{std::min(columns, rows - begin)}, {sum}, self.offset() + begin * self.strides()[0]});
    }
  }
  for (const Geometry& g : lines)
    SMELT_RETURN_IF_ERROR(CopyInto(self.View(g), ScalarTensor(self.dtype(), c.Arg("fill_value"))));
  return Values{c.args[0]};
}

absl::StatusOr<Values> DiagEmbed(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  SMELT_ASSIGN_OR_RETURN(Tensor d,
                         Run1(*c.state, "aten::diagonal",
                              {EvalValue(out), Val(c.I("offset")), Val(c.I("dim1", -2)), Val(c.I("dim2", -1))}));
  SMELT_RETURN_IF_ERROR(CopyInto(d, c.T("self")));
  return Values{EvalValue(out)};
}

// --- upsampling ---

// Returns the source position of output position i, for a given scale (0: the ratio of the sizes).
double Source(int64_t i, int64_t in, int64_t out, double scale, bool align, bool cubic) {
  if (align) return out > 1 ? static_cast<double>(i) * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  const double s = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  const double x = s * (static_cast<double>(i) + 0.5) - 0.5;
  return !cubic && x < 0 ? 0 : x;
}

struct Tap {
  int64_t position;
  double weight;
};
enum class Interpolation { kNearest, kNearestExact, kLinear, kCubic };

// Returns whether PyTorch uses the kernel for nearest elements that copies them, or uses each twice, if the sizes say
// so. It is the kernel for small images, and for four or more channels that are innermost in memory.
bool GoesBySizes(const Tensor& small, const Tensor& large) {
  const int dims = large.rank() - 2;
  if (dims == 1) return false;
  const int64_t channels = small.sizes()[1];
  if (channels > 3 && small.strides()[1] == 1 && small.strides()[1 + dims] == channels) return true;
  return dims == 2 && large.sizes()[2] + large.sizes()[3] <= 128;
}

std::vector<Tap> TapsOf(Interpolation how, int64_t i, int64_t in, int64_t out, double scale, bool align,
                        bool by_sizes) {
  if (how == Interpolation::kNearest && by_sizes && in == out) return {{i, 1}};
  if (how == Interpolation::kNearest && by_sizes && in * 2 == out) return {{i / 2, 1}};
  if (how == Interpolation::kLinear && in == out) return {{i, 1}};
  if (how == Interpolation::kNearest || how == Interpolation::kNearestExact) {
    // The kernel computes the scale in float.
    const float s = static_cast<float>(scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out));
    const float x = how == Interpolation::kNearest ? static_cast<float>(i) * s : (static_cast<float>(i) + 0.5f) * s;
    return {{std::min<int64_t>(static_cast<int64_t>(std::floor(x)), in - 1), 1}};
  }
  const double x = Source(i, in, out, scale, align, how == Interpolation::kCubic);
  const int64_t low =
      std::min<int64_t>(static_cast<int64_t>(std::floor(x)), how == Interpolation::kCubic ? in : in - 1);
  const double t = x - std::floor(x);
  if (how == Interpolation::kLinear) {
    const double l = std::clamp(x - static_cast<double>(low), 0.0, 1.0);
    return {{low, 1 - l}, {std::min(low + 1, in - 1), l}};
  }
  constexpr double kA = -0.75;
  auto near = [&](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  auto far = [&](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  const double w[4] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k)
    taps.push_back({std::clamp<int64_t>(static_cast<int64_t>(std::floor(x)) - 1 + k, 0, in - 1), w[k]});
  return taps;
}

absl::StatusOr<Values> Upsample(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::string& n = c.name();
  const bool backward = absl::EndsWith(n, "_backward");
  const Tensor given = c.args[0].tensor();
  const Interpolation how = absl::StrContains(n, "exact")     ? Interpolation::kNearestExact
                            : absl::StrContains(n, "nearest") ? Interpolation::kNearest
                            : absl::StrContains(n, "cubic")   ? Interpolation::kCubic
                                                              : Interpolation::kLinear;
  if (given.dtype() == DType::kUInt8 && how != Interpolation::kNearest && how != Interpolation::kNearestExact)
    return RunDecomposed(c);
  const Tensor& small = backward ? out : given;
  const Tensor& large = backward ? given : out;
  const int dims = large.rank() - 2;
  if (dims < 1 || small.rank() != large.rank()) return c.Error("a batch of images is expected");
  std::vector<double> scales = c.Doubles("scale_factors");
  if (scales.empty()) {
    for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"}) {
      if (c.schema->FindArgument(name) >= 0) scales.push_back(c.D(name, 0));
    }
  }
  scales.resize(dims, 0);
  const bool by_sizes = backward || GoesBySizes(small, large);
  std::vector<std::vector<std::vector<Tap>>> taps(dims);
  for (int d = 0; d < dims; ++d) {
    const int64_t in = small.sizes()[2 + d];
    if (in == 0) return c.Error("Input and output sizes should be greater than 0");
    for (int64_t i = 0; i < large.sizes()[2 + d]; ++i)
      taps[d].push_back(TapsOf(how, i, in, large.sizes()[2 + d], scales[d], c.B("align_corners"), by_sizes));
  }
  const std::vector<int64_t> strides = ContiguousStridesOf(small.sizes());
  std::vector<double> from = Read<double>(given), to(out.NumElements());
  ForEachIndex(large.sizes(), [&](const Index& index, int64_t at) {
    std::vector<int64_t> counts;
    for (int d = 0; d < dims; ++d) counts.push_back(static_cast<int64_t>(taps[d][index[2 + d]].size()));
    double sum = 0;
    ForEachIndex(counts, [&](const Index& k, int64_t) {
      int64_t p = index[0] * strides[0] + index[1] * strides[1];
      double w = 1;
      for (int d = 0; d < dims; ++d) {
        const Tap& tap = taps[d][index[2 + d]][k[d]];
        p += tap.position * strides[2 + d];
        w *= tap.weight;
      }
      if (backward) {
        to[p] += w * from[at];
      } else {
        sum += w * from[p];
      }
    });
    if (!backward) to[at] = sum;
  });
  Write(out, to);
  return Values{EvalValue(out)};
}

// im2col and col2im: columns of windows, and back.
absl::StatusOr<Values> Im2Col(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const bool back = c.name() == "aten::col2im";
  const Tensor given = c.T("self");
  const Tensor& image = back ? out : given;
  const bool batched = image.rank() == 4;
  const std::vector<int64_t> kernel = c.PerDim("kernel_size", 2, 1), dilation = c.PerDim("dilation", 2, 1),
                             padding = c.PerDim("padding", 2, 0), stride = c.PerDim("stride", 2, 1);
  if (image.rank() != 3 && image.rank() != 4) return c.Error("an image is expected");
  for (int k = 0; k < 2; ++k) {
    if (std::min({kernel[k], dilation[k], stride[k]}) < 1 || padding[k] < 0 ||
        std::max({kernel[k], dilation[k], stride[k], padding[k]}) > (1 << 20))
      return c.Error("kernel, dilation and stride should be greater than zero, and no window is so large");
  }
  const int b = batched ? 1 : 0;
  const int64_t batches = batched ? image.sizes()[0] : 1, channels = image.sizes()[b], h = image.sizes()[b + 1],
                w = image.sizes()[b + 2];
  const int64_t rows = (h + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) / stride[0] + 1;
  const int64_t columns = (w + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1) / stride[1] + 1;
  if (rows <= 0 || columns <= 0) return c.Error("the windows do not fit the image");
  if ((back ? given : out).NumElements() != batches * channels * kernel[0] * kernel[1] * rows * columns)
    return c.Error("the columns do not fit the image");
  WithNumber(out.dtype(), [&](auto number) {
    using T = decltype(number);
    const std::vector<T> from = Read<T>(given);
    std::vector<T> to(out.NumElements());
    ForEachIndex({batches, channels, kernel[0], kernel[1], rows, columns}, [&](const Index& i, int64_t column_at) {
      const int64_t y = i[4] * stride[0] - padding[0] + i[2] * dilation[0];
      const int64_t x = i[5] * stride[1] - padding[1] + i[3] * dilation[1];
      if (y < 0 || y >= h || x < 0 || x >= w) return;
      const int64_t image_at = ((i[0] * channels + i[1]) * h + y) * w + x;
      if (back) {
        to[image_at] += from[column_at];
      } else {
        to[column_at] = from[image_at];
      }
    });
    Write(out, to);
  });
  return Values{EvalValue(out)};
}

// split_copy, unbind_copy and others: copies of the views.
absl::StatusOr<Values> ViewsCopy(Call& c) {
  std::string view = c.op.op().full();
  view.erase(view.find("_copy"), 5);
  if (view == "aten::view") view = "aten::reshape";  // a copy need not be possible as a view
  SMELT_ASSIGN_OR_RETURN(Values v, Run(*c.state, OpName::Get(view), c.args));
  auto copy = [&](const EvalValue& x) -> absl::StatusOr<EvalValue> {
    const Tensor& t = x.tensor();
    if (IsTooLarge(c, t.dtype(), t.sizes())) return c.Error("the tensor is too large");
    SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, t.dtype(), t.sizes(), ContiguousStridesOf(t.sizes())));
    SMELT_RETURN_IF_ERROR(CopyInto(out, t));
    return EvalValue(out);
  };
  for (EvalValue& x : v) {
    if (x.IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(x, copy(x));
      continue;
    }
    Values copies;
    for (const EvalValue& e : x.elements()) {
      SMELT_ASSIGN_OR_RETURN(EvalValue copied, copy(e));
      copies.push_back(std::move(copied));
    }
    x = EvalValue::List(std::move(copies));
  }
  return v;
}

}  // namespace

void AddMovementKernels(KernelTable& t) {
  t["aten::cat"] = t["aten::concat"] = t["aten::concatenate"] = Cat;
  for (const char* n : {"constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
                        "replication_pad1d", "replication_pad2d", "replication_pad3d"}) {
    t[absl::StrCat("aten::", n)] = Pad;
  }
  t["aten::flip"] = Flip;
  t["aten::roll"] = Roll;
  t["aten::repeat"] = Repeat;
  t["aten::tril"] = t["aten::triu"] = Triangle;
  t["aten::slice_backward"] = t["aten::select_backward"] = t["aten::diagonal_backward"] = t["aten::unfold_backward"] =
      ViewBackward;
  t["aten::slice_scatter"] = t["aten::select_scatter"] = t["aten::diagonal_scatter"] = t["aten::as_strided_scatter"] =
      Scatter;
  t["aten::fill_diagonal_"] = FillDiagonal_;
  t["aten::diag_embed"] = DiagEmbed;
  for (const char* n : {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
                        "_upsample_nearest_exact2d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
                        "upsample_bicubic2d", "upsample_nearest2d_backward", "upsample_bilinear2d_backward"}) {
    t[absl::StrCat("aten::", n)] = Upsample;
  }
  t["aten::im2col"] = t["aten::col2im"] = Im2Col;
  for (const char* n : {"split_copy", "split_with_sizes_copy", "unbind_copy", "view_copy", "permute_copy",
                        "transpose_copy", "t_copy", "expand_copy", "squeeze_copy", "unsqueeze_copy", "slice_copy",
                        "select_copy", "unfold_copy", "diagonal_copy", "as_strided_copy", "view_as_real_copy"}) {
    t[absl::StrCat("aten::", n)] = ViewsCopy;
  }
}

}  // namespace smelt::eval_internal
