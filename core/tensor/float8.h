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

inline uint8_t FloatToFloat8E4M3FN(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  if (magnitude >= 0x43e00000u) return sign | 0x7eu;  // 448 and more
  if (magnitude >= 0x3c800000u) {
    // Normal, 2^-6 and more: the exponent is rebased, 20 bits are rounded away.
    const uint32_t rebased = magnitude - (120u << 23);
    return static_cast<uint8_t>(sign | ((rebased + 0x7ffffu + ((rebased >> 20) & 1u)) >> 20));
  }
  // Subnormal: with 2^14 added, the float's last bit is worth 2^-9, and the addition rounds as wanted.
  const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
  return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000u));
}

inline uint8_t FloatToFloat8E5M2(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  if (magnitude >= 0x47800000u) return sign | 0x7cu;  // 65536 and more
  if (magnitude >= 0x38800000u) {
    // Normal, 2^-14 and more, up to infinity.
    const uint32_t rebased = magnitude - (112u << 23);
    return static_cast<uint8_t>(sign | ((rebased + 0xfffffu + ((rebased >> 21) & 1u)) >> 21));
  }
  // Subnormal: with 2^7 added, the float's last bit is worth 2^-16.
  const float shifted = std::bit_cast<float>(magnitude) + 0x1p7f;
  return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x43000000u));
}

// The same for either dtype, which IsFloat8 must hold of.
inline float Float8ToFloat(DType t, uint8_t bits) {
  return t == DType::kFloat8E5M2 ? Float8E5M2ToFloat(bits) : Float8E4M3FNToFloat(bits);
}
inline uint8_t FloatToFloat8(DType t, float value) {
  return t == DType::kFloat8E5M2 ? FloatToFloat8E5M2(value) : FloatToFloat8E4M3FN(value);
}

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_FLOAT8_H_
