#include "smelt/runtime/library/int8_convolution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/library/transpose.h"
#include "smelt/runtime/strided.h"

namespace smelt::library_internal {
namespace {

// Three spatial dims; those that an image lacks come first and have one place.
using Dims = std::array<int64_t, 3>;

constexpr int64_t kMostImageBytes = int64_t{1} << 40;  // that an address space could hold

// The rows of bytes that are multiplied: copies of what the taps read, or places of the image itself, which may follow one
// another in the operand's memory, too.
enum class RowsAre { kCopied, kImage, kLine };

class Int8Convolution : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r, const ConvParams& p, int64_t zero, PackedWeights* packed) {
    auto op = std::unique_ptr<Int8Convolution>(new Int8Convolution(r, p, zero));
    int64_t bytes = op->channels_;
    for (int64_t n : op->padded_) {
      if (__builtin_mul_overflow(bytes, n, &bytes) || bytes > kMostImageBytes)
        return absl::UnimplementedError(
            absl::StrCat("int8_convolution: an image with its padding has more than ", kMostImageBytes, " elements"));
    }
    if (op->out_.NumElements() == 0) return std::unique_ptr<PreparedOp>(std::move(op));
    SMELT_RETURN_IF_ERROR(op->Pack(packed));
    const int64_t rest = op->places_ % op->block_;
    SMELT_ASSIGN_OR_RETURN(op->products_[0], op->Product(op->block_, packed));
    if (rest != 0) {
      SMELT_ASSIGN_OR_RETURN(op->products_[1], op->Product(rest, packed));
    }
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (out_.NumElements() == 0) return absl::OkStatus();
    const char* weight = matrix_.get();
    const int32_t* sums = reinterpret_cast<const int32_t*>(sums_.get());
    if (weight == nullptr) {
      // All threads read this thread's scratch, for weights and images alike.
      char* const own = Scratch::Get(ScratchUse::kBias, MatrixBytes() + out_channels_ * 4);
      Lay(inputs[1], own);
      Sum(own, own + MatrixBytes());
      weight = own;
      sums = reinterpret_cast<const int32_t*>(own + MatrixBytes());
    }
    char* const image = Scratch::Get(ScratchUse::kOther, padded_[0] * padded_[1] * padded_[2] * channels_);
    const int64_t blocks = (places_ + block_ - 1) / block_;
    std::atomic<bool> failed = false;
    for (int64_t n = 0; n < out_.sizes[0]; ++n) {
      const char* const from = inputs[0] + n * in_.strides[0];
      if (rows_ == RowsAre::kLine) {
        constexpr int64_t kPlaces = 128;  // at a time: their channels stay in the caches
        context.For((places_ + kPlaces - 1) / kPlaces, [&](int64_t part) {
          const int64_t first = part * kPlaces;
          CopyPlaces(from + first * step_[2], std::min(kPlaces, places_ - first), image + first * channels_);
        });
      } else {
        context.For(padded_[0] * padded_[1], [&](int64_t row) { CopyRow(from, row, image); });
      }
      char* const to = outputs[0] + n * out_.strides[0] * 4;
      context.For(blocks, [&](int64_t block) {
        if (!Block(image, weight, sums, block * block_, to)) failed.store(true, std::memory_order_relaxed);
      });
    }
    return failed ? absl::ResourceExhaustedError("int8_convolution: the library failed") : absl::OkStatus();
  }

