// float8_e4m3fn and float8_e5m2 as bytes, converted as PyTorch does: to the nearest, ties to even; subnormals are kept,
// and a NaN keeps its sign. What is too large, and infinity, becomes 448 in float8_e4m3fn, which has no infinity, and
// infinity in float8_e5m2.
//
//   uint8_t b = FloatToFloat8(DType::kFloat8E4M3FN, 448);    // 0x7e, the largest
//   float f = Float8ToFloat(DType::kFloat8E5M2, b);          // NaN
//
// Every float8 is a float exactly. A double is rounded to float first, then to 8 bits, as PyTorch does.
#ifndef SMELT_CORE_TENSOR_FLOAT8_H_
#define SMELT_CORE_TENSOR_FLOAT8_H_

#include <bit>
#include <cstdint>

#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {

inline float Float8E4M3FNToFloat(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7ff00000u);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  // A multiple of 2^-9: exact as a float.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f));
}

// It is the upper byte of a float16.
inline float Float8E5M2ToFloat(uint8_t bits) { return HalfToFloat(static_cast<uint16_t>(bits << 8)); }

// How a float becomes one of 8 bits. A float is given by its bits, without the sign.
struct Float8Format {
  int dropped;            // the lowest bits of a normal float, which are rounded away
  uint32_t bias;          // what its exponent exceeds that of the 8 bits by, in place
  uint32_t least_normal;  // the least float that becomes a normal number
  uint32_t too_large;     // the least float that becomes `most`
  uint8_t most;           // the largest number, or infinity
  float shift;            // added to what becomes a subnormal, makes the last bit worth what the 8 bits' last one is
};
inline constexpr Float8Format kFormatE4M3FN = {20, 120u << 23, 0x3c800000, 0x43e00000, 0x7e, 0x1p14f};  // 2^-6, 448
inline constexpr Float8Format kFormatE5M2 = {21, 112u << 23, 0x38800000, 0x47800000, 0x7c, 0x1p7f};     // 2^-14, 65536
inline constexpr uint8_t kNanOfFloat8 = 0x7f;

inline uint8_t RoundToFloat8(const Float8Format& f, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | kNanOfFloat8;
  if (magnitude >= f.too_large) return sign | f.most;
  if (magnitude >= f.least_normal) {
    const uint32_t rebased = magnitude - f.bias, half = (1u << (f.dropped - 1)) - 1;
    return static_cast<uint8_t>(sign | ((rebased + half + ((rebased >> f.dropped) & 1u)) >> f.dropped));
  }
  // The addition rounds as wanted.
  const float shifted = std::bit_cast<float>(magnitude) + f.shift;
  return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(f.shift)));
}

inline uint8_t FloatToFloat8E4M3FN(float value) { return RoundToFloat8(kFormatE4M3FN, value); }
inline uint8_t FloatToFloat8E5M2(float value) { return RoundToFloat8(kFormatE5M2, value); }

// The same for either dtype, which IsFloat8 must hold of.
inline float Float8ToFloat(DType t, uint8_t bits) {
  return t == DType::kFloat8E5M2 ? Float8E5M2ToFloat(bits) : Float8E4M3FNToFloat(bits);
}
inline uint8_t FloatToFloat8(DType t, float value) {
  return t == DType::kFloat8E5M2 ? FloatToFloat8E5M2(value) : FloatToFloat8E4M3FN(value);
}

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_FLOAT8_H_
