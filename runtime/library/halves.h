// Converts adjacent float16 and bfloat16 to float32 and back, a vector at a time. The bits are those of
// core/tensor/float16.h.
#ifndef SMELT_RUNTIME_LIBRARY_HALVES_H_
#define SMELT_RUNTIME_LIBRARY_HALVES_H_

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cstdint>
#include <cstring>

#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/cpu_targets.h"

namespace smelt {

// Returns whether products of the dtype are added up in float32, and so are the sums of attention: float32 itself, and
// halves, whose results are rounded once.
inline bool AddsInFloat32(DType t) { return t == DType::kFloat32 || IsHalf(t); }

// Converts `n` elements of float16, bfloat16 or float32, `stride` elements apart, from any address.
void ToFloats(DType from_type, const void* from, int64_t stride, int64_t n, float* to);
// Rounds once, to nearest even.
void FromFloats(DType to_type, const float* from, int64_t n, void* to, int64_t stride);

// Loads `kLanes` bfloat16 from any address as float32.
template <int kLanes, typename FloatVector>
SMELT_INLINE void LoadBFloat16(const uint16_t* p, FloatVector& v) {
  using Word = typename Vector<uint32_t, kLanes * 4>::Type;
  typename Vector<uint16_t, kLanes * 2>::Type half;
  std::memcpy(&half, p, sizeof(half));
  const Word word = __builtin_convertvector(half, Word) << 16;
  std::memcpy(&v, &word, sizeof(v));
}

// Loads `kLanes` float16 from any address as float32: one instruction in a function of that level.
template <int kLanes, typename FloatVector>
SMELT_INLINE void LoadFloat16(const uint16_t* p, FloatVector& v) {
  static_assert(sizeof(FloatVector) == kLanes * sizeof(float));
#if defined(__aarch64__)
  if constexpr (kLanes == 4) {
    uint16x4_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    const float32x4_t lanes = vcvt_f32_f16(vreinterpret_f16_u16(bits));
    std::memcpy(&v, &lanes, sizeof(v));
    return;
  }
#elif defined(__x86_64__) && defined(__clang__)
  // clang takes registers of a level in assembly only in a function of that level, which this becomes part of later.
  if constexpr (kLanes == 16 || kLanes == 8) {
    typename Vector<_Float16, kLanes * 2>::Type half;
    std::memcpy(&half, p, sizeof(half));
    v = __builtin_convertvector(half, FloatVector);
    return;
  }
#elif defined(__x86_64__)
  struct __attribute__((packed)) Bits {
    char bytes[kLanes * 2];
  };
  if constexpr (kLanes == 16 || kLanes == 8) {
    asm("vcvtph2ps %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const Bits*>(p)));
    return;
  }
#endif
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = HalfToFloat(p[i]);
  std::memcpy(&v, lanes, sizeof(v));
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_HALVES_H_
