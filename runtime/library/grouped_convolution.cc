#include "smelt/runtime/library/grouped_convolution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

constexpr int64_t kChannelBlock = 16;  // channels of one piece of work
constexpr int64_t kBandRows = 32;      // rows of one piece of work

// Lines of fewer results, on any machine of an architecture, are summed one by one.
#if defined(__aarch64__)
constexpr int kShortestBytes = 16;
#else
constexpr int kShortestBytes = 32;
#endif
template <typename T>
constexpr int kShortest = kShortestBytes / static_cast<int>(sizeof(T));

// The term of one tap: input elements from `at` on, times weights from `weight` on.
struct Term {
  int64_t at, weight;
};

// A line of results: to[i * to_step] = bias[i * bias_step] + the sum over the terms of
// in[at + i * in_step] * weights[weight + i * weight_step].
template <typename T>
struct Line {
  const T* in;
  const T* weights;
  const T* bias;  // null: none
  T* to;
  const Term* terms;
  int64_t num_terms, count, in_step, weight_step, bias_step, to_step;
};

// Sums `kCount` vectors of results, one after the other from result i on, the last of them from result `last` on. An
// addition waits for the one before it, not for those of its neighbours.
template <typename S, typename T, bool kUnitIn, bool kUnitWeight, int kCount>
SMELT_INLINE void RunVectors(const Line<T>& l, int64_t i, int64_t last) {
  using Lanes = typename S::Type;
  using Unaligned = typename S::Unaligned;
  constexpr int kLanes = S::kLanes;
  const auto at = [&](int v) { return v == kCount - 1 ? last : i + v * kLanes; };
  Lanes sums[kCount] = {};
  for (const Term* t = l.terms; t != l.terms + l.num_terms; ++t) {
    for (int v = 0; v < kCount; ++v) {
      const T* x = l.in + t->at + at(v) * l.in_step;
      Lanes a, w;
      if constexpr (kUnitIn) {
        a = *reinterpret_cast<const Unaligned*>(x);
      } else {
        for (int k = 0; k < kLanes; ++k) a[k] = x[k * l.in_step];
      }
      if constexpr (kUnitWeight) {
        w = *reinterpret_cast<const Unaligned*>(l.weights + t->weight + at(v));
      } else {
        w = l.weights[t->weight] - Lanes{};
      }
      sums[v] += a * w;
    }
  }
  for (int v = 0; v < kCount; ++v) {
    for (int k = 0; l.bias != nullptr && k < kLanes; ++k) sums[v][k] += l.bias[(at(v) + k) * l.bias_step];
    if (l.to_step == 1) {
      *reinterpret_cast<Unaligned*>(l.to + at(v)) = sums[v];
      continue;
    }
    for (int k = 0; k < kLanes; ++k) l.to[(at(v) + k) * l.to_step] = sums[v][k];
  }
}

template <typename S, typename T, bool kUnitIn, bool kUnitWeight>
SMELT_INLINE void RunLine(const Line<T>& l) {
  constexpr int kStep = S::kLanes;
  int64_t i = 0;
  if (l.count < std::max(kStep, kShortest<T>)) {
    for (; i < l.count; ++i) {
      T sum = 0;
      for (const Term* t = l.terms; t != l.terms + l.num_terms; ++t) {
        sum += l.in[t->at + i * l.in_step] * l.weights[t->weight + i * l.weight_step];
      }
      l.to[i * l.to_step] = sum + (l.bias == nullptr ? 0 : l.bias[i * l.bias_step]);
    }
    return;
  }
  if constexpr (kUnitIn) {
    for (; i + 8 * kStep <= l.count; i += 8 * kStep) RunVectors<S, T, kUnitIn, kUnitWeight, 8>(l, i, i + 7 * kStep);
    for (; i + 4 * kStep <= l.count; i += 4 * kStep) RunVectors<S, T, kUnitIn, kUnitWeight, 4>(l, i, i + 3 * kStep);
  }
  // The last vector overlaps the one before.
  const int64_t last = l.count - kStep;
  if constexpr (kUnitIn) {
    if (i + 3 * kStep < l.count) return RunVectors<S, T, kUnitIn, kUnitWeight, 4>(l, i, last);
    if (i + 2 * kStep < l.count) return RunVectors<S, T, kUnitIn, kUnitWeight, 3>(l, i, last);
    if (i + kStep < l.count) return RunVectors<S, T, kUnitIn, kUnitWeight, 2>(l, i, last);
  }
  for (; i < l.count; i += kStep) RunVectors<S, T, kUnitIn, kUnitWeight, 1>(l, i, std::min(i, last));
}

