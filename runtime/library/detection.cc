#include "smelt/runtime/library/detection.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/order.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

template <template <typename> class Op, typename... Args>
MakeResult MakeOf(DType t, Args&&... args) {
  if (t == DType::kFloat64) return std::unique_ptr<PreparedOp>(new Op<double>(std::forward<Args>(args)...));
  return std::unique_ptr<PreparedOp>(new Op<float>(std::forward<Args>(args)...));
}

absl::Status CheckFloats(const LibraryRequest& r) {
  const DType t = r.inputs[0].dtype;
  if (t == DType::kFloat32 || t == DType::kFloat64) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(r.op, ": operands of ", Name(t), ", not float32 or float64"));
}

absl::Status DoNotFit(const LibraryRequest& r) {
  return absl::InvalidArgumentError(absl::StrCat(r.op, ": the operands do not fit each other"));
}

// --- nms_order ---

// Clears the flag of every box from `begin` to `end` that shares more than `most` of its area with box `i`.
template <typename T>
SMELT_INLINE void Suppress(const T* const boxes[5], int64_t i, int64_t begin, int64_t end, T most, uint8_t* stays) {
  const T *x0 = boxes[0], *y0 = boxes[1], *x1 = boxes[2], *y1 = boxes[3], *area = boxes[4];
  const T left = x0[i], top = y0[i], right = x1[i], bottom = y1[i], mine = area[i];
  for (int64_t j = begin; j < end; ++j) {
    const T w = std::min(right, x1[j]) - std::max(left, x0[j]), h = std::min(bottom, y1[j]) - std::max(top, y0[j]);
    const T both = (T(0) < w ? w : T(0)) * (T(0) < h ? h : T(0));
    stays[j] &= static_cast<uint8_t>(!(both / (mine + area[j] - both) > most));
  }
}

// (boxes [n, 4], scores [n]) -> (order [n], stays [n]): the boxes by falling score; a box stays unless one that stays
// before it shares more than the threshold with it.
template <typename T>
class NmsOrder : public PreparedOp {
 public:
  explicit NmsOrder(const LibraryRequest& r) : r_(r) {
    // The largest number of the dtype that is not above the threshold is as good as the threshold.
    const double threshold = r.floats[0];
    most_ = static_cast<T>(threshold);
    if (static_cast<double>(most_) > threshold) most_ = std::nextafter(most_, -std::numeric_limits<T>::infinity());
  }

  absl::Status Run(const LibraryContext&, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const OperandShape &dets = r_.inputs[0], &scores = r_.inputs[1];
    const int64_t n = dets.sizes[0];
    thread_local std::vector<Keyed> order;
    LoadKeys(inputs[1], scores.strides[0] * ItemSize(scores.dtype), n, scores.dtype, /*descending=*/true, &order);
    SortByKey(&order);
    T* const columns = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kLibrary, n * 5 * sizeof(T)));
    T* boxes[5];
    for (int k = 0; k < 5; ++k) boxes[k] = columns + k * n;
    uint8_t* const stays = reinterpret_cast<uint8_t*>(Scratch::Get(ScratchUse::kOther, n));
    std::memset(stays, 1, static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = order[static_cast<size_t>(i)].index;
      const T* box = reinterpret_cast<const T*>(inputs[0]) + index * dets.strides[0];
      for (int k = 0; k < 4; ++k) boxes[k][i] = box[k * dets.strides[1]];
      boxes[4][i] = (boxes[2][i] - boxes[0][i]) * (boxes[3][i] - boxes[1][i]);
      reinterpret_cast<int64_t*>(outputs[0])[i * r_.outputs[0].strides[0]] = index;
    }
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      for (int64_t i = 0; i < n; ++i) {
        if (stays[i]) Suppress<T>(boxes, i, i + 1, n, most_, stays);
      }
    });
    for (int64_t i = 0; i < n; ++i) outputs[1][i * r_.outputs[1].strides[0]] = static_cast<char>(stays[i]);
    return absl::OkStatus();
  }

 private:
  const LibraryRequest r_;
  T most_;
};

