#include "smelt/runtime/library/halves.h"

#include "smelt/core/base/check.h"

namespace smelt {
namespace {

template <int kBytes>
using Floats = typename Vector<float, kBytes>::Type;
template <int kBytes>
using Words = typename Vector<uint32_t, kBytes>::Type;
template <int kBytes>
using Halves = typename Vector<uint16_t, kBytes / 2>::Type;

template <int kBytes>
SMELT_INLINE void StoreFloat16(const Floats<kBytes>& v, uint16_t* p) {
#if defined(__aarch64__)
  if constexpr (kBytes == 16) {
    float32x4_t lanes;
    std::memcpy(&lanes, &v, sizeof(lanes));
    const uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(lanes));
    std::memcpy(p, &bits, sizeof(bits));
    return;
  }
#elif defined(__x86_64__) && defined(__clang__)
  if constexpr (kBytes >= 32) {
    using Float16s = typename Vector<_Float16, kBytes / 2>::Type;
    const Float16s half = __builtin_convertvector(v, Float16s);
    std::memcpy(p, &half, sizeof(half));
    return;
  }
#elif defined(__x86_64__)
  if constexpr (kBytes >= 32) {
    struct __attribute__((packed)) Bits {
      char bytes[kBytes / 2];
    };
    asm("vcvtps2ph $0, %1, %0" : "=m"(*reinterpret_cast<Bits*>(p)) : "v"(v));
    return;
  }
#endif
  for (int i = 0; i < kBytes / 4; ++i) p[i] = FloatToHalf(v[i]);
}

template <int kBytes>
SMELT_INLINE void StoreBFloat16(const Floats<kBytes>& v, uint16_t* p) {
  Words<kBytes> bits;
  std::memcpy(&bits, &v, sizeof(bits));
  const Words<kBytes> rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const auto is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const Words<kBytes> chosen = is_nan ? (bits | 0x00400000) : rounded;
  const Halves<kBytes> high = __builtin_convertvector(chosen >> 16, Halves<kBytes>);
  std::memcpy(p, &high, sizeof(high));
}

template <int kBytes>
SMELT_INLINE void ToFloatsAt(bool bfloat16, const uint16_t* from, int64_t n, float* to) {
  constexpr int kLanes = kBytes / 4;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats<kBytes> v;
    if (bfloat16) {
      LoadBFloat16<kLanes>(from + i, v);
    } else {
      LoadFloat16<kLanes>(from + i, v);
    }
    std::memcpy(to + i, &v, sizeof(v));
  }
  for (; i < n; ++i) to[i] = bfloat16 ? BFloat16ToFloat(from[i]) : HalfToFloat(from[i]);
}

template <int kBytes>
SMELT_INLINE void FromFloatsAt(bool bfloat16, const float* from, int64_t n, uint16_t* to) {
  constexpr int kLanes = kBytes / 4;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats<kBytes> v;
    std::memcpy(&v, from + i, sizeof(v));
    if (bfloat16) {
      StoreBFloat16<kBytes>(v, to + i);
    } else {
      StoreFloat16<kBytes>(v, to + i);
    }
  }
  for (; i < n; ++i) to[i] = bfloat16 ? FloatToBFloat16(from[i]) : FloatToHalf(from[i]);
}

}  // namespace

void ToFloats(DType from_type, const void* from, int64_t stride, int64_t n, float* to) {
  if (from_type == DType::kFloat32) {
    const char* p = static_cast<const char*>(from);
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i, p + i * stride * 4, 4);
    return;
  }
  SMELT_DCHECK(IsHalf(from_type));
  const bool bfloat16 = from_type == DType::kBFloat16;
  const uint16_t* p = static_cast<const uint16_t*>(from);
  if (stride == 1) {
    AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE { ToFloatsAt<bytes>(bfloat16, p, n, to); });
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = bfloat16 ? BFloat16ToFloat(p[i * stride]) : HalfToFloat(p[i * stride]);
}

void FromFloats(DType to_type, const float* from, int64_t n, void* to, int64_t stride) {
  if (to_type == DType::kFloat32) {
    char* p = static_cast<char*>(to);
    for (int64_t i = 0; i < n; ++i) std::memcpy(p + i * stride * 4, from + i, 4);
    return;
  }
  SMELT_DCHECK(IsHalf(to_type));
  const bool bfloat16 = to_type == DType::kBFloat16;
  uint16_t* p = static_cast<uint16_t*>(to);
  if (stride == 1) {
    AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE { FromFloatsAt<bytes>(bfloat16, from, n, p); });
    return;
  }
  for (int64_t i = 0; i < n; ++i) p[i * stride] = bfloat16 ? FloatToBFloat16(from[i]) : FloatToHalf(from[i]);
}

}  // namespace smelt
