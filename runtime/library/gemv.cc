#include "smelt/runtime/library/gemv.h"

#include <algorithm>
#include <cstring>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/cpu_targets.h"

namespace smelt {
namespace {

constexpr int kLanes = 16;
typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef float UnalignedVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint16_t Half __attribute__((vector_size(kLanes * 2)));
typedef uint16_t UnalignedHalf __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));
typedef uint32_t Bits __attribute__((vector_size(kLanes * 4)));

struct F32 {
  using T = float;
  static SMELT_INLINE void Load(const float* p, Vec& v) { v = *reinterpret_cast<const UnalignedVec*>(p); }
  static SMELT_INLINE float One(const float* p) { return *p; }
};
struct BF16 {
  using T = uint16_t;
  static SMELT_INLINE void Load(const uint16_t* p, Vec& v) {
    const Half h = *reinterpret_cast<const UnalignedHalf*>(p);
    const Bits b = __builtin_convertvector(h, Bits) << 16;
    std::memcpy(&v, &b, sizeof(v));
  }
  static SMELT_INLINE float One(const uint16_t* p) { return BFloat16ToFloat(*p); }
};
struct F16 {
  using T = uint16_t;
  static SMELT_INLINE void Load(const uint16_t* p, Vec& v) {
    // Without infinities and subnormals this would be one shift and one product; all of them must be right.
    float lanes[kLanes];
    for (int i = 0; i < kLanes; ++i) lanes[i] = HalfToFloat(p[i]);
    std::memcpy(&v, lanes, sizeof(v));
  }
  static SMELT_INLINE float One(const uint16_t* p) { return HalfToFloat(*p); }
};

// The sums of four vectors at a time, as neighbours.
typedef float Four __attribute__((vector_size(16)));
SMELT_INLINE void Sum4(const Vec& a, const Vec& b, const Vec& c, const Vec& d, float* to) {
  const Vec ab = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
                 __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const Vec cd = __builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
                 __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const Vec all = __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                  __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  const Four sum =
      (__builtin_shufflevector(all, all, 0, 1, 2, 3) + __builtin_shufflevector(all, all, 4, 5, 6, 7)) +
      (__builtin_shufflevector(all, all, 8, 9, 10, 11) + __builtin_shufflevector(all, all, 12, 13, 14, 15));
  std::memcpy(to, &sum, sizeof(sum));
}