 private:
  Int8Convolution(const LibraryRequest& r, const ConvParams& p, int64_t zero)
      : in_(r.inputs[0]),
        weight_(r.inputs[1]),
        out_(r.outputs[0]),
        zero_(zero),
        channels_(in_.sizes[1]),
        out_channels_(out_.sizes[1]) {
    for (int d = 0; d < p.spatial; ++d) {
      const int at = 3 - p.spatial + d;
      size_[at] = in_.sizes[2 + d];
      step_[at] = in_.strides[2 + d];
      out_size_[at] = out_.sizes[2 + d];
      out_step_[at] = out_.strides[2 + d];
      kernel_[at] = weight_.sizes[2 + d];
      weight_step_[at] = weight_.strides[2 + d];
      stride_[at] = p.stride[d];
      padding_[at] = p.padding[d];
      dilation_[at] = p.dilation[d];
    }
    for (int d = 0; d < 3; ++d) {
      taps_ *= kernel_[d];
      places_ *= out_size_[d];
      padded_[d] = size_[d] + 2 * padding_[d];
    }
    depth_ = taps_ * channels_;
    if (padded_ == out_size_ && taps_ == 1 && stride_ == Dims{1, 1, 1} && padded_ == size_) {
      const bool line =
          (step_[1] == size_[2] * step_[2] || size_[1] == 1) && (step_[0] == size_[1] * step_[1] || size_[0] == 1);
      rows_ = line ? RowsAre::kLine : RowsAre::kImage;
    }
    // About 8 million multiplications.
    constexpr int64_t kWork = int64_t{8} << 20, kLeast = 32, kMost = 256;
    block_ = std::clamp(kWork / std::max<int64_t>(depth_ * out_channels_, 1) / 16 * 16, kLeast, kMost);
    block_ = std::min(block_, std::max<int64_t>(places_, 1));
    // Places with their channels side by side, one after the other: the product writes them in their place.
    direct_ = out_step_[2] == out_channels_ && (out_.strides[1] == 1 || out_channels_ == 1) &&
              (out_step_[1] == out_size_[2] * out_step_[2] || out_size_[1] == 1) &&
              (out_step_[0] == out_size_[1] * out_size_[2] * out_channels_ || out_size_[0] == 1);
  }

  int64_t MatrixBytes() const { return (out_channels_ * depth_ + 63) / 64 * 64; }

  // Writes the weight as a row of [tap][channel] for each channel of the result.
  void Lay(const char* from, char* to) const {
    for (int64_t o = 0; o < out_channels_; ++o) {
      ForEachTap([&](const Dims& k) {
        const char* at = from + o * weight_.strides[0];
        for (int d = 0; d < 3; ++d) at += k[d] * weight_step_[d];
        for (int64_t c = 0; c < channels_; ++c) *to++ = at[c * weight_.strides[1]];
      });
    }
  }
  void Sum(const char* matrix, char* to) const {
    const auto* w = reinterpret_cast<const int8_t*>(matrix);
    auto* sums = reinterpret_cast<int32_t*>(to);
    for (int64_t o = 0; o < out_channels_; ++o) {
      sums[o] = 0;
      for (int64_t i = 0; i < depth_; ++i) sums[o] += *w++;
    }
  }
  absl::Status Pack(PackedWeights* packed) {
    if (weight_.constant == nullptr) return absl::OkStatus();
    std::string layout = absl::StrCat("int8 convolution of ", Name(in_.dtype));
    for (int d = 0; d < weight_.rank(); ++d)
      absl::StrAppend(&layout, " ", weight_.sizes[d], " by ", weight_.strides[d]);
    const PackedWeights::Source source = PackedWeights::SourceOf(weight_.constant, weight_.sizes, weight_.strides, 1);
    SMELT_ASSIGN_OR_RETURN(matrix_, packed->Get(source, layout, MatrixBytes(), [&](char* to) {
      Lay(weight_.constant, to);
      return absl::OkStatus();
    }));
    SMELT_ASSIGN_OR_RETURN(sums_, packed->Get(source, absl::StrCat(layout, " sums"), out_channels_ * 4, [&](char* to) {
      Sum(matrix_.get(), to);
      return absl::OkStatus();
    }));
    return absl::OkStatus();
  }

  // The product of `rows` rows with the weight.
  MakeResult Product(int64_t rows, PackedWeights* packed) const {
    LibraryRequest r;
    r.op = "matmul";
    r.inputs = {{true, in_.dtype, {rows, depth_}, {depth_, 1}},
                {true, DType::kInt8, {depth_, out_channels_}, {1, depth_}}};
    r.inputs[1].constant = matrix_.get();
    r.inputs[1].serves_all_rows = true;
    r.outputs = {{true, DType::kInt32, {rows, out_channels_}, {out_channels_, 1}}};
    return MakeMatmul(r, packed);
  }

