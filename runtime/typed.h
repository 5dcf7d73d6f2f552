// Tensors whose dtype, rank and sizes are part of their C++ type, as used in the headers of smelt_cc_library.
//
//   auto x = smelt::TensorOf<float, 8, 64>::Empty();
//   auto y = smelt::TensorOf<float, smelt::kAnySize, 64>::Empty(batch);   // a size that varies is given
//   x.at(3, 5) = 1;
//   net::Inputs in{.image = x};                                          // another type does not compile
//
// Like Tensor, a TensorOf is a handle: copies of it are the same tensor. It always has memory.
#ifndef SMELT_RUNTIME_TYPED_H_
#define SMELT_RUNTIME_TYPED_H_

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/program.h"

namespace smelt {

inline constexpr int64_t kAnySize = -1;

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float v) : bits(FloatToHalf(v)) {}
  explicit operator float() const { return HalfToFloat(bits); }
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float v) : bits(FloatToBFloat16(v)) {}
  explicit operator float() const { return BFloat16ToFloat(bits); }
};

struct Float8E4M3FN {
  uint8_t bits = 0;
  Float8E4M3FN() = default;
  explicit Float8E4M3FN(float v) : bits(FloatToFloat8E4M3FN(v)) {}
  explicit operator float() const { return Float8E4M3FNToFloat(bits); }
};
struct Float8E5M2 {
  uint8_t bits = 0;
  Float8E5M2() = default;
  explicit Float8E5M2(float v) : bits(FloatToFloat8E5M2(v)) {}
  explicit operator float() const { return Float8E5M2ToFloat(bits); }
};

// clang-format off
template <typename T> struct DTypeOf;
template <> struct DTypeOf<bool> { static constexpr DType value = DType::kBool; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::kUInt8; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::kInt8; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::kInt16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::kInt32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::kInt64; };
template <> struct DTypeOf<Float16> { static constexpr DType value = DType::kFloat16; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = DType::kBFloat16; };
template <> struct DTypeOf<float> { static constexpr DType value = DType::kFloat32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::kFloat64; };
template <> struct DTypeOf<std::complex<float>> { static constexpr DType value = DType::kComplex64; };
template <> struct DTypeOf<std::complex<double>> { static constexpr DType value = DType::kComplex128; };
template <> struct DTypeOf<Float8E4M3FN> { static constexpr DType value = DType::kFloat8E4M3FN; };
template <> struct DTypeOf<Float8E5M2> { static constexpr DType value = DType::kFloat8E5M2; };
// clang-format on

namespace typed_internal {
// Returns InvalidArgument unless the tensor has this dtype and these sizes.
absl::Status CheckTensor(const Tensor& t, DType dtype, absl::Span<const int64_t> sizes);
absl::Status CheckNumResults(size_t got, size_t want);
// Adds the value of the model that an error of CheckTensor is about.
absl::Status InField(absl::string_view field, const absl::Status& status);
}  // namespace typed_internal

template <typename T, int64_t... kSizes>
class TensorOf {
 public:
  using Element = T;
  static constexpr DType kDType = DTypeOf<T>::value;
  static constexpr int kRank = sizeof...(kSizes);
  static constexpr std::array<int64_t, kRank> kStaticSizes = {kSizes...};
  static constexpr int kNumVaryingSizes = (0 + ... + (kSizes == kAnySize ? 1 : 0));

  // Makes a row-major, uninitialized tensor. The arguments are the sizes that vary, in order.
  template <typename... N>
    requires(sizeof...(N) == kNumVaryingSizes)
  static TensorOf Empty(N... varying) {
    return TensorOf(Tensor::Empty(kDType, Sizes({static_cast<int64_t>(varying)...})));
  }
  // Makes a row-major tensor over the caller's memory, which must outlive it and all views of it (outputs may be such
  // views).
  template <typename... N>
    requires(sizeof...(N) == kNumVaryingSizes)
  static TensorOf Borrow(T* data, N... varying) {
    const auto sizes = Sizes({static_cast<int64_t>(varying)...});
    Geometry g = Geometry::Contiguous(sizes);
    const int64_t bytes = g.NumElements() * static_cast<int64_t>(sizeof(T));
    return TensorOf(Tensor(Storage::Borrow(data, bytes), kDType, std::move(g)));
  }
  // Returns the same tensor, if it has this type.
  static absl::StatusOr<TensorOf> From(Tensor t) {
    if (absl::Status s = typed_internal::CheckTensor(t, kDType, kStaticSizes); !s.ok()) return s;
    return TensorOf(std::move(t));
  }

  const Tensor& tensor() const { return t_; }
  T* data() const { return t_.data_as<T>(); }
  int64_t size(int dim) const { return t_.sizes()[dim]; }
  int64_t NumElements() const { return t_.NumElements(); }
  template <typename... I>
    requires(sizeof...(I) == kRank)
  T& at(I... index) const {
    int64_t offset = 0;
    int dim = 0;
    ((offset += static_cast<int64_t>(index) * t_.strides()[dim++]), ...);
    return data()[offset];
  }
  // Only for tensors without gaps (which includes all that this class makes).
  absl::Span<T> elements() const { return absl::MakeSpan(data(), static_cast<size_t>(NumElements())); }
  void Fill(T value) const { std::fill_n(data(), NumElements(), value); }

 private:
  explicit TensorOf(Tensor t) : t_(std::move(t)) {}
  static std::array<int64_t, kRank> Sizes(std::array<int64_t, kNumVaryingSizes> varying) {
    std::array<int64_t, kRank> out = kStaticSizes;
    size_t next = 0;
    for (int64_t& n : out) {
      if (n == kAnySize) n = varying[next++];
    }
    return out;
  }
  Tensor t_;
};

// For generated code: loads a bundle, which must be the one for which the code was generated.
absl::StatusOr<std::shared_ptr<const Program>> LoadBundleFile(absl::string_view path, absl::string_view header_digest,
                                                              const ProgramOptions& options);

}  // namespace smelt

#endif  // SMELT_RUNTIME_TYPED_H_
