#include "smelt/runtime/library/convolution_cost.h"

#include <algorithm>
#include <cmath>

#include "smelt/runtime/library/convolution_rows.h"
#include "smelt/runtime/library/cpu_targets.h"
#include "smelt/runtime/library/gemv.h"

namespace smelt::library_internal {
namespace {

// oneDNN's code for groups of a few channels takes as long as if there were this many more.
constexpr double kMoreChannels = 7;

double Pieces(double n, double size) { return std::ceil(n / size); }

// An image, its result and the weight, by what the estimates ask.
struct Shape {
  Shape(const LibraryRequest& r, const ConvParams& p) {
    const OperandShape &in = r.inputs[0], &w = r.inputs[1], &out = r.outputs[0];
    item = ItemSize(out.dtype);
    lanes = (LibraryLevel() == 4 ? 64 : LibraryLevel() == 3 ? 32 : 16) / std::max(item, 4.0);
    groups = static_cast<double>(p.groups);
    in_per_group = static_cast<double>(in.sizes[1]) / groups;
    out_per_group = static_cast<double>(out.sizes[1]) / groups;
    bool unit = !p.transposed;
    for (int d = 0; d < p.spatial; ++d) {
      taps *= static_cast<double>(w.sizes[2 + d]);
      places *= static_cast<double>(out.sizes[2 + d]);
      in_places *= static_cast<double>(in.sizes[2 + d]);
      unit = unit && w.sizes[2 + d] == 1 && p.stride[d] == 1 && p.padding[d] == 0;
    }
    width = static_cast<double>(out.sizes.back());
    unit_step = p.stride.back() == 1;
    transposed = p.transposed;
    in_last = in.strides[1] == 1 && in.sizes[1] > 1;
    out_last = out.strides[1] == 1 && out.sizes[1] > 1;
    in_place = unit && IsPlane(in);
    is_float64 = out.dtype == DType::kFloat64;
    packed_bytes = w.constant != nullptr ? 0 : static_cast<double>(w.NumElements()) * item;
  }

  double rows() const { return places / width; }
  double in_bytes() const { return in_places * groups * in_per_group * item; }
  double out_bytes() const { return places * groups * out_per_group * item; }
  // A weight is multiplied once for each place; a transposed convolution reads each place of the input as often.
  double multiplications() const {
    return (transposed ? in_places : places) * taps * groups * in_per_group * out_per_group;
  }