MakeResult MakeNmsOrder(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 2, 2, 2, 0));
  SMELT_RETURN_IF_ERROR(CheckFloats(r));
  const OperandShape &dets = r.inputs[0], &scores = r.inputs[1];
  if (r.floats.size() != 1 || dets.rank() != 2 || dets.sizes[1] != 4 || scores.dtype != dets.dtype ||
      scores.sizes != std::vector<int64_t>{dets.sizes[0]} || r.outputs[0].sizes != scores.sizes ||
      r.outputs[1].sizes != scores.sizes || r.outputs[0].dtype != DType::kInt64 || r.outputs[1].dtype != DType::kBool)
    return DoNotFit(r);
  return MakeOf<NmsOrder>(dets.dtype, r);
}

// --- roi_align, roi_pool, ps_roi_align ---

// Boxes rois [k, 5] in images [n, c, h, w], and bins in each of them: result [k, c', bins_h, bins_w].
struct RegionShape {
  OperandShape image, rois, result, places;  // `places` is absent for roi_align
  int64_t bins_h, bins_w, sampling = 0;
  double scale;
  bool shifted = false;   // box edges by half an element
  bool of_bins = false;   // ps_roi_align: each bin has a channel of its own
  bool is_plain = false;  // roi_align without the shift: boxes are at least one element wide

  template <typename T>
  const T* Box(const char* data, int64_t k, T box[5]) const {
    const T* from = reinterpret_cast<const T*>(data) + k * rois.strides[0];
    for (int i = 0; i < 5; ++i) box[i] = from[i * rois.strides[1]];
    return box;
  }
  // Returns the image that a box lies in; torchvision reads any memory that the number leads to.
  template <typename T>
  absl::StatusOr<int64_t> Image(absl::string_view op, int64_t k, T number) const {
    if (!(number > -1 && number < static_cast<T>(image.sizes[0])) || image.sizes[2] == 0 || image.sizes[3] == 0) {
      return absl::FailedPreconditionError(absl::StrCat(op, ": box ", k, " lies in image ", number, " of ",
                                                        image.sizes[0], " images of ", image.sizes[2], " by ",
                                                        image.sizes[3], " elements"));
    }
    return static_cast<int64_t>(number);
  }
};

// One of the points of a bin along a dim: between two elements, or off the image.
template <typename T>
struct Point {
  int64_t low, high;  // offsets of elements; -1 off the image
  T to_low, to_high;  // weights
};

template <typename T>
Point<T> PointAt(T at, int64_t size, int64_t stride) {
  if (!(at >= -1 && at <= static_cast<T>(size))) return {-1, -1, 0, 0};
  at = std::max(at, T(0));
  int64_t low = static_cast<int64_t>(at), high = low + 1;
  if (low >= size - 1) {
    low = high = size - 1;
    at = static_cast<T>(low);
  }
  const T above = at - static_cast<T>(low);
  return {low * stride, high * stride, T(1) - above, above};
}

// Means of points in each bin.
template <typename T>
class AlignOp : public PreparedOp {
 public:
  AlignOp(const LibraryRequest& r, RegionShape s) : op_(r.op), s_(std::move(s)) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const int64_t rois = s_.rois.sizes[0];
    for (int64_t k = 0; k < rois; ++k) SMELT_RETURN_IF_ERROR(PlaceOf(inputs[1], k).status());
    if (s_.result.NumElements() == 0) return absl::OkStatus();
    context.For(rois, [&](int64_t k) { RunBox(inputs, outputs, k); });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kMostPoints = 1 << 20;  // in a bin

  struct Place {
    int64_t image;
    T x, y, bin_w, bin_h;   // of the first bin
    int64_t rows, columns;  // points in a bin; 0 for a box without an area
    T divisor;
  };

