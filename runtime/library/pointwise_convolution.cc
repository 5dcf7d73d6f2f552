#include "smelt/runtime/library/pointwise_convolution.h"

#include <algorithm>
#include <utility>

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/gemv.h"

namespace smelt::library_internal {
namespace {

class PointwiseConvolution : public PreparedOp {
 public:
  explicit PointwiseConvolution(const LibraryRequest& r) : in_(r.inputs[0]), out_(r.outputs[0]) {
    if (r.inputs.size() > 2) bias_ = r.inputs[2];
    for (int d = 2; d < out_.rank(); ++d) places_ *= out_.sizes[d];
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const auto* in = reinterpret_cast<const float*>(inputs[0]);
    const auto* weights = reinterpret_cast<const float*>(inputs[1]);
    const auto* bias = bias_.present ? reinterpret_cast<const float*>(inputs[2]) : nullptr;
    auto* out = reinterpret_cast<float*>(outputs[0]);
    const int64_t tiles = (places_ + kGemvColumns - 1) / kGemvColumns, channels = out_.sizes[1];
    context.For(out_.sizes[0] * tiles, [&](int64_t i) {
      const int64_t n = i / tiles, first = i % tiles * kGemvColumns;
      const int64_t count = std::min(kGemvColumns, places_ - first);
      float* to = out + n * out_.strides[0] + first;
      GemvPlain(static_cast<int>(channels), in_.sizes[1], weights, in + n * in_.strides[0] + first, DType::kFloat32,
                in_.strides[1], 0, count, to, out_.strides[1]);
      if (bias == nullptr) return;
      for (int64_t c = 0; c < channels; ++c) {
        float* row = to + c * out_.strides[1];
        const float b = bias[c * bias_.strides[0]];
        for (int64_t j = 0; j < count; ++j) row[j] += b;
      }
    });
    return absl::OkStatus();
  }

 private:
  OperandShape in_, out_, bias_;
  int64_t places_ = 1;
};

}  // namespace

bool IsPointwise(const LibraryRequest& r, const ConvParams& p) {
  const OperandShape &in = r.inputs[0], &weight = r.inputs[1], &out = r.outputs[0];
  if (out.dtype != DType::kFloat32 || p.transposed || p.groups != 1) return false;
  for (int d = 0; d < p.spatial; ++d) {
    if (weight.sizes[2 + d] != 1 || p.stride[d] != 1 || p.padding[d] != 0 || in.sizes[2 + d] != out.sizes[2 + d])
      return false;
  }
  return IsPlane(in) && IsPlane(out) && weight.strides[1] == 1 && weight.strides[0] == weight.sizes[1];
}

std::unique_ptr<PreparedOp> MakePointwiseConvolution(const LibraryRequest& r) {
  return std::make_unique<PointwiseConvolution>(r);
}

}  // namespace smelt::library_internal
