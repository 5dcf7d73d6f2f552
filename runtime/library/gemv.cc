#include "smelt/runtime/library/gemv.h"

#include <algorithm>
#include <cstring>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/cpu.h"

// The same loops are compiled for three levels; the highest that the machine has runs. (The binary itself is for
// baseline x86-64.)
#if defined(__x86_64__)
#define SMELT_TARGET_V4 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define SMELT_TARGET_V3 __attribute__((target("avx2,fma,f16c")))
#else
#define SMELT_TARGET_V4
#define SMELT_TARGET_V3
#endif
#define SMELT_INLINE inline __attribute__((always_inline))

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

SMELT_INLINE float Sum(const Vec& v) {
  float s[kLanes];
  std::memcpy(s, &v, sizeof(s));
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) s[i] += s[i + step];
  }
  return s[0];
}

// kRows rows at a time share each load of the matrix.
template <typename W, int kRows>
SMELT_INLINE void Transposed(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t begin, int64_t end,
                             float* y, int64_t ldy) {
  for (int64_t n = begin; n < end; ++n) {
    const typename W::T* row = w + n * ldw;
    Vec acc0[kRows] = {}, acc1[kRows] = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= k; i += 2 * kLanes) {
      Vec w0, w1;
      W::Load(row + i, w0);
      W::Load(row + i + kLanes, w1);
      for (int m = 0; m < kRows; ++m) {
        Vec x0, x1;
        F32::Load(x + m * k + i, x0);
        F32::Load(x + m * k + i + kLanes, x1);
        acc0[m] += w0 * x0;
        acc1[m] += w1 * x1;
      }
    }
    for (int m = 0; m < kRows; ++m) {
      const Vec both = acc0[m] + acc1[m];
      float sum = Sum(both);
      for (int64_t j = i; j < k; ++j) sum += W::One(row + j) * x[m * k + j];
      y[m * ldy + n] = sum;
    }
  }
}

template <typename W, int kRows>
SMELT_INLINE void Plain(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t begin, int64_t end,
                        float* y, int64_t ldy) {
  int64_t n = begin;
  for (; n + 2 * kLanes <= end; n += 2 * kLanes) {
    Vec acc0[kRows] = {}, acc1[kRows] = {};
    for (int64_t i = 0; i < k; ++i) {
      Vec w0, w1;
      W::Load(w + i * ldw + n, w0);
      W::Load(w + i * ldw + n + kLanes, w1);
      for (int m = 0; m < kRows; ++m) {
        acc0[m] += w0 * x[m * k + i];
        acc1[m] += w1 * x[m * k + i];
      }
    }
    for (int m = 0; m < kRows; ++m) {
      std::memcpy(y + m * ldy + n, &acc0[m], sizeof(Vec));
      std::memcpy(y + m * ldy + n + kLanes, &acc1[m], sizeof(Vec));
    }
  }
  for (; n < end; ++n) {
    for (int m = 0; m < kRows; ++m) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += x[m * k + i] * W::One(w + i * ldw + n);
      y[m * ldy + n] = sum;
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