  absl::StatusOr<Place> PlaceOf(const char* data, int64_t k) const {
    T box[5];
    s_.Box<T>(data, k, box);
    Place p;
    SMELT_ASSIGN_OR_RETURN(p.image, s_.Image<T>(op_, k, box[0]));
    const T scale = static_cast<T>(s_.scale), shift = s_.shifted ? T(0.5) : T(0);
    p.x = box[1] * scale - shift;
    p.y = box[2] * scale - shift;
    T width = box[3] * scale - shift - p.x, height = box[4] * scale - shift - p.y;
    if (s_.is_plain) {
      width = std::max(width, T(1));
      height = std::max(height, T(1));
    }
    p.bin_w = width / static_cast<T>(s_.bins_w);
    p.bin_h = height / static_cast<T>(s_.bins_h);
    const double rows = s_.sampling > 0 ? static_cast<double>(s_.sampling) : std::ceil(static_cast<double>(p.bin_h));
    const double columns = s_.sampling > 0 ? static_cast<double>(s_.sampling) : std::ceil(static_cast<double>(p.bin_w));
    if (std::max(rows, 1.0) * std::max(columns, 1.0) > kMostPoints) {
      return absl::FailedPreconditionError(
          absl::StrCat(op_, ": a bin of box ", k, " has more than ", kMostPoints, " points"));
    }
    // The sum over a box without points is divided too.
    const double points = std::isnan(rows * columns) ? 0 : rows * columns;
    p.divisor = static_cast<T>(s_.of_bins ? points : std::max(points, 1.0));
    const bool some = rows > 0 && columns > 0;
    p.rows = some ? static_cast<int64_t>(rows) : 0;
    p.columns = some ? static_cast<int64_t>(columns) : 0;
    return p;
  }

  void RunBox(absl::Span<char* const> inputs, absl::Span<char* const> outputs, int64_t k) const {
    const Place p = *PlaceOf(inputs[1], k);
    const auto& strides = s_.image.strides;
    Point<T>* const ys = reinterpret_cast<Point<T>*>(Scratch::Get(
        ScratchUse::kLibrary, (s_.bins_h * p.rows + s_.bins_w * p.columns) * static_cast<int64_t>(sizeof(Point<T>))));
    Point<T>* const xs = ys + s_.bins_h * p.rows;
    for (int64_t bin = 0; bin < s_.bins_h; ++bin) {
      for (int64_t i = 0; i < p.rows; ++i) {
        const T at =
            p.y + static_cast<T>(bin) * p.bin_h + (static_cast<T>(i) + T(0.5)) * p.bin_h / static_cast<T>(p.rows);
        ys[bin * p.rows + i] = PointAt<T>(at, s_.image.sizes[2], strides[2]);
      }
    }
    for (int64_t bin = 0; bin < s_.bins_w; ++bin) {
      for (int64_t j = 0; j < p.columns; ++j) {
        const T at =
            p.x + static_cast<T>(bin) * p.bin_w + (static_cast<T>(j) + T(0.5)) * p.bin_w / static_cast<T>(p.columns);
        xs[bin * p.columns + j] = PointAt<T>(at, s_.image.sizes[3], strides[3]);
      }
    }
    const T* const image = reinterpret_cast<const T*>(inputs[0]) + p.image * strides[0];
    for (int64_t c = 0; c < s_.result.sizes[1]; ++c) {
      for (int64_t h = 0; h < s_.bins_h; ++h) {
        for (int64_t w = 0; w < s_.bins_w; ++w) {
          const int64_t channel = s_.of_bins ? (c * s_.bins_h + h) * s_.bins_w + w : c;
          const T sum = Sum(image + channel * strides[1], ys + h * p.rows, p.rows, xs + w * p.columns, p.columns);
          reinterpret_cast<T*>(outputs[0])[OffsetOf(s_.result, k, c, h, w)] = sum / p.divisor;
          if (s_.of_bins && outputs[1] != nullptr)
            reinterpret_cast<int32_t*>(outputs[1])[OffsetOf(s_.places, k, c, h, w)] = static_cast<int32_t>(channel);
        }
      }
    }
  }

  static int64_t OffsetOf(const OperandShape& o, int64_t k, int64_t c, int64_t h, int64_t w) {
    return k * o.strides[0] + c * o.strides[1] + h * o.strides[2] + w * o.strides[3];
  }