  template <typename F>
  void ForEachTap(const F& f) const {
    Dims k = {};
    for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(3, kernel_.data(), k.data())) f(k);
  }

  // Writes one row of an image with all its channels, between the zero points beside it.
  void CopyRow(const char* from, int64_t row, char* image) const {
    char* to = image + row * padded_[2] * channels_;
    const int64_t bytes = padded_[2] * channels_, y = row % padded_[1] - padding_[1],
                  z = row / padded_[1] - padding_[0];
    const char zero = static_cast<char>(zero_);
    if (y < 0 || y >= size_[1] || z < 0 || z >= size_[0]) {
      std::fill(to, to + bytes, zero);
      return;
    }
    std::fill(to, to + padding_[2] * channels_, zero);
    std::fill(to + (padding_[2] + size_[2]) * channels_, to + bytes, zero);
    to += padding_[2] * channels_;
    CopyPlaces(from + z * step_[0] + y * step_[1], size_[2], to);
  }
  // Writes `count` places that follow one another in a line, with the channels of each side by side.
  void CopyPlaces(const char* source, int64_t count, char* to) const {
    if (in_.strides[1] == 1 || channels_ == 1) {
      const int64_t sizes[] = {count, channels_}, steps[] = {step_[2], in_.strides[1]}, dense[] = {channels_, 1};
      CopyStrided(to, dense, source, steps, sizes, 1);
      return;
    }
    // Some channels at a time, whose lines stay in the nearest cache.
    constexpr int64_t kChannels = 16;
    for (int64_t c = 0; c < channels_; c += kChannels) {
      const int64_t channels = std::min(channels_ - c, kChannels);
      const char* const part = source + c * in_.strides[1];
      if (step_[2] == 1) {
        TransposeBytes(channels, count, part, in_.strides[1], to + c, channels_);
        continue;
      }
      for (int64_t x = 0; x < count; ++x) {
        for (int64_t k = 0; k < channels; ++k) to[x * channels_ + c + k] = part[x * step_[2] + k * in_.strides[1]];
      }
    }
  }

  // Returns the rows of bytes that the taps read of `count` places from `first` on.
  const char* Rows(const char* image, const Dims& first, int64_t count) const {
    if (rows_ != RowsAre::kCopied) return image + ((first[0] * size_[1] + first[1]) * size_[2] + first[2]) * channels_;
    char* const rows = Scratch::Get(ScratchUse::kSource, count * depth_);
    Dims o = first;
    char* row = rows;
    for (int64_t i = 0; i < count; ++i, NextPlace(3, out_size_.data(), o.data())) {
      for (int64_t z = 0; z < kernel_[0]; ++z) {
        for (int64_t y = 0; y < kernel_[1]; ++y) {
          const int64_t line =
              (o[0] * stride_[0] + z * dilation_[0]) * padded_[1] + o[1] * stride_[1] + y * dilation_[1];
          const char* from = image + (line * padded_[2] + o[2] * stride_[2]) * channels_;
          // Without dilation the taps of a line read one piece.
          const int64_t pieces = dilation_[2] == 1 ? 1 : kernel_[2], bytes = kernel_[2] / pieces * channels_;
          for (int64_t x = 0; x < pieces; ++x, row += bytes)
            std::copy(from + x * dilation_[2] * channels_, from + x * dilation_[2] * channels_ + bytes, row);
        }
      }
    }
    return rows;
  }

  // Computes places [first, first + block_) of an image.
  bool Block(const char* image, const char* weight, const int32_t* sums, int64_t first, char* to) const {
    const int64_t count = std::min(block_, places_ - first);
    const Dims begin = {first / (out_size_[1] * out_size_[2]), first / out_size_[2] % out_size_[1],
                        first % out_size_[2]};
    const char* const rows = Rows(image, begin, count);
    auto* const result = reinterpret_cast<int32_t*>(
        direct_ ? to + first * out_channels_ * 4 : Scratch::Get(ScratchUse::kDestination, count * out_channels_ * 4));
    const PreparedOp& product = *products_[count == block_ ? 0 : 1];
    const LibraryContext alone;
    if (!product.Run(alone, {const_cast<char*>(rows), const_cast<char*>(weight)}, {reinterpret_cast<char*>(result)})
             .ok())
      return false;
    if (zero_ != 0) {
      for (int64_t i = 0; i < count; ++i) {
        int32_t* const line = result + i * out_channels_;
        for (int64_t c = 0; c < out_channels_; ++c) {
          line[c] = static_cast<int32_t>(static_cast<uint32_t>(line[c]) -
                                         static_cast<uint32_t>(sums[c]) * static_cast<uint32_t>(zero_));
        }
      }
    }
    if (!direct_) Store(result, begin, count, reinterpret_cast<int32_t*>(to));
    return true;
  }

  // Stores places from `begin` on, a channel after the other.
  void Store(const int32_t* result, const Dims& begin, int64_t count, int32_t* to) const {
    for (int64_t i = 0; i < count;) {
      // The places of a line.
      const int64_t at = begin[2] + i, x = at % out_size_[2], line = begin[1] + at / out_size_[2];
      const int64_t length = std::min(count - i, out_size_[2] - x);
      int32_t* const place =
          to + (begin[0] + line / out_size_[1]) * out_step_[0] + line % out_size_[1] * out_step_[1] + x * out_step_[2];
      const int64_t sizes[] = {out_channels_, length}, steps[] = {out_.strides[1], out_step_[2]},
                    from_steps[] = {1, out_channels_};
      CopyStrided(reinterpret_cast<char*>(place), steps, reinterpret_cast<const char*>(result + i * out_channels_),
                  from_steps, sizes, 4);
      i += length;
    }
  }

  const OperandShape in_, weight_, out_;
  const int64_t zero_;
  const int64_t channels_, out_channels_;
  Dims size_ = {1, 1, 1}, step_ = {}, out_size_ = {1, 1, 1}, out_step_ = {}, kernel_ = {1, 1, 1}, weight_step_ = {};
  Dims stride_ = {1, 1, 1}, padding_ = {}, dilation_ = {1, 1, 1}, padded_ = {};
  int64_t taps_ = 1, places_ = 1, depth_ = 0, block_ = 0;
  RowsAre rows_ = RowsAre::kCopied;
  bool direct_ = false;                        // products are written to the result
  std::shared_ptr<const char> matrix_, sums_;  // of a constant weight
  // The first for block_ places, the other for those behind the last block.
  std::array<std::shared_ptr<const PreparedOp>, 2> products_;
};

}  // namespace

