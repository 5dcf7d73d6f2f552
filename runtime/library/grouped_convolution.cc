// Convolutions of float64 with few results a group, depthwise ones above all: sums over the taps without a matrix of
// what they read. Vectors run along rows of an image, or along channels where those lie side by side.
#include <algorithm>
#include <array>
#include <utility>

#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/cpu_targets.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

constexpr int kLanes = 8;
constexpr int64_t kChannelBlock = 16;  // channels of one piece of work
typedef double Lanes __attribute__((vector_size(64)));
typedef double UnalignedLanes __attribute__((vector_size(64), aligned(8), may_alias));

// What one tap adds: input elements from `at` on, times weights from `weight` on.
struct Term {
  int64_t at, weight;
};

// A line of results: to[i * to_step] = bias[i * bias_step] + the sum over the terms of
// in[at + i * in_step] * weights[weight + i * weight_step].
struct Line {
  const double* in;
  const double* weights;
  const double* bias;  // null: none
  double* to;
  const Term* terms;
  int64_t num_terms, count, in_step, weight_step, bias_step, to_step;
};

template <bool kUnitIn, bool kUnitWeight>
SMELT_INLINE Lanes SumOf(const Line& l, int64_t i) {
  Lanes sum = {};
  for (const Term* t = l.terms; t != l.terms + l.num_terms; ++t) {
    const double* x = l.in + t->at + i * l.in_step;
    Lanes a, w;
    if constexpr (kUnitIn) {
      a = *reinterpret_cast<const UnalignedLanes*>(x);
    } else {
      for (int k = 0; k < kLanes; ++k) a[k] = x[k * l.in_step];
    }
    if constexpr (kUnitWeight) {
      w = *reinterpret_cast<const UnalignedLanes*>(l.weights + t->weight + i);
    } else {
      w = l.weights[t->weight] - Lanes{};
    }
    sum += a * w;
  }
  return sum;
}

template <bool kUnitIn, bool kUnitWeight>
SMELT_INLINE void RunVector(const Line& l, int64_t i) {
  Lanes sum = SumOf<kUnitIn, kUnitWeight>(l, i);
  for (int k = 0; l.bias != nullptr && k < kLanes; ++k) sum[k] += l.bias[(i + k) * l.bias_step];
  if (l.to_step == 1) {
    *reinterpret_cast<UnalignedLanes*>(l.to + i) = sum;
    return;
  }
  for (int k = 0; k < kLanes; ++k) l.to[(i + k) * l.to_step] = sum[k];
}

template <bool kUnitIn, bool kUnitWeight>
SMELT_INLINE void RunLine(const Line& l) {
  if (l.count >= kLanes) {
    // The last vector overlaps the one before.
    for (int64_t i = 0; i < l.count - kLanes; i += kLanes) RunVector<kUnitIn, kUnitWeight>(l, i);
    RunVector<kUnitIn, kUnitWeight>(l, l.count - kLanes);
    return;
  }
  for (int64_t i = 0; i < l.count; ++i) {
    double sum = 0;
    for (const Term* t = l.terms; t != l.terms + l.num_terms; ++t) {
      sum += l.in[t->at + i * l.in_step] * l.weights[t->weight + i * l.weight_step];
    }
    l.to[i * l.to_step] = sum + (l.bias == nullptr ? 0 : l.bias[i * l.bias_step]);
  }
}

SMELT_INLINE void RunAnyLine(const Line& l) {
  if (l.weight_step == 0) {
    l.in_step == 1 ? RunLine<true, false>(l) : RunLine<false, false>(l);
  } else {
    RunLine<true, true>(l);  // along channels
  }
}
SMELT_TARGET_V4 void RunV4(const Line& l) { RunAnyLine(l); }
SMELT_TARGET_V3 void RunV3(const Line& l) { RunAnyLine(l); }
void RunBaseline(const Line& l) { RunAnyLine(l); }

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
    along_channels_ = in_per_group_ == 1 && out_per_group_ == 1 && in_.strides[1] == 1 && out_.sizes[1] >= kLanes;
    run_ = CpuLevel() == "x86-64-v4" ? RunV4 : CpuLevel() == "x86-64-v3" ? RunV3 : RunBaseline;
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const auto* in = reinterpret_cast<const double*>(inputs[0]);
    const auto* weights = reinterpret_cast<const double*>(inputs[1]);
    const auto* bias = bias_.present ? reinterpret_cast<const double*>(inputs[2]) : nullptr;
    auto* out = reinterpret_cast<double*>(outputs[0]);
    if (along_channels_) {
      // This thread's scratch is read by all.
      auto* packed = reinterpret_cast<double*>(
          Scratch::Get(ScratchUse::kWeights, taps_ * out_.sizes[1] * static_cast<int64_t>(sizeof(double))));
      PackByTap(weights, packed);
      context.For(out_.sizes[0] * rows_, [&](int64_t i) { ChannelsOfRow(in, packed, bias, out, i); });
    } else {
      context.For(out_.sizes[0] * channel_blocks_, [&](int64_t i) { RowsOfChannels(in, weights, bias, out, i); });
    }
    return absl::OkStatus();
  }

 private:
  using Place = std::array<int64_t, 3>;

  // [tap][channel]
  void PackByTap(const double* w, double* packed) const {
    const int64_t channels = out_.sizes[1];
    Place k = {};
    for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
      const double* from = w + WeightAt(k);
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

  void ChannelsOfRow(const double* in, const double* packed, const double* bias, double* out, int64_t i) const {
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
      run_({in + n * in_.strides[0], packed, bias, out + n * out_.strides[0] + ResultAt(o), terms, count, channels, 1,
            1, bias_.present ? bias_.strides[0] : 0, out_.strides[1]});
    }
  }

  // Where along the last dim every tap reads inside of the input: [first, second).
  std::pair<int64_t, int64_t> Inside() const {
    const int64_t size = out_.sizes[2 + last_], stride = p_.stride[last_], before = p_.padding[last_];
    const int64_t reach = (w_.sizes[2 + last_] - 1) * p_.dilation[last_];
    const int64_t from = std::min(size, (before + stride - 1) / stride);
    const int64_t room = in_.sizes[2 + last_] - 1 + before - reach;
    const int64_t to = room < 0 ? 0 : std::min(size, room / stride + 1);
    return {from, std::max(from, to)};
  }

  // All rows of some channels of one image: where the terms of a row lie is the same for each of them.
  void RowsOfChannels(const double* in, const double* weights, const double* bias, double* out, int64_t i) const {
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
          run_({in + n * in_.strides[0] + channel * in_.strides[1], weights + oc * w_.strides[0],
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
  int64_t taps_ = 1, rows_ = 1, out_per_group_ = 0, in_per_group_ = 0, channel_blocks_ = 0;
  bool along_channels_ = false;
  void (*run_)(const Line&) = nullptr;
};

}  // namespace

std::unique_ptr<PreparedOp> MakeGroupedConvolution(const LibraryRequest& r, const ConvParams& p) {
  return std::make_unique<GroupedConvolution>(r, p);
}

}  // namespace smelt::library_internal