  T Sum(const T* plane, const Point<T>* ys, int64_t rows, const Point<T>* xs, int64_t columns) const {
    // roi_align multiplies the first element by 0 for a point off the image, which matters if it is no number.
    const T outside = s_.of_bins ? T(0) : T(0) * plane[0];
    T sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const Point<T> y = ys[i];
      const T *const top = plane + std::max<int64_t>(y.low, 0), *const bottom = plane + std::max<int64_t>(y.high, 0);
      for (int64_t j = 0; j < columns; ++j) {
        const Point<T> x = xs[j];
        if (y.low < 0 || x.low < 0) {
          sum += outside;
        } else {
          sum += y.to_low * x.to_low * top[x.low] + y.to_low * x.to_high * top[x.high] +
                 y.to_high * x.to_low * bottom[x.low] + y.to_high * x.to_high * bottom[x.high];
        }
      }
    }
    return sum;
  }

  const std::string op_;
  const RegionShape s_;
};

// The largest element of each bin, and its place in the plane; -1 for none.
template <typename T>
class PoolOp : public PreparedOp {
 public:
  PoolOp(const LibraryRequest& r, RegionShape s) : op_(r.op), s_(std::move(s)) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const int64_t rois = s_.rois.sizes[0];
    for (int64_t k = 0; k < rois; ++k) {
      T box[5];
      SMELT_RETURN_IF_ERROR(s_.Image<T>(op_, k, s_.Box<T>(inputs[1], k, box)[0]).status());
    }
    if (s_.result.NumElements() == 0) return absl::OkStatus();
    context.For(rois, [&](int64_t k) { RunBox(inputs, outputs, k); });
    return absl::OkStatus();
  }

 private:
  struct Bin {
    int64_t begin, end;
  };
  static Bin BinOf(int64_t bin, T size, int64_t from, int64_t limit) {
    const int64_t begin = static_cast<int64_t>(std::floor(static_cast<T>(bin) * size)) + from;
    const int64_t end = static_cast<int64_t>(std::ceil(static_cast<T>(bin + 1) * size)) + from;
    return {std::clamp<int64_t>(begin, 0, limit), std::clamp<int64_t>(end, 0, limit)};
  }

  void RunBox(absl::Span<char* const> inputs, absl::Span<char* const> outputs, int64_t k) const {
    T box[5];
    s_.Box<T>(inputs[1], k, box);
    const auto edge = [&](int i) -> int64_t {
      const T v = std::round(box[i] * static_cast<T>(s_.scale));
      return std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp<T>(v, -(1 << 30), 1 << 30));
    };
    const int64_t x = edge(1), y = edge(2), width = std::max<int64_t>(edge(3) - x + 1, 1),
                  height = std::max<int64_t>(edge(4) - y + 1, 1);
    const T bin_w = static_cast<T>(width) / static_cast<T>(s_.bins_w),
            bin_h = static_cast<T>(height) / static_cast<T>(s_.bins_h);
    const auto& strides = s_.image.strides;
    const T* const image = reinterpret_cast<const T*>(inputs[0]) + static_cast<int64_t>(box[0]) * strides[0];
    for (int64_t c = 0; c < s_.result.sizes[1]; ++c) {
      for (int64_t h = 0; h < s_.bins_h; ++h) {
        const Bin rows = BinOf(h, bin_h, y, s_.image.sizes[2]);
        for (int64_t w = 0; w < s_.bins_w; ++w) {
          const Bin columns = BinOf(w, bin_w, x, s_.image.sizes[3]);
          const bool empty = rows.end <= rows.begin || columns.end <= columns.begin;
          T best = empty ? T(0) : static_cast<T>(-FLT_MAX);
          int64_t place = -1;
          for (int64_t i = rows.begin; i < rows.end; ++i) {
            const T* const row = image + c * strides[1] + i * strides[2];
            for (int64_t j = columns.begin; j < columns.end; ++j) {
              if (!(row[j * strides[3]] > best)) continue;
              best = row[j * strides[3]];
              place = i * s_.image.sizes[3] + j;
            }
          }
          const auto offset = [&](const OperandShape& o) {
            return k * o.strides[0] + c * o.strides[1] + h * o.strides[2] + w * o.strides[3];
          };
          reinterpret_cast<T*>(outputs[0])[offset(s_.result)] = best;
          if (outputs[1] != nullptr)
            reinterpret_cast<int32_t*>(outputs[1])[offset(s_.places)] = static_cast<int32_t>(place);
        }
      }
    }
  }

  const std::string op_;
  const RegionShape s_;
};

