// torchvision's detection operators, element by element in the dtype of their operands: where a coordinate is rounded,
// its dtype decides.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/op/infer.h"

namespace smelt::eval_internal {
namespace {

template <typename F>
auto WithFloat(DType t, F f) {
  return t == DType::kFloat64 ? f(double()) : f(float());
}

template <typename T>
std::vector<T> ReadFloats(const Tensor& t) {
  const std::vector<double> wide = Read<double>(t);
  return std::vector<T>(wide.begin(), wide.end());
}
template <typename T>
void WriteFloats(const Tensor& t, const std::vector<T>& values) {
  Write(t, std::vector<double>(values.begin(), values.end()));
}

// The boxes by falling score, and whether each of them stays.
struct BoxOrder {
  std::vector<int64_t> order, stays;
};
absl::StatusOr<BoxOrder> OrderOf(const Call& c) {
  const Tensor dets = c.T("dets"), scores = c.T("scores");
  const double threshold = c.D("iou_threshold");
  const int64_t n = dets.sizes()[0];
  if (scores.sizes()[0] != n) return c.Error("boxes and scores should have same number of elements in dimension 0");
  const std::vector<double> score = Read<double>(scores);
  std::vector<int64_t> order(n), stays(n, 1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (std::isnan(score[a]) || std::isnan(score[b])) return std::isnan(score[a]) && !std::isnan(score[b]);
    return score[a] > score[b];
  });
  WithFloat(dets.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::vector<T> box = ReadFloats<T>(dets);
    const auto area = [&](int64_t i) -> T { return (box[4 * i + 2] - box[4 * i]) * (box[4 * i + 3] - box[4 * i + 1]); };
    for (int64_t a = 0; a < n; ++a) {
      if (!stays[a]) continue;
      const int64_t i = order[a];
      for (int64_t b = a + 1; b < n; ++b) {
        const int64_t j = order[b];
        const T w = std::max(T(0), std::min(box[4 * i + 2], box[4 * j + 2]) - std::max(box[4 * i], box[4 * j]));
        const T h = std::max(T(0), std::min(box[4 * i + 3], box[4 * j + 3]) - std::max(box[4 * i + 1], box[4 * j + 1]));
        const T both = w * h, overlap = both / (area(i) + area(j) - both);
        if (overlap > threshold) stays[b] = 0;
      }
    }
    return 0;
  });
  return BoxOrder{std::move(order), std::move(stays)};
}

absl::StatusOr<Values> NmsOrder(Call& c) {
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  SMELT_ASSIGN_OR_RETURN(const BoxOrder boxes, OrderOf(c));
  Write(outs[0], boxes.order);
  Write(outs[1], boxes.stays);
  return Values{EvalValue(outs[0]), EvalValue(outs[1])};
}

absl::StatusOr<Values> Nms(Call& c) {
  SMELT_RETURN_IF_ERROR(InferCall(c.op, SymbolRanges()).status());
  SMELT_ASSIGN_OR_RETURN(const BoxOrder boxes, OrderOf(c));
  std::vector<int64_t> kept;
  for (size_t k = 0; k < boxes.order.size(); ++k) {
    if (boxes.stays[k]) kept.push_back(boxes.order[k]);
  }
  const int64_t count = static_cast<int64_t>(kept.size());
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, DType::kInt64, {count}, {1}));
  Write(out, kept);
  return Values{EvalValue(out)};
}

// Where boxes of rois [K, 5] lie in the images.
template <typename T>
struct Regions {
  std::vector<T> image, roi;  // row-major
  int64_t images, channels, height, width, rois, bins_h, bins_w;
  T scale;

  T At(int64_t n, int64_t channel, int64_t y, int64_t x) const {
    return image[((n * channels + channel) * height + y) * width + x];
  }
};

template <typename T>
absl::StatusOr<Regions<T>> RegionsOf(const Call& c) {
  const Tensor input = c.T("input"), rois = c.T("rois");
  Regions<T> r = {ReadFloats<T>(input), ReadFloats<T>(rois),
                  input.sizes()[0],     input.sizes()[1],
                  input.sizes()[2],     input.sizes()[3],
                  rois.sizes()[0],      c.I("pooled_height"),
                  c.I("pooled_width"),  static_cast<T>(c.D("spatial_scale"))};
  for (int64_t k = 0; k < r.rois; ++k) {
    const T image = r.roi[5 * k];
    if (!(image > -1 && image < static_cast<T>(r.images)) || r.height == 0 || r.width == 0)
      return c.Error(absl::StrCat("box ", k, " lies in image ", image, " of ", r.images));
  }
  return r;
}

