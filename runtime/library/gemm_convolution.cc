// Convolutions of float64, which oneDNN does not have, and of float32 where there is no oneDNN. For some places of the
// result at a time, the elements that they read are laid out as a matrix, and a product does the rest.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

constexpr int64_t kBlock = 256;  // places at a time

// `T` is double or float.
template <typename T>
class GemmConvolution : public PreparedOp {
 public:
  GemmConvolution(const LibraryRequest& r, ConvParams p)
      : p_(std::move(p)), in_(r.inputs[0]), w_(r.inputs[1]), out_(r.outputs[0]) {
    if (r.inputs.size() > 2) bias_ = r.inputs[2];
    for (int d = 0; d < p_.spatial; ++d) taps_ *= w_.sizes[2 + d], places_ *= out_.sizes[2 + d];
    out_per_group_ = out_.sizes[1] / p_.groups;
    in_per_group_ = in_.sizes[1] / p_.groups;
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    // All threads read this thread's scratch.
    auto* weights = reinterpret_cast<T*>(
        Scratch::Get(ScratchUse::kWeights, out_.sizes[1] * in_per_group_ * taps_ * static_cast<int64_t>(sizeof(T))));
    PackWeights(reinterpret_cast<const T*>(inputs[1]), weights);
    const int64_t blocks = (places_ + kBlock - 1) / kBlock;
    context.For(out_.sizes[0] * p_.groups * blocks, [&](int64_t i) {
      Block(reinterpret_cast<const T*>(inputs[0]), weights,
            bias_.present ? reinterpret_cast<const T*>(inputs[2]) : nullptr, reinterpret_cast<T*>(outputs[0]),
            i / blocks / p_.groups, i / blocks % p_.groups, i % blocks * kBlock);
    });
    return absl::OkStatus();
  }

 private:
  using Place = std::array<int64_t, 3>;

  // [output channel][tap][input channel of the group]
  void PackWeights(const T* w, T* to) const {
    for (int64_t oc = 0; oc < out_.sizes[1]; ++oc) {
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

  void Block(const T* in, const T* weights, const T* bias, T* out, int64_t n, int64_t group, int64_t first) const {
    const int64_t count = std::min(kBlock, places_ - first), depth = taps_ * in_per_group_;
    Place places[kBlock], o = {};
    int64_t rest = first;
    for (int d = p_.spatial - 1; d >= 0; --d) o[d] = rest % out_.sizes[2 + d], rest /= out_.sizes[2 + d];
    for (int64_t i = 0; i < count; ++i, NextPlace(p_.spatial, &out_.sizes[2], o.data())) places[i] = o;

    auto* columns =
        reinterpret_cast<T*>(Scratch::Get(ScratchUse::kSource, depth * count * static_cast<int64_t>(sizeof(T))));
    T* to = columns;
    const T* source = in + n * in_.strides[0] + group * in_per_group_ * in_.strides[1];
    Place k = {};
    for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k.data())) {
      int64_t from[kBlock];
      for (int64_t i = 0; i < count; ++i) from[i] = SourceOf(p_, in_, places[i].data(), k.data());
      for (int64_t ic = 0; ic < in_per_group_; ++ic) {
        const T* channel = source + ic * in_.strides[1];
        for (int64_t i = 0; i < count; ++i) *to++ = from[i] < 0 ? 0 : channel[from[i]];
      }
    }

    auto* sums = reinterpret_cast<T*>(
        Scratch::Get(ScratchUse::kDestination, out_per_group_ * count * static_cast<int64_t>(sizeof(T))));
    Gemm(out_per_group_, count, depth, weights + group * out_per_group_ * depth, depth, 1, columns, count, 1, sums,
         count);
    for (int64_t c = 0; c < out_per_group_; ++c) {
      const int64_t oc = group * out_per_group_ + c;
      const T b = bias == nullptr ? 0 : bias[oc * bias_.strides[0]];
      T* channel = out + n * out_.strides[0] + oc * out_.strides[1];
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = 0;
        for (int d = 0; d < p_.spatial; ++d) at += places[i][d] * out_.strides[2 + d];
        channel[at] = sums[c * count + i] + b;
      }
    }
  }

  ConvParams p_;
  OperandShape in_, w_, out_, bias_;
  int64_t taps_ = 1, places_ = 1, out_per_group_ = 0, in_per_group_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOp> MakeGemmConvolution(const LibraryRequest& r, const ConvParams& p) {
  if (r.outputs[0].dtype == DType::kFloat64) return std::make_unique<GemmConvolution<double>>(r, p);
  return std::make_unique<GemmConvolution<float>>(r, p);
}

}  // namespace smelt::library_internal