// roi_align(input, rois; pooled_height, pooled_width, sampling_ratio, aligned), ps_roi_align without `aligned`, roi_pool
// without both; each with spatial_scale.
MakeResult MakeRegions(const LibraryRequest& r, PackedWeights*) {
  const bool pools = r.op == "roi_pool", of_bins = r.op == "ps_roi_align";
  const int results = pools || of_bins ? 2 : 1;
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 2, 1, results, pools ? 2 : of_bins ? 3 : 4));
  SMELT_RETURN_IF_ERROR(CheckFloats(r));
  RegionShape s = {.image = r.inputs[0], .rois = r.inputs[1], .result = r.outputs[0]};
  if (r.outputs.size() > 1) s.places = r.outputs[1];
  if (r.floats.size() != 1 || s.image.rank() != 4 || s.rois.rank() != 2 || s.rois.sizes[1] != 5 ||
      s.rois.dtype != s.image.dtype || s.result.dtype != s.image.dtype ||
      r.outputs.size() != static_cast<size_t>(results))
    return DoNotFit(r);
  s.bins_h = r.ints[0];
  s.bins_w = r.ints[1];
  s.scale = r.floats[0];
  s.of_bins = of_bins;
  if (!pools) s.sampling = r.ints[2];
  s.shifted = of_bins || (!pools && r.ints[3] != 0);
  s.is_plain = !s.shifted;
  int64_t channels = s.image.sizes[1];
  constexpr int64_t kMost = 1 << 20;
  if (s.bins_h < 1 || s.bins_w < 1 || s.bins_h > kMost || s.bins_w > kMost || s.sampling > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat(r.op, ": ", s.bins_h, " by ", s.bins_w, " bins with a sampling ratio of ", s.sampling));
  }
  if (of_bins) {
    if (channels % (s.bins_h * s.bins_w) != 0) return DoNotFit(r);
    channels /= s.bins_h * s.bins_w;
  }
  if (s.result.sizes != std::vector<int64_t>{s.rois.sizes[0], channels, s.bins_h, s.bins_w} ||
      (s.places.present && (s.places.sizes != s.result.sizes || s.places.dtype != DType::kInt32)))
    return DoNotFit(r);
  return pools ? MakeOf<PoolOp>(s.image.dtype, r, s) : MakeOf<AlignOp>(s.image.dtype, r, s);
}

// --- deformed_columns ---

struct DeformedShape {
  int64_t images, channels, height, width, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
      groups, rows, columns;
  bool use_mask;

  int64_t taps() const { return kernel_h * kernel_w; }
  int64_t positions() const { return rows * columns; }
};

// Where a tap meets an image, for each position: a place in a plane with a border of zeros, and the weights of the four
// elements there.
template <typename T>
struct Meeting {
  int32_t* place;
  T* weights[4];
};

template <typename T>
SMELT_INLINE void Interpolate(const T* plane, int64_t step, const Meeting<T>& m, int64_t n, T* out) {
  const int32_t* const place = m.place;
  const T *const w0 = m.weights[0], *const w1 = m.weights[1], *const w2 = m.weights[2], *const w3 = m.weights[3];
  for (int64_t i = 0; i < n; ++i) {
    const T* const p = plane + place[i];
    out[i] = w0[i] * p[0] + w1[i] * p[1] + w2[i] * p[step] + w3[i] * p[step + 1];
  }
}