// The value between four elements; `outside` where the point lies off the image.
template <typename T>
T Between(const Regions<T>& r, int64_t n, int64_t channel, T y, T x, T outside) {
  const T height = static_cast<T>(r.height), width = static_cast<T>(r.width);
  if (!(y >= -1 && y <= height && x >= -1 && x <= width)) return outside;
  y = std::max(y, T(0));
  x = std::max(x, T(0));
  int64_t top = static_cast<int64_t>(y), left = static_cast<int64_t>(x), bottom = top + 1, right = left + 1;
  if (top >= r.height - 1) {
    top = bottom = r.height - 1;
    y = static_cast<T>(top);
  }
  if (left >= r.width - 1) {
    left = right = r.width - 1;
    x = static_cast<T>(left);
  }
  const T down = y - static_cast<T>(top), across = x - static_cast<T>(left), up = 1 - down, back = 1 - across;
  return up * back * r.At(n, channel, top, left) + up * across * r.At(n, channel, top, right) +
         down * back * r.At(n, channel, bottom, left) + down * across * r.At(n, channel, bottom, right);
}

// roi_align and ps_roi_align: means of points in each bin. In the second one each bin has a channel of its own.
template <typename T>
absl::StatusOr<Values> Align(Call& c) {
  const bool of_bins = c.name() == "torchvision::ps_roi_align";
  SMELT_ASSIGN_OR_RETURN(const Regions<T> r, RegionsOf<T>(c));
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  const int64_t sampling = c.I("sampling_ratio");
  const bool aligned = of_bins || c.B("aligned");
  const T shift = aligned ? T(0.5) : T(0);
  std::vector<T> means;
  std::vector<int64_t> taken;
  absl::Status status;
  ForEachIndex(outs[0].sizes(), [&](const std::vector<int64_t>& at, int64_t) {
    const T* const roi = r.roi.data() + 5 * at[0];
    const int64_t n = static_cast<int64_t>(roi[0]);
    const T x0 = roi[1] * r.scale - shift, y0 = roi[2] * r.scale - shift;
    T width = roi[3] * r.scale - shift - x0, height = roi[4] * r.scale - shift - y0;
    if (!aligned) {
      width = std::max(width, T(1));
      height = std::max(height, T(1));
    }
    const T bin_h = height / static_cast<T>(r.bins_h), bin_w = width / static_cast<T>(r.bins_w);
    const double rows = sampling > 0 ? static_cast<double>(sampling) : std::ceil(bin_h);
    const double columns = sampling > 0 ? static_cast<double>(sampling) : std::ceil(bin_w);
    if (rows * columns > 1 << 20) status = c.Error(absl::StrCat("box ", at[0], " has too many points"));
    if (!status.ok()) return;
    const int64_t channel = of_bins ? (at[1] * r.bins_h + at[2]) * r.bins_w + at[3] : at[1];
    const T outside = of_bins ? T(0) : T(0) * r.At(n, channel, 0, 0);
    T sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const T y = y0 + static_cast<T>(at[2]) * bin_h + static_cast<T>(i + 0.5f) * bin_h / static_cast<T>(rows);
      for (int64_t j = 0; j < columns; ++j) {
        const T x = x0 + static_cast<T>(at[3]) * bin_w + static_cast<T>(j + 0.5f) * bin_w / static_cast<T>(columns);
        sum += Between(r, n, channel, y, x, outside);
      }
    }
    // A box without points has the mean 0, or none.
    const double points = std::isnan(rows * columns) ? 0 : rows * columns;
    means.push_back(sum / static_cast<T>(of_bins ? points : std::max(points, 1.0)));
    taken.push_back(channel);
  });
  SMELT_RETURN_IF_ERROR(status);
  WriteFloats(outs[0], means);
  if (!of_bins) return Values{EvalValue(outs[0])};
  Write(outs[1], taken);
  return Values{EvalValue(outs[0]), EvalValue(outs[1])};
}

// roi_pool: the largest element of each bin and its place in the plane, -1 for none.
template <typename T>
absl::StatusOr<Values> Pool(Call& c) {
  SMELT_ASSIGN_OR_RETURN(const Regions<T> r, RegionsOf<T>(c));
  SMELT_ASSIGN_OR_RETURN(std::vector<Tensor> outs, OutputsOf(c));
  std::vector<T> most;
  std::vector<int64_t> places;
  ForEachIndex(outs[0].sizes(), [&](const std::vector<int64_t>& at, int64_t) {
    const T* const roi = r.roi.data() + 5 * at[0];
    const auto edge = [&](int k) -> int64_t {
      const T v = std::round(roi[k] * r.scale);
      return std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp<T>(v, -(1 << 30), 1 << 30));
    };
    const int64_t x0 = edge(1), y0 = edge(2);
    const T bin_w = static_cast<T>(std::max<int64_t>(edge(3) - x0 + 1, 1)) / static_cast<T>(r.bins_w);
    const T bin_h = static_cast<T>(std::max<int64_t>(edge(4) - y0 + 1, 1)) / static_cast<T>(r.bins_h);
    const auto begin = [](int64_t k, T bin, int64_t from, int64_t size) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::floor(static_cast<T>(k) * bin)) + from, 0, size);
    };
    const auto end = [](int64_t k, T bin, int64_t from, int64_t size) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(static_cast<T>(k + 1) * bin)) + from, 0, size);
    };
    const int64_t top = begin(at[2], bin_h, y0, r.height), bottom = end(at[2], bin_h, y0, r.height);
    const int64_t left = begin(at[3], bin_w, x0, r.width), right = end(at[3], bin_w, x0, r.width);
    T best = top >= bottom || left >= right ? T(0) : static_cast<T>(-FLT_MAX);
    int64_t place = -1;
    for (int64_t y = top; y < bottom; ++y) {
      for (int64_t x = left; x < right; ++x) {
        const T v = r.At(static_cast<int64_t>(roi[0]), at[1], y, x);
        if (v > best) {
          best = v;
          place = y * r.width + x;
        }
      }
    }
    most.push_back(best);
    places.push_back(place);
  });
  WriteFloats(outs[0], most);
  Write(outs[1], places);
  return Values{EvalValue(outs[0]), EvalValue(outs[1])};
}