MakeResult MakeInt8Convolution(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 2, 1, 1, -1));
  const OperandShape &in = r.inputs[0], &weight = r.inputs[1], &out = r.outputs[0];
  if ((in.dtype != DType::kUInt8 && in.dtype != DType::kInt8) || weight.dtype != DType::kInt8 ||
      out.dtype != DType::kInt32)
    return absl::UnimplementedError(
        absl::StrCat("int8_convolution of ", Name(in.dtype), " and ", Name(weight.dtype), " to ", Name(out.dtype)));
  const int spatial = in.rank() - 2;
  if (spatial < 1 || spatial > 3 || static_cast<int>(r.ints.size()) != 3 * spatial + 1)
    return absl::InvalidArgumentError(
        absl::StrCat("int8_convolution: an image of rank ", in.rank(), " with ", r.ints.size(), " integer attributes"));
  const int64_t zero = r.ints.back(), low = in.dtype == DType::kUInt8 ? 0 : -128;
  if (zero < low || zero > low + 255)
    return absl::InvalidArgumentError(
        absl::StrCat("int8_convolution: the zero point ", zero, " is not one of ", Name(in.dtype)));
  LibraryRequest plain = r;  // as a convolution whose attributes are checked: not transposed, of one group
  plain.ints.back() = 0;
  plain.ints.insert(plain.ints.end(), spatial, 0);
  plain.ints.push_back(1);
  SMELT_ASSIGN_OR_RETURN(const ConvParams p, ParseConvParams(plain, in, weight, out));
  if (out.NumElements() > 0 && (in.NumElements() == 0 || weight.NumElements() == 0))
    return absl::UnimplementedError("int8_convolution of nothing");
  return Int8Convolution::Make(r, p, zero, packed);
}

}  // namespace smelt::library_internal