// (input [n, c, h, w], offset [n, 2 * groups * taps, rows, columns], mask?) -> [c * taps, n, rows * columns].
template <typename T>
class DeformedColumns : public PreparedOp {
 public:
  DeformedColumns(const LibraryRequest& r, DeformedShape s) : r_(r), s_(s) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (r_.outputs[0].NumElements() == 0) return absl::OkStatus();
    const int64_t per_group = s_.channels / s_.groups, positions = s_.positions(), all = s_.taps() * positions;
    // The planes that meet one group's taps in one image share the places.
    const int64_t place_bytes = (all * 4 + 63) / 64 * 64, weight_bytes = all * static_cast<int64_t>(sizeof(T));
    char* const tables = Scratch::Get(ScratchUse::kWeights, place_bytes + 4 * weight_bytes);
    const auto meeting = [&](int64_t tap) {
      Meeting<T> m;
      m.place = reinterpret_cast<int32_t*>(tables) + tap * positions;
      for (int k = 0; k < 4; ++k)
        m.weights[k] = reinterpret_cast<T*>(tables + place_bytes + k * weight_bytes) + tap * positions;
      return m;
    };
    const int64_t step = s_.width + 2;
    for (int64_t n = 0; n < s_.images; ++n) {
      for (int64_t g = 0; g < s_.groups; ++g) {
        context.For(s_.taps(), [&](int64_t tap) { Meet(inputs, n, g, tap, meeting(tap)); });
        context.For(per_group, [&](int64_t k) {
          const int64_t channel = g * per_group + k;
          const T* const plane = Bordered(inputs[0], n, channel);
          T* const out = reinterpret_cast<T*>(outputs[0]) + (channel * s_.taps() * s_.images + n) * positions;
          for (int64_t tap = 0; tap < s_.taps(); ++tap) {
            const Meeting<T> m = meeting(tap);
            T* const to = out + tap * s_.images * positions;
            AtBestLevel([&]() SMELT_ALWAYS_INLINE { Interpolate<T>(plane, step, m, positions, to); });
          }
        });
      }
    }
    return absl::OkStatus();
  }

 private:
  static T At(const OperandShape& o, const char* data, int64_t n, int64_t c, int64_t h, int64_t w) {
    return reinterpret_cast<const T*>(data)[n * o.strides[0] + c * o.strides[1] + h * o.strides[2] + w * o.strides[3]];
  }

  void Meet(absl::Span<char* const> inputs, int64_t n, int64_t g, int64_t tap, const Meeting<T>& m) const {
    const int64_t channel = g * s_.taps() + tap, i = tap / s_.kernel_w, j = tap % s_.kernel_w;
    const T height = static_cast<T>(s_.height), width = static_cast<T>(s_.width);
    int64_t at = 0;
    for (int64_t row = 0; row < s_.rows; ++row) {
      for (int64_t column = 0; column < s_.columns; ++column, ++at) {
        const T h = static_cast<T>(row * s_.stride_h - s_.pad_h + i * s_.dilation_h) +
                    At(r_.inputs[1], inputs[1], n, 2 * channel, row, column);
        const T w = static_cast<T>(column * s_.stride_w - s_.pad_w + j * s_.dilation_w) +
                    At(r_.inputs[1], inputs[1], n, 2 * channel + 1, row, column);
        const T mask = s_.use_mask ? At(r_.inputs[2], inputs[2], n, channel, row, column) : T(1);
        if (!(h > -1 && h < height && w > -1 && w < width)) {
          m.place[at] = static_cast<int32_t>((s_.height + 1) * (s_.width + 2));  // zeros only
          for (T* weights : m.weights) weights[at] = mask;
          continue;
        }
        const T top = std::floor(h), left = std::floor(w), down = h - top, across = w - left;
        m.place[at] =
            static_cast<int32_t>((static_cast<int64_t>(top) + 1) * (s_.width + 2)) + static_cast<int32_t>(left) + 1;
        m.weights[0][at] = mask * ((1 - down) * (1 - across));
        m.weights[1][at] = mask * ((1 - down) * across);
        m.weights[2][at] = mask * (down * (1 - across));
        m.weights[3][at] = mask * (down * across);
      }
    }
  }

  // Returns a copy of a channel of an image, with a border of zeros one element wide, and two at the bottom.
  const T* Bordered(const char* image, int64_t n, int64_t channel) const {
    const int64_t step = s_.width + 2, size = step * (s_.height + 3);
    T* const plane = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kSource, size * static_cast<int64_t>(sizeof(T))));
    std::memset(plane, 0, static_cast<size_t>(size) * sizeof(T));
    for (int64_t h = 0; h < s_.height; ++h) {
      for (int64_t w = 0; w < s_.width; ++w) plane[(h + 1) * step + w + 1] = At(r_.inputs[0], image, n, channel, h, w);
    }
    return plane;
  }

  const LibraryRequest r_;
  const DeformedShape s_;
};

