#include "smelt/runtime/library/gemm_convolution.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/convolution_rows.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

// `T` is double or float.
template <typename T>
class GemmConvolution : public PreparedOp {
 public:
  __attribute__((noinline)) GemmConvolution(const LibraryRequest& r, const ConvParams& p)
      : p_(p), in_(r.inputs[0]), w_(r.inputs[1]), out_(r.outputs[0]) {
    if (r.inputs.size() > 2) bias_ = r.inputs[2];
    bool unit = !p_.transposed;
    for (int d = 0; d < p_.spatial; ++d) {
      taps_ *= w_.sizes[2 + d], places_ *= out_.sizes[2 + d];
      unit = unit && w_.sizes[2 + d] == 1 && p_.stride[d] == 1 && p_.padding[d] == 0 &&
             in_.sizes[2 + d] == out_.sizes[2 + d];
    }
    out_per_group_ = out_.sizes[1] / p_.groups;
    in_per_group_ = in_.sizes[1] / p_.groups;
    depth_ = taps_ * in_per_group_;
    plane_ = IsPlane(out_);
    in_place_ = unit && IsPlane(in_);
    channels_last_ = std::is_same_v<T, float> && in_.strides[1] == 1 && out_.strides[1] == 1 && out_per_group_ > 1;
    blocks_ = (places_ + kMostPlaces - 1) / kMostPlaces;
    // Where there is less work than threads might be, some channels at a time.
    constexpr int64_t kPieces = 16, kChannels = 64;
    const int64_t pieces = out_.sizes[0] * p_.groups * blocks_;
    const int64_t parts = std::clamp<int64_t>(kPieces / pieces, 1, (out_per_group_ + kChannels - 1) / kChannels);
    channels_ = ((out_per_group_ + parts - 1) / parts + kChannels - 1) / kChannels * kChannels;
    parts_ = (out_per_group_ + channels_ - 1) / channels_;
  }