absl::StatusOr<Values> RegionsOfInterest(Call& c) {
  const bool pools = c.name() == "torchvision::roi_pool";
  return WithFloat(c.T("input").dtype(), [&](auto tag) {
    using T = decltype(tag);
    return pools ? Pool<T>(c) : Align<T>(c);
  });
}

absl::StatusOr<Values> DeformedColumns(Call& c) {
  const Tensor input = c.T("input"), offset = c.T("offset"), mask = c.T("mask");
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const int64_t images = input.sizes()[0], channels = input.sizes()[1], height = input.sizes()[2],
                width = input.sizes()[3], rows = offset.sizes()[2], columns = offset.sizes()[3];
  const int64_t kernel_h = c.I("kernel_h"), kernel_w = c.I("kernel_w"), groups = c.I("offset_groups");
  const bool use_mask = c.B("use_mask");
  const auto places = [&](int64_t size, int64_t kernel, const char* pad, const char* dilation, const char* stride) {
    return (size + 2 * c.I(pad) - (c.I(dilation) * (kernel - 1) + 1)) / std::max<int64_t>(c.I(stride), 1) + 1;
  };
  for (const char* name :
       {"kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w"}) {
    if (c.I(name) < 0 || c.I(name) > 1 << 24) return c.Error(absl::StrCat(name, " is out of range"));
  }
  if (use_mask && mask.rank() != 4) return c.Error("mask must have 4 dims");
  if (c.I("stride_h") < 1 || c.I("stride_w") < 1 || groups < 1 || channels % groups != 0)
    return c.Error("strides and groups must be positive, and groups divide the channels");
  if (rows != places(height, kernel_h, "pad_h", "dilation_h", "stride_h") ||
      columns != places(width, kernel_w, "pad_w", "dilation_w", "stride_w") || offset.sizes()[0] != images ||
      (use_mask && (mask.sizes()[0] != images || mask.sizes()[2] != rows || mask.sizes()[3] != columns)))
    return c.Error("the sizes of offset and mask are not those of the output");
  WithFloat(input.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::vector<T> x = ReadFloats<T>(input), moved = ReadFloats<T>(offset),
                         weights = use_mask ? ReadFloats<T>(mask) : std::vector<T>();
    std::vector<T> y(out.NumElements());
    size_t to = 0;
    ForEachIndex({channels, kernel_h, kernel_w, images, rows, columns}, [&](const std::vector<int64_t>& at, int64_t) {
      const int64_t channel = at[0], n = at[3];
      const int64_t tap = (channel / (channels / groups) * kernel_h + at[1]) * kernel_w + at[2];
      const int64_t taps = groups * kernel_h * kernel_w, place = at[4] * columns + at[5], area = rows * columns;
      const T h = static_cast<T>(at[4] * c.I("stride_h") - c.I("pad_h") + at[1] * c.I("dilation_h")) +
                  moved[(n * 2 * taps + 2 * tap) * area + place];
      const T w = static_cast<T>(at[5] * c.I("stride_w") - c.I("pad_w") + at[2] * c.I("dilation_w")) +
                  moved[(n * 2 * taps + 2 * tap + 1) * area + place];
      T value = 0;
      if (h > -1 && h < static_cast<T>(height) && w > -1 && w < static_cast<T>(width)) {
        const int64_t top = static_cast<int64_t>(std::floor(h)), left = static_cast<int64_t>(std::floor(w));
        const T down = h - static_cast<T>(top), across = w - static_cast<T>(left);
        const auto part = [&](int64_t i, int64_t j, T weight) -> T {
          if (i < 0 || i >= height || j < 0 || j >= width) return 0;
          return weight * x[((n * channels + channel) * height + i) * width + j];
        };
        value = part(top, left, (1 - down) * (1 - across)) + part(top, left + 1, (1 - down) * across) +
                part(top + 1, left, down * (1 - across)) + part(top + 1, left + 1, down * across);
      }
      y[to++] = (use_mask ? weights[(n * taps + tap) * area + place] : T(1)) * value;
    });
    WriteFloats(out, y);
    return 0;
  });
  return Values{EvalValue(out)};
}

}  // namespace

void AddDetectionKernels(KernelTable& t) {
  t["torchvision::nms"] = Nms;
  t["smelt::nms_order"] = NmsOrder;
  t["torchvision::roi_align"] = t["torchvision::ps_roi_align"] = t["torchvision::roi_pool"] = RegionsOfInterest;
  t["smelt::deformed_columns"] = DeformedColumns;
}

}  // namespace smelt::eval_internal