template <typename S, typename T>
SMELT_INLINE void RunAnyLine(const Line<T>& l) {
  if (l.weight_step == 0) {
    l.in_step == 1 ? RunLine<S, T, true, false>(l) : RunLine<S, T, false, false>(l);
  } else {
    RunLine<S, T, true, true>(l);  // along channels
  }
}
template <typename T>
void RunAtBest(const Line<T>& l) {
  AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
    if constexpr (bytes > 32) {
      if (l.count < Vector<T, bytes>::kLanes) return RunAnyLine<Vector<T, 32>>(l);
    }
    RunAnyLine<Vector<T, bytes>>(l);
  });
}

template <typename T>
class GroupedConvolution : public PreparedOp {
 public:
  GroupedConvolution(const LibraryRequest& r, ConvParams p)
      : p_(std::move(p)), in_(r.inputs[0]), w_(r.inputs[1]), out_(r.outputs[0]) {
    if (r.inputs.size() > 2) bias_ = r.inputs[2];
    last_ = p_.spatial - 1;
    for (int d = 0; d < p_.spatial; ++d) taps_ *= w_.sizes[2 + d];
    for (int d = 0; d < last_; ++d) rows_ *= out_.sizes[2 + d];
    out_per_group_ = out_.sizes[1] / p_.groups;
    in_per_group_ = in_.sizes[1] / p_.groups;
    channel_blocks_ = (out_.sizes[1] + kChannelBlock - 1) / kChannelBlock;
    bands_ = p_.spatial == 2 ? (rows_ + kBandRows - 1) / kBandRows : 1;
    along_rows_ = p_.stride[last_] == 1;
    along_channels_ = in_per_group_ == 1 && out_per_group_ == 1 && in_.strides[1] == 1 && out_.sizes[1] >= kShortest<T>;
    if (along_rows_ && w_.constant != nullptr) constant_is_finite_ = AreFinite(reinterpret_cast<const T*>(w_.constant));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const auto* in = reinterpret_cast<const T*>(inputs[0]);
    const auto* weights = reinterpret_cast<const T*>(inputs[1]);
    const auto* bias = bias_.present ? reinterpret_cast<const T*>(inputs[2]) : nullptr;
    auto* out = reinterpret_cast<T*>(outputs[0]);
    if (along_channels_) {
      // All threads read this thread's scratch.
      auto* packed = reinterpret_cast<T*>(
          Scratch::Get(ScratchUse::kWeights, taps_ * out_.sizes[1] * static_cast<int64_t>(sizeof(T))));
      PackByTap(weights, packed);
      context.For(out_.sizes[0] * rows_, [&](int64_t i) { ChannelsOfRow(in, packed, bias, out, i); });
    } else if (along_rows_ && (w_.constant != nullptr ? constant_is_finite_ : AreFinite(weights))) {
      context.For(out_.sizes[0] * p_.groups * bands_, [&](int64_t i) { BandOfGroup(in, weights, bias, out, i); });
    } else {
      context.For(out_.sizes[0] * channel_blocks_, [&](int64_t i) { RowsOfChannels(in, weights, bias, out, i); });
    }
    return absl::OkStatus();
  }