  // Packs a constant weight.
  absl::Status Pack(PackedWeights* packed) {
    if (w_.constant == nullptr) return absl::OkStatus();
    std::string layout = absl::StrCat("convolution", p_.transposed ? " transposed" : "",
                                      channels_last_ ? " panels" : "", " of ", p_.groups, " groups ", Name(w_.dtype));
    for (int d = 0; d < w_.rank(); ++d) absl::StrAppend(&layout, " ", w_.sizes[d], " by ", w_.strides[d]);
    SMELT_ASSIGN_OR_RETURN(constant_, packed->Get(PackedWeights::SourceOf(w_.constant, w_.sizes, w_.strides, sizeof(T)),
                                                  layout, WeightBytes(), [&](char* to) {
                                                    PackWeights(reinterpret_cast<const T*>(w_.constant),
                                                                reinterpret_cast<T*>(to));
                                                    return absl::OkStatus();
                                                  }));
    return absl::OkStatus();
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const T* weights = reinterpret_cast<const T*>(constant_.get());
    if (weights == nullptr) {
      // All threads read this thread's scratch.
      auto* own = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kWeights, WeightBytes()));
      PackWeights(reinterpret_cast<const T*>(inputs[1]), own);
      weights = own;
    }
    context.For(out_.sizes[0] * p_.groups * blocks_ * parts_, [&](int64_t i) {
      const int64_t block = i / parts_;
      Block(reinterpret_cast<const T*>(inputs[0]), weights,
            bias_.present ? reinterpret_cast<const T*>(inputs[2]) : nullptr, reinterpret_cast<T*>(outputs[0]),
            block / blocks_ / p_.groups, block / blocks_ % p_.groups, block % blocks_ * kMostPlaces,
            i % parts_ * channels_);
    });
    return absl::OkStatus();
  }

 private:
  int64_t WeightBytes() const {
    const int64_t group = channels_last_ ? PackedElements(depth_, out_per_group_) : out_per_group_ * depth_;
    return p_.groups * group * static_cast<int64_t>(sizeof(T));
  }

  // [output channel][tap][input channel of the group], and for channels that are last the panels of a group's transpose.
  __attribute__((noinline)) void PackWeights(const T* w, T* to) const {
    if constexpr (std::is_same_v<T, float>) {
      if (channels_last_) {
        float* rows = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kDestination, out_per_group_ * depth_ * 4));
        for (int64_t g = 0; g < p_.groups; ++g, to += PackedElements(depth_, out_per_group_)) {
          PackRows(w, g * out_per_group_, (g + 1) * out_per_group_, rows);
          PackRight(depth_, out_per_group_, rows, 1, depth_, to);
        }
        return;
      }
    }
    PackRows(w, 0, out_.sizes[1], to);
  }
  __attribute__((noinline)) void PackRows(const T* w, int64_t begin, int64_t end, T* to) const {
    for (int64_t oc = begin; oc < end; ++oc) {
      const int64_t group = oc / out_per_group_;
      Place k = {};
      for (int64_t tap = 0; tap < taps_; ++tap) {
        int64_t at = 0;
        for (int d = 0; d < p_.spatial; ++d) at += k[d] * w_.strides[2 + d];
        for (int64_t ic = 0; ic < in_per_group_; ++ic) {
          *to++ = p_.transposed
                      ? w[at + (group * in_per_group_ + ic) * w_.strides[0] + oc % out_per_group_ * w_.strides[1]]
                      : w[at + oc * w_.strides[0] + ic * w_.strides[1]];
        }
        NextPlace(p_.spatial, &w_.sizes[2], k.data());
      }
    }
  }

  // Lays out, for each place, what each tap reads of all channels, which are adjacent.
  void GatherColumns(const T* source, const Place* places, int64_t count, T* to) const {
    for (int64_t i = 0; i < count; ++i) {
      Place k = {};
      for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data()), to += in_per_group_) {
        const int64_t from = SourceOf(p_, in_, places[i].data(), k.data());
        if (from < 0) {
          std::fill(to, to + in_per_group_, T(0));
        } else {
          std::copy(source + from, source + from + in_per_group_, to);
        }
      }
    }
  }

  // Computes some channels of a group, from `channel` on, at some places of an image.
  void Block(const T* in, const T* weights, const T* bias, T* out, int64_t n, int64_t group, int64_t first,
             int64_t channel) const {
    const int64_t count = std::min(kMostPlaces, places_ - first),
                  channels = std::min(channels_, out_per_group_ - channel);
    Place places[kMostPlaces];
    ListPlaces(out_, first, absl::MakeSpan(places, count));
    const T* source = in + n * in_.strides[0] + group * in_per_group_ * in_.strides[1];
    T* to = out + n * out_.strides[0] + (group * out_per_group_ + channel) * out_.strides[1];
    const T* added = bias == nullptr ? nullptr : bias + (group * out_per_group_ + channel) * bias_.strides[0];
    if constexpr (std::is_same_v<T, float>) {
      if (channels_last_) return LastChannels(source, weights, added, to, group, places, count, channel, channels);
    }

    const T* matrix = source + first;
    int64_t row = in_.strides[1];
    if (!in_place_) {
      auto* own =
          reinterpret_cast<T*>(Scratch::Get(ScratchUse::kSource, depth_ * count * static_cast<int64_t>(sizeof(T))));
      GatherRows(p_, in_, w_, in_per_group_, source, absl::MakeConstSpan(places, count), own);
      matrix = own;
      row = count;
    }
    T* sums = to + first;
    int64_t sums_row = out_.strides[1];
    if (!plane_) {
      sums = reinterpret_cast<T*>(
          Scratch::Get(ScratchUse::kDestination, channels * count * static_cast<int64_t>(sizeof(T))));
      sums_row = count;
    }
    Gemm(channels, count, depth_, weights + (group * out_per_group_ + channel) * depth_, depth_, 1, matrix, row, 1,
         sums, sums_row);
    if (plane_ && added == nullptr) return;
    for (int64_t c = 0; c < channels; ++c) {
      const T b = added == nullptr ? 0 : added[c * bias_.strides[0]];
      T* line = sums + c * sums_row;
      if (plane_) {
        for (int64_t i = 0; i < count; ++i) line[i] += b;
        continue;
      }
      for (int64_t i = 0; i < count; ++i) to[PlaceOf(places[i]) + c * out_.strides[1]] = line[i] + b;
    }
  }

  void LastChannels(const float* source, const float* weights, const float* added, float* to, int64_t group,
                    const Place* places, int64_t count, int64_t channel, int64_t channels) const {
    float* matrix = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kSource, depth_ * count * 4));
    GatherColumns(source, places, count, matrix);
    float* sums = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kDestination, out_per_group_ * count * 4));
    GemmPacked(count, out_per_group_, depth_, matrix, depth_, 1,
               weights + group * PackedElements(depth_, out_per_group_), sums, out_per_group_, channel,
               channel + channels);
    for (int64_t i = 0; i < count; ++i) {
      const float* line = sums + i * out_per_group_ + channel;
      float* result = to + PlaceOf(places[i]);
      if (added == nullptr) {
        std::copy(line, line + channels, result);
      } else if (bias_.strides[0] == 1) {
        for (int64_t c = 0; c < channels; ++c) result[c] = line[c] + added[c];
      } else {
        for (int64_t c = 0; c < channels; ++c) result[c] = line[c] + added[c * bias_.strides[0]];
      }
    }
  }

  int64_t PlaceOf(const Place& o) const {
    int64_t at = 0;
    for (int d = 0; d < p_.spatial; ++d) at += o[d] * out_.strides[2 + d];
    return at;
  }

  ConvParams p_;
  OperandShape in_, w_, out_, bias_;
  int64_t taps_ = 1, places_ = 1, out_per_group_ = 0, in_per_group_ = 0, depth_ = 0;
  bool plane_ = false;          // the places of a result's channel are adjacent
  bool in_place_ = false;       // one tap reads each place of the input, and those of a channel are adjacent
  bool channels_last_ = false;  // the channels of a place are adjacent
  int64_t blocks_ = 0, channels_ = 0, parts_ = 0;  // pieces of work: of places, and of a group's channels
  std::shared_ptr<const char> constant_;           // a constant weight as PackWeights writes it
};

template <typename T>
MakeResult Make(const LibraryRequest& r, const ConvParams& p, PackedWeights* packed) {
  auto op = std::make_unique<GemmConvolution<T>>(r, p);
  SMELT_RETURN_IF_ERROR(op->Pack(packed));
  return std::unique_ptr<PreparedOp>(std::move(op));
}

}  // namespace

MakeResult MakeGemmConvolution(const LibraryRequest& r, const ConvParams& p, PackedWeights* packed) {
  return r.outputs[0].dtype == DType::kFloat64 ? Make<double>(r, p, packed) : Make<float>(r, p, packed);
}

}  // namespace smelt::library_internal