  double lanes, item, taps = 1, places = 1, in_places = 1, width, groups, in_per_group, out_per_group;
  bool unit_step, transposed, in_last, out_last;
  bool in_place;  // the places of a channel are the row of a matrix
  bool is_float64;
  double packed_bytes;  // of the weight, at each call
};

// The work of one way for an image: products of vectors, bytes that it copies line by line and element by element, and steps
// that each prepare something.
struct Counts {
  double vectors = 0, bytes = 0, scattered = 0, steps = 0;
};

// The forms that the ways take, and the nanoseconds of what they do: those with which the estimates are nearest to the
// times of bench/convolutions on one core with AVX-512. A vector of 64 bytes takes half a cycle at best.
enum Form {
  kRows,
  kSumsOfRows,
  kSumsOfElements,
  kSumsOfChannels,
  kBlocks,
  kSeparate,
  kNarrow,
  kByRows,
  kByColumns,
  kLoop
};
constexpr Counts kNanoseconds[] = {
    {.143, .0053, 0, 80},      // kRows: some channels of the result in each pass over the image
    {.49, 0, .090, 23},        // kSumsOfRows
    {.19, 0, 0, 23},           // kSumsOfElements: the elements of a vector are loaded one by one
    {.64, 0, 0, 9.6},          // kSumsOfChannels
    {.125, .025, 0, 930},      // kBlocks: oneDNN's vectors of channels
    {.28, .045, 0, 930},       // kSeparate: the same of separate channels
    {.078, .025, 0, 930},      // kNarrow: the same of groups that do not fill a vector
    {.123, .037, 0, 1400},     // kByRows: a product whose rows are places
    {.162, .022, .118, 1400},  // kByColumns: a product whose columns are places
    {0, 0, 0, 1.5},            // kLoop
};
double Price(Form form, const Counts& c) {
  const Counts& each = kNanoseconds[form];
  return c.vectors * each.vectors + c.bytes * each.bytes + c.scattered * each.scattered + c.steps * each.steps;
}

double EstimateRows(const Shape& s) {
  const double channels = s.groups * s.out_per_group;
  return Price(kRows, {.vectors = Pieces(s.places, s.lanes) * channels * s.in_per_group,
                       .bytes = s.in_bytes() + 5 * s.out_bytes(),  // stores take longer
                       .steps = Pieces(s.places, kGemvColumns) * Pieces(channels, kGemvRows)});
}

double EstimateSums(const Shape& s) {
  if (s.in_last && s.in_per_group == 1 && s.out_per_group == 1) {
    return Price(kSumsOfChannels,
                 {.vectors = s.places * Pieces(s.groups, s.lanes) * s.taps, .steps = s.places * (2 + s.taps / 4)});
  }
  const double channels = s.groups * s.out_per_group;
  const double vectors = s.rows() * Pieces(s.width, s.lanes) * channels * s.taps * s.in_per_group;
  if (!s.unit_step) return Price(kSumsOfElements, {.vectors = vectors * s.lanes, .steps = s.rows() * channels});
  return Price(kSumsOfRows,
               {.vectors = vectors, .scattered = s.in_last ? s.in_bytes() : 0, .steps = s.rows() * channels});
}

// Vectors are of channels: of the result, or of separate channels. Groups that do not fill a vector have slower code.
double EstimateOnednn(const Shape& s) {
  const double places = s.transposed ? s.in_places : s.places;
  Counts c;
  c.bytes = 2 * s.packed_bytes + (s.in_last ? 0 : s.in_bytes()) + (s.out_last ? 0 : s.out_bytes());
  c.steps = 1;
  c.vectors = places * Pieces(s.groups, s.lanes) * s.taps;
  if (s.in_per_group == 1 && s.out_per_group == 1) return Price(kSeparate, c);
  const bool narrow = s.groups > 1 && std::fmod(s.out_per_group, s.lanes) != 0;
  const double channels = s.in_per_group + (narrow ? kMoreChannels : 0);
  c.vectors = places * s.groups * Pieces(s.out_per_group, s.lanes) * channels * s.taps;
  return Price(narrow ? kNarrow : kBlocks, c);
}

double EstimateProducts(const Shape& s) {
  const double depth = s.taps * s.in_per_group, matrix = s.groups * depth * s.places * s.item;
  Counts c;
  c.bytes = 4 * s.packed_bytes;
  c.steps = s.groups * Pieces(s.places, kMostPlaces);
  if (!s.is_float64 && s.in_last && s.out_last && s.out_per_group > 1) {
    c.vectors = s.groups * s.places * Pieces(s.out_per_group, s.lanes) * depth;
    c.bytes += matrix + s.out_bytes() / 2;
    return Price(kByRows, c);
  }
  c.vectors = s.groups * s.out_per_group * Pieces(s.places, s.lanes) * depth;
  // All that the taps read becomes a matrix, of which panels are copied in turn. The places of a result whose channels are
  // adjacent are apart.
  if (s.in_last || !s.unit_step) {
    c.scattered = matrix;
  } else {
    c.bytes += (s.in_place ? 1 : 2) * matrix;
  }
  if (s.out_last) c.bytes += 4 * s.out_bytes();
  return Price(kByColumns, c);
}

}  // namespace

double EstimateNanoseconds(ConvolutionWay way, const LibraryRequest& r, const ConvParams& p) {
  const Shape s(r, p);
  switch (way) {
    case ConvolutionWay::kRows:
      return EstimateRows(s);
    case ConvolutionWay::kSums:
      return EstimateSums(s);
    case ConvolutionWay::kOnednn:
      return EstimateOnednn(s);
    case ConvolutionWay::kProducts:
      return EstimateProducts(s);
    case ConvolutionWay::kLoops:
      return Price(kLoop, {.steps = s.multiplications()});
  }
  return 0;
}

double EstimateCopies(const LibraryRequest& from, const LibraryRequest& to) {
  constexpr double kElement = 3;
  double elements = 0;
  const auto add = [&](const std::vector<OperandShape>& a, const std::vector<OperandShape>& b, bool images) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!a[i].present || a[i] == b[i]) continue;
      elements += static_cast<double>(a[i].NumElements()) /
                  static_cast<double>(images && i == 0 ? std::max<int64_t>(a[i].sizes[0], 1) : 1);
    }
  };
  add(from.inputs, to.inputs, true);
  add(from.outputs, to.outputs, true);
  return elements * kElement;
}

}  // namespace smelt::library_internal