 private:
  using Place = std::array<int64_t, 3>;

  // [tap][channel]
  void PackByTap(const T* w, T* packed) const {
    const int64_t channels = out_.sizes[1];
    Place k = {};
    for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
      const T* from = w + WeightAt(k);
      for (int64_t c = 0; c < channels; ++c) packed[tap * channels + c] = from[c * w_.strides[0]];
    }
  }

  // Room for all terms of a result.
  Term* Terms() const {
    return reinterpret_cast<Term*>(
        Scratch::Get(ScratchUse::kSource, taps_ * in_per_group_ * static_cast<int64_t>(sizeof(Term))));
  }

  int64_t WeightAt(const Place& k) const {
    int64_t at = 0;
    for (int d = 0; d < p_.spatial; ++d) at += k[d] * w_.strides[2 + d];
    return at;
  }
  int64_t ResultAt(const Place& o) const {
    int64_t at = 0;
    for (int d = 0; d < p_.spatial; ++d) at += o[d] * out_.strides[2 + d];
    return at;
  }
  // The first place of a row.
  Place PlaceOfRow(int64_t row) const {
    Place o = {};
    for (int d = last_ - 1; d >= 0; --d) o[d] = row % out_.sizes[2 + d], row /= out_.sizes[2 + d];
    return o;
  }

  void ChannelsOfRow(const T* in, const T* packed, const T* bias, T* out, int64_t i) const {
    Place o = PlaceOfRow(i % rows_);
    const int64_t n = i / rows_, channels = out_.sizes[1];
    Term* const terms = Terms();
    for (o[last_] = 0; o[last_] < out_.sizes[2 + last_]; ++o[last_]) {
      int64_t count = 0;
      Place k = {};
      for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
        const int64_t at = SourceOf(p_, in_, o.data(), k.data());
        if (at >= 0) terms[count++] = {at, tap * channels};
      }
      RunAtBest<T>({in + n * in_.strides[0], packed, bias, out + n * out_.strides[0] + ResultAt(o), terms, count,
                    channels, 1, 1, bias_.present ? bias_.strides[0] : 0, out_.strides[1]});
    }
  }

  // Returns whether zeros beside a row can be multiplied like the elements in it.
  bool AreFinite(const T* weights) const {
    for (int64_t oc = 0; oc < out_.sizes[1]; ++oc) {
      for (int64_t ic = 0; ic < in_per_group_; ++ic) {
        Place k = {};
        for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
          if (!std::isfinite(weights[oc * w_.strides[0] + ic * w_.strides[1] + WeightAt(k)])) return false;
        }
      }
    }
    return true;
  }

  // Computes some rows of the channels of one group of an image.
  void BandOfGroup(const T* in, const T* weights, const T* bias, T* out, int64_t i) const {
    const int64_t band = i % bands_, group = i / bands_ % p_.groups, n = i / bands_ / p_.groups;
    const int64_t first = band * kBandRows, end = bands_ == 1 ? rows_ : std::min(rows_, first + kBandRows);
    const Rows source = RowsOf(in + n * in_.strides[0] + group * in_per_group_ * in_.strides[1], first, end);
    // The terms of a row whose taps are all inside of the image, and those of another row.
    const int64_t most = taps_ * in_per_group_;
    Term* const all =
        reinterpret_cast<Term*>(Scratch::Get(ScratchUse::kSource, 2 * most * static_cast<int64_t>(sizeof(Term))));
    Term* const some = all + most;
    WriteTerms(source, all);
    for (int64_t row = first; row < end; ++row) {
      const Place o = PlaceOfRow(row);
      int64_t origin = 0;
      bool whole = true;
      for (int d = 0; d < last_; ++d) {
        const int64_t from = o[d] * p_.stride[d] - p_.padding[d];
        origin += (from - (d == 0 ? source.first : 0)) * source.strides[d];
        whole = whole && from >= 0 && from + (w_.sizes[2 + d] - 1) * p_.dilation[d] < in_.sizes[2 + d];
      }
      const int64_t num_terms = whole ? most : SelectTerms(o, all, some);
      for (int64_t oc = group * out_per_group_; oc < (group + 1) * out_per_group_; ++oc) {
        RunAtBest<T>({source.data + origin, weights + oc * w_.strides[0],
                      bias == nullptr ? nullptr : bias + oc * bias_.strides[0],
                      out + n * out_.strides[0] + oc * out_.strides[1] + ResultAt(o), whole ? all : some, num_terms,
                      out_.sizes[2 + last_], 1, 0, 0, out_.strides[2 + last_]});
      }
    }
  }

  // Rows of the channels of a group with adjacent elements, such that every tap along the last dim is inside.
  struct Rows {
    const T* data;
    int64_t first;  // the first of them in the outermost dim
    int64_t channel;
    std::array<int64_t, 2> strides;  // of the dims but the last
  };

  // Writes all terms of a result, counted from the element that its first tap reads.
  void WriteTerms(const Rows& source, Term* to) const {
    Place k = {};
    for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
      int64_t at = k[last_] * p_.dilation[last_];
      for (int d = 0; d < last_; ++d) at += k[d] * p_.dilation[d] * source.strides[d];
      for (int64_t ic = 0; ic < in_per_group_; ++ic)
        *to++ = {at + ic * source.channel, ic * w_.strides[1] + WeightAt(k)};
    }
  }

  // Selects those of `all` whose taps are rows of the image, for the row of result o. Returns their number.
  int64_t SelectTerms(const Place& o, const Term* all, Term* some) const {
    Term* to = some;
    Place k = {};
    for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data()), all += in_per_group_) {
      bool inside = true;
      for (int d = 0; d < last_; ++d) {
        const int64_t i = o[d] * p_.stride[d] - p_.padding[d] + k[d] * p_.dilation[d];
        inside = inside && i >= 0 && i < in_.sizes[2 + d];
      }
      if (inside) to = std::copy(all, all + in_per_group_, to);
    }
    return to - some;
  }

  // The part of `in` that the rows [first, end) of results read: `in` itself, or a copy with zeros at both ends of each
  // row.
  Rows RowsOf(const T* in, int64_t first, int64_t end) const {
    const int64_t width = in_.sizes[2 + last_], before = p_.padding[last_];
    const int64_t padded = out_.sizes[2 + last_] + (w_.sizes[2 + last_] - 1) * p_.dilation[last_];
    Rows rows = {in, 0, in_.strides[1], {}};
    for (int d = 0; d < last_; ++d) rows.strides[d] = in_.strides[2 + d];
    if (before == 0 && padded <= width && in_.strides[2 + last_] == 1) return rows;
    int64_t outer = last_ > 0 ? in_.sizes[2] : 1, inner = last_ > 1 ? in_.sizes[3] : 1;
    if (bands_ > 1) {
      const int64_t reach = (w_.sizes[2] - 1) * p_.dilation[0] + 1;
      rows.first = std::clamp<int64_t>(first * p_.stride[0] - p_.padding[0], 0, in_.sizes[2]);
      outer =
          std::clamp<int64_t>((end - 1) * p_.stride[0] - p_.padding[0] + reach, rows.first, in_.sizes[2]) - rows.first;
    }
    T* to = reinterpret_cast<T*>(Scratch::Get(
        ScratchUse::kDestination, in_per_group_ * outer * inner * padded * static_cast<int64_t>(sizeof(T))));
    rows.data = to;
    rows.channel = outer * inner * padded;
    rows.strides = {last_ > 0 ? inner * padded : 0, last_ > 1 ? padded : 0};
    const int64_t from = std::min(before, padded), count = std::clamp<int64_t>(padded - before, 0, width);
    for (int64_t c = 0; c < in_per_group_; ++c) {
      for (int64_t a = 0; a < outer; ++a) {
        for (int64_t b = 0; b < inner; ++b, to += padded) {
          const T* row = in + c * in_.strides[1] + (last_ > 0 ? (rows.first + a) * in_.strides[2] : 0) +
                         (last_ > 1 ? b * in_.strides[3] : 0);
          std::fill(to, to + from, T(0));
          const int64_t step = in_.strides[2 + last_];
          for (int64_t x = 0; x < count; ++x) to[from + x] = row[x * step];
          std::fill(to + from + count, to + padded, T(0));
        }
      }
    }
    return rows;
  }

  // The places [first, second) along the last dim where every tap reads inside of the input.
  std::pair<int64_t, int64_t> Inside() const {
    const int64_t size = out_.sizes[2 + last_], stride = p_.stride[last_], before = p_.padding[last_];
    const int64_t reach = (w_.sizes[2 + last_] - 1) * p_.dilation[last_];
    const int64_t from = std::min(size, (before + stride - 1) / stride);
    const int64_t room = in_.sizes[2 + last_] - 1 + before - reach;
    const int64_t to = room < 0 ? 0 : std::min(size, room / stride + 1);
    return {from, std::max(from, to)};
  }

  // Computes all rows of some channels of one image: the terms of a row have the same places for each of them.
  void RowsOfChannels(const T* in, const T* weights, const T* bias, T* out, int64_t i) const {
    const int64_t n = i / channel_blocks_, first = i % channel_blocks_ * kChannelBlock;
    const int64_t end = std::min(out_.sizes[1], first + kChannelBlock);
    const auto [inside, beyond] = Inside();
    Term* const terms = Terms();
    for (int64_t row = 0; row < rows_; ++row) {
      Place o = PlaceOfRow(row);
      const auto run = [&](int64_t x, int64_t count) {
        o[last_] = x;
        int64_t num_terms = 0;
        Place k = {};
        for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
          const int64_t at = SourceOf(p_, in_, o.data(), k.data());
          if (at < 0) continue;
          for (int64_t ic = 0; ic < in_per_group_; ++ic) {
            terms[num_terms++] = {at + ic * in_.strides[1], ic * w_.strides[1] + WeightAt(k)};
          }
        }
        for (int64_t oc = first; oc < end; ++oc) {
          const int64_t channel = oc / out_per_group_ * in_per_group_;
          RunAtBest<T>({in + n * in_.strides[0] + channel * in_.strides[1], weights + oc * w_.strides[0],
                        bias == nullptr ? nullptr : bias + oc * bias_.strides[0],
                        out + n * out_.strides[0] + oc * out_.strides[1] + ResultAt(o), terms, num_terms, count,
                        p_.stride[last_] * in_.strides[2 + last_], 0, 0, out_.strides[2 + last_]});
        }
      };
      for (int64_t x = 0; x < inside; ++x) run(x, 1);
      if (inside < beyond) run(inside, beyond - inside);
      for (int64_t x = beyond; x < out_.sizes[2 + last_]; ++x) run(x, 1);
    }
  }

  ConvParams p_;
  OperandShape in_, w_, out_, bias_;
  int last_ = 0;
  int64_t taps_ = 1, rows_ = 1, out_per_group_ = 0, in_per_group_ = 0, channel_blocks_ = 0, bands_ = 1;
  bool along_channels_ = false, along_rows_ = false, constant_is_finite_ = false;
};

}  // namespace

std::unique_ptr<PreparedOp> MakeGroupedConvolution(const LibraryRequest& r, const ConvParams& p) {
  if (r.outputs[0].dtype == DType::kFloat32) return std::make_unique<GroupedConvolution<float>>(r, p);
  return std::make_unique<GroupedConvolution<double>>(r, p);
}

}  // namespace smelt::library_internal
