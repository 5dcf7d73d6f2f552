// float16 and bfloat16 as 16-bit patterns, converted as PyTorch and the hardware do: to the nearest, ties to even; too
// large becomes infinity; subnormals are kept; a NaN stays a NaN (quiet, its sign and leading payload bits kept).
//
//   uint16_t h = FloatToHalf(0.1f);       // 0x2e66
//   float f = HalfToFloat(h);             // 0.0999755859375
//
// Every float16 and bfloat16 is a float exactly. A double is rounded to float first, then to 16 bits, as PyTorch does.
#ifndef SMELT_CORE_TENSOR_FLOAT16_H_
#define SMELT_CORE_TENSOR_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace smelt {

inline float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);  // NaN, made quiet
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // A multiple of 2^-24: exact as a float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and more
  if (magnitude >= 0x38800000u) {
    // Normal, 2^-14 and more: the exponent is rebased, 13 bits are rounded away; a carry out of the mantissa is right,
    // up to infinity.
    const uint32_t rebased = magnitude - (112u << 23);
    return static_cast<uint16_t>(sign | ((rebased + 0x0fffu + ((rebased >> 13) & 1u)) >> 13));
  }
  // Subnormal: with 0.5 added, the float's last bit is worth 2^-24, and the addition rounds as wanted.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_FLOAT16_H_
