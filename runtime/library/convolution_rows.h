// The matrix of a convolution that runs as matrix products: some places of the result at a time, and what each tap reads
// for them.
//
//   Place places[kMostPlaces];
//   ListPlaces(out, first, absl::MakeSpan(places, count));
//   GatherRows(p, in, weight, channels, image, absl::MakeConstSpan(places, count), rows);
#ifndef SMELT_RUNTIME_LIBRARY_CONVOLUTION_ROWS_H_
#define SMELT_RUNTIME_LIBRARY_CONVOLUTION_ROWS_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "smelt/runtime/library/convolution.h"

namespace smelt::library_internal {

inline constexpr int64_t kMostPlaces = 256;  // at a time
using Place = std::array<int64_t, 3>;

// Writes places of `out` in their order, from number `first` on.
inline void ListPlaces(const OperandShape& out, int64_t first, absl::Span<Place> places) {
  const int spatial = out.rank() - 2;
  Place o = {};
  for (int d = spatial - 1; d >= 0; --d) o[d] = first % out.sizes[2 + d], first /= out.sizes[2 + d];
  for (Place& place : places) {
    place = o;
    NextPlace(spatial, &out.sizes[2], o.data());
  }
}

// Writes for each tap of `weight` and each of `channels` channels, from the first at `source` on, a row: what the places
// read, 0 outside of `in`. There are at most kMostPlaces places.
template <typename T>
__attribute__((noinline)) void GatherRows(const ConvParams& p, const OperandShape& in, const OperandShape& weight,
                                          int64_t channels, const T* source, absl::Span<const Place> places, T* to) {
  // Some places in order that read elements at equal distances, or nothing.
  struct Stretch {
    int64_t count, from, step;  // `from` is -1 if they read nothing
  };
  Stretch stretches[kMostPlaces];
  int64_t taps = 1;
  for (int d = 0; d < p.spatial; ++d) taps *= weight.sizes[2 + d];
  Place k = {};
  for (int64_t tap = 0; tap < taps; ++tap, NextPlace(p.spatial, &weight.sizes[2], k.data())) {
    int64_t stretch = -1;
    for (const Place& place : places) {
      const int64_t from = SourceOf(p, in, place.data(), k.data());
      Stretch* last = stretch < 0 ? nullptr : &stretches[stretch];
      if (last != nullptr && (from < 0) == (last->from < 0)) {
        if (last->count == 1 && from >= 0) last->step = from - last->from;
        if (from < 0 || from == last->from + last->count * last->step) {
          ++last->count;
          continue;
        }
      }
      stretches[++stretch] = {1, from, 0};
    }
    for (int64_t c = 0; c < channels; ++c) {
      const T* channel = source + c * in.strides[1];
      for (const Stretch* s = stretches; s <= stretches + stretch; ++s) {
        if (s->from < 0) {
          std::fill(to, to + s->count, T(0));
        } else if (s->step == 1) {
          std::copy(channel + s->from, channel + s->from + s->count, to);
        } else {
          for (int64_t i = 0; i < s->count; ++i) to[i] = channel[s->from + i * s->step];
        }
        to += s->count;
      }
    }
  }
}

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_CONVOLUTION_ROWS_H_