MakeResult MakeDeformedColumns(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 3, 1, 1, 10));
  SMELT_RETURN_IF_ERROR(CheckFloats(r));
  const OperandShape &image = r.inputs[0], &offset = r.inputs[1], &out = r.outputs[0];
  constexpr int64_t kMost = 1 << 24;
  for (int64_t v : r.ints) {
    if (v < 0 || v > kMost) return absl::InvalidArgumentError(absl::StrCat(r.op, ": the number ", v));
  }
  if (image.rank() != 4 || offset.rank() != 4 || offset.dtype != image.dtype || out.dtype != image.dtype)
    return DoNotFit(r);
  const DeformedShape s = {image.sizes[0], image.sizes[1],  image.sizes[2],  image.sizes[3], r.ints[0], r.ints[1],
                           r.ints[2],      r.ints[3],       r.ints[4],       r.ints[5],      r.ints[6], r.ints[7],
                           r.ints[8],      offset.sizes[2], offset.sizes[3], r.ints[9] != 0};
  if (s.kernel_h < 1 || s.kernel_w < 1 || s.stride_h < 1 || s.stride_w < 1 || s.groups < 1 ||
      s.kernel_h > kMost / s.kernel_w)
    return DoNotFit(r);
  const auto places = [](int64_t size, int64_t kernel, int64_t pad, int64_t dilation, int64_t stride) {
    const int64_t free = size + 2 * pad - dilation * (kernel - 1) - 1;
    return free < 0 ? 0 : free / stride + 1;
  };
  if (s.channels % s.groups != 0 || s.rows != places(s.height, s.kernel_h, s.pad_h, s.dilation_h, s.stride_h) ||
      s.columns != places(s.width, s.kernel_w, s.pad_w, s.dilation_w, s.stride_w)) {
    return absl::InvalidArgumentError(absl::StrCat(r.op, ": offsets for ", s.rows, " by ", s.columns,
                                                   " positions, which are not those of the output"));
  }
  const std::vector<int64_t> moved = {s.images, 2 * s.groups * s.taps(), s.rows, s.columns},
                             weights = {s.images, s.groups * s.taps(), s.rows, s.columns},
                             columns = {s.channels * s.taps(), s.images, s.positions()};
  if (offset.sizes != moved || out.sizes != columns || !out.IsDense() ||
      (s.use_mask && (r.inputs.size() < 3 || r.inputs[2].sizes != weights || r.inputs[2].dtype != image.dtype)) ||
      (s.width + 2) * (s.height + 3) > std::numeric_limits<int32_t>::max())
    return DoNotFit(r);
  return MakeOf<DeformedColumns>(image.dtype, r, s);
}

}  // namespace

absl::Span<const LibraryEntry> DetectionOps() {
  static constexpr LibraryEntry kOps[] = {
      {"nms_order", MakeNmsOrder},
      {"roi_align", MakeRegions},
      {"roi_pool", MakeRegions},
      {"ps_roi_align", MakeRegions},
      {"deformed_columns", MakeDeformedColumns},
  };
  return kOps;
}

}  // namespace smelt::library_internal