// kRows rows at a time share each load of the matrix, kColumns columns each load of the rows. A column's sum is in the
// same order wherever it falls.
template <typename W, int kRows, int kColumns>
SMELT_INLINE void TransposedBlock(int64_t k, const float* x, const typename W::T* w, int64_t ldw, float* y,
                                  int64_t ldy) {
  Vec acc0[kColumns][kRows] = {}, acc1[kColumns][kRows] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= k; i += 2 * kLanes) {
    for (int m = 0; m < kRows; ++m) {
      Vec x0, x1;
      F32::Load(x + m * k + i, x0);
      F32::Load(x + m * k + i + kLanes, x1);
      for (int c = 0; c < kColumns; ++c) {
        Vec w0, w1;
        W::Load(w + c * ldw + i, w0);
        W::Load(w + c * ldw + i + kLanes, w1);
        acc0[c][m] += w0 * x0;
        acc1[c][m] += w1 * x1;
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    float sums[4];
    const Vec zero = {};
    Sum4(acc0[0][m] + acc1[0][m], kColumns > 1 ? acc0[1 % kColumns][m] + acc1[1 % kColumns][m] : zero,
         kColumns > 2 ? acc0[2 % kColumns][m] + acc1[2 % kColumns][m] : zero,
         kColumns > 3 ? acc0[3 % kColumns][m] + acc1[3 % kColumns][m] : zero, sums);
    for (int c = 0; c < kColumns; ++c) {
      for (int64_t j = i; j < k; ++j) sums[c] += W::One(w + c * ldw + j) * x[m * k + j];
      y[m * ldy + c] = sums[c];
    }
  }
}

template <typename W, int kRows>
SMELT_INLINE void Transposed(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t begin, int64_t end,
                             float* y, int64_t ldy) {
  int64_t n = begin;
  if (kRows <= 2) {
    for (; n + 4 <= end; n += 4) TransposedBlock<W, kRows, kRows <= 2 ? 4 : 1>(k, x, w + n * ldw, ldw, y + n, ldy);
  }
  for (; n < end; ++n) TransposedBlock<W, kRows, 1>(k, x, w + n * ldw, ldw, y + n, ldy);
}

// kVectors vectors of columns; even and odd rows of the matrix are summed apart.
template <typename W, int kRows, int kVectors>
SMELT_INLINE void PlainBlock(int64_t k, const float* x, const typename W::T* w, int64_t ldw, float* y, int64_t ldy) {
  Vec acc[2][kRows][kVectors] = {};
  for (int64_t i = 0; i < k; i += 2) {
    for (int odd = 0; odd < 2 && i + odd < k; ++odd) {
      for (int v = 0; v < kVectors; ++v) {
        Vec line;
        W::Load(w + (i + odd) * ldw + v * kLanes, line);
        for (int m = 0; m < kRows; ++m) acc[odd][m][v] += line * x[m * k + i + odd];
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec sum = acc[0][m][v] + acc[1][m][v];
      std::memcpy(y + m * ldy + v * kLanes, &sum, sizeof(Vec));
    }
  }
}

template <typename W, int kRows>
SMELT_INLINE void Plain(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t begin, int64_t end,
                        float* y, int64_t ldy) {
  constexpr int kWide = kRows == 1 ? 4 : 2;
  int64_t n = begin;
  for (; n + kWide * kLanes <= end; n += kWide * kLanes) PlainBlock<W, kRows, kWide>(k, x, w + n, ldw, y + n, ldy);
  for (; n + kLanes <= end; n += kLanes) PlainBlock<W, kRows, 1>(k, x, w + n, ldw, y + n, ldy);
  for (; n < end; ++n) {
    for (int m = 0; m < kRows; ++m) {
      float sum[2] = {0, 0};
      for (int64_t i = 0; i < k; ++i) sum[i % 2] += x[m * k + i] * W::One(w + i * ldw + n);
      y[m * ldy + n] = sum[0] + sum[1];
    }
  }
}

template <typename W, bool kTransposed>
SMELT_INLINE void Rows(int m, int64_t k, const float* x, const void* w, int64_t ldw, int64_t begin, int64_t end,
                       float* y, int64_t ldy) {
  const auto* p = static_cast<const typename W::T*>(w);
  if (kTransposed) {
    if (m == 1) return Transposed<W, 1>(k, x, p, ldw, begin, end, y, ldy);
    if (m == 2) return Transposed<W, 2>(k, x, p, ldw, begin, end, y, ldy);
    if (m == 3) return Transposed<W, 3>(k, x, p, ldw, begin, end, y, ldy);
    return Transposed<W, 4>(k, x, p, ldw, begin, end, y, ldy);
  }
  if (m == 1) return Plain<W, 1>(k, x, p, ldw, begin, end, y, ldy);
  if (m == 2) return Plain<W, 2>(k, x, p, ldw, begin, end, y, ldy);
  if (m == 3) return Plain<W, 3>(k, x, p, ldw, begin, end, y, ldy);
  return Plain<W, 4>(k, x, p, ldw, begin, end, y, ldy);
}

template <bool kTransposed>
SMELT_INLINE void Typed(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                        int64_t end, float* y, int64_t ldy) {
  if (dtype == DType::kFloat32) return Rows<F32, kTransposed>(m, k, x, w, ldw, begin, end, y, ldy);
  if (dtype == DType::kBFloat16) return Rows<BF16, kTransposed>(m, k, x, w, ldw, begin, end, y, ldy);
  Rows<F16, kTransposed>(m, k, x, w, ldw, begin, end, y, ldy);
}

template <bool kTransposed>
SMELT_TARGET_V4 void RunV4(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                           int64_t end, float* y, int64_t ldy) {
  Typed<kTransposed>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}
template <bool kTransposed>
SMELT_TARGET_V3 void RunV3(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                           int64_t end, float* y, int64_t ldy) {
  Typed<kTransposed>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}
template <bool kTransposed>
void RunBaseline(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin, int64_t end,
                 float* y, int64_t ldy) {
  Typed<kTransposed>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}

template <bool kTransposed>
void Dispatch(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin, int64_t end,
              float* y, int64_t ldy) {
  SMELT_DCHECK(m >= 1 && m <= kGemvRows);
  static const int kLevel = CpuLevel() == "x86-64-v4" ? 4 : CpuLevel() == "x86-64-v3" ? 3 : 1;
  const auto run = kLevel == 4 ? RunV4<kTransposed> : kLevel == 3 ? RunV3<kTransposed> : RunBaseline<kTransposed>;
  run(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}

}  // namespace

void GemvTransposed(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                    int64_t end, float* y, int64_t ldy) {
  Dispatch<true>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}

void GemvPlain(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin, int64_t end,
               float* y, int64_t ldy) {
  Dispatch<false>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}

}  // namespace smelt
