#include "smelt/runtime/library/paired_gemm.h"

#include <algorithm>

#include "smelt/core/base/check.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>
#include <type_traits>

#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/scratch.h"
#endif

namespace smelt {

#if defined(__aarch64__)

namespace {

// A group is 8 bytes of a row: 4 or 8 elements. Two rows' groups fill a vector, and an instruction multiplies the two
// of one vector by the two of another. Operands are packed in strips of 8 rows, or columns: for each group 4 vectors.
constexpr int kStrip = 8;
constexpr int64_t kDepth = 256;  // elements of a row at a time
template <typename T>
constexpr int kGroup = 8 / static_cast<int>(sizeof(T));
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;

template <typename T>
int64_t GroupsOf(int64_t depth) {
  return (depth + kGroup<T> - 1) / kGroup<T>;
}

// Packs `lines` rows, at most kStrip, of `depth` elements. What is missing is 0.
template <typename T>
void PackStrip(int64_t lines, int64_t depth, const T* from, int64_t line, int64_t step, T* to) {
  const int64_t whole = depth / kGroup<T> * kGroup<T>;
  int64_t i = 0;
  if (step == 1 && lines == kStrip) {
    for (; i < whole; i += kGroup<T>) {
      for (int l = 0; l < kStrip; ++l, to += kGroup<T>) std::memcpy(to, from + l * line + i, 8);
    }
  }
  if constexpr (sizeof(T) == 2) {
    // Rows become columns: elements are zipped, then pairs of them.
    for (; line == 1 && lines == kStrip && i < whole; i += kGroup<T>, to += kStrip * kGroup<T>) {
      const T* at = from + i * step;
      const uint16x8_t a = vld1q_u16(at), b = vld1q_u16(at + step), c = vld1q_u16(at + 2 * step),
                       d = vld1q_u16(at + 3 * step);
      const uint32x4_t ab = vreinterpretq_u32_u16(vzip1q_u16(a, b)), AB = vreinterpretq_u32_u16(vzip2q_u16(a, b));
      const uint32x4_t cd = vreinterpretq_u32_u16(vzip1q_u16(c, d)), CD = vreinterpretq_u32_u16(vzip2q_u16(c, d));
      vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(ab, cd)));
      vst1q_u16(to + 8, vreinterpretq_u16_u32(vzip2q_u32(ab, cd)));
      vst1q_u16(to + 16, vreinterpretq_u16_u32(vzip1q_u32(AB, CD)));
      vst1q_u16(to + 24, vreinterpretq_u16_u32(vzip2q_u32(AB, CD)));
    }
  }
  for (; i < depth; i += kGroup<T>) {
    for (int l = 0; l < kStrip; ++l) {
      for (int64_t k = i; k < i + kGroup<T>; ++k) *to++ = l < lines && k < depth ? from[l * line + k * step] : T(0);
    }
  }
}

// Multiplies two strips. Row r of the result is at c + r * c_row.
__attribute__((noinline, target("arch=armv8.2-a+bf16"))) void MultiplyStrips(int64_t groups, const uint16_t* a,
                                                                             const uint16_t* b, float* c,
                                                                             int64_t c_row) {
  float32x4_t sum[4][4] = {};
  for (int64_t g = 0; g < groups; ++g, a += 32, b += 32) {
    const uint16x8x4_t x = vld1q_u16_x4(a), y = vld1q_u16_x4(b);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        sum[i][j] = vbfmmlaq_f32(sum[i][j], vreinterpretq_bf16_u16(x.val[i]), vreinterpretq_bf16_u16(y.val[j]));
      }
    }
  }
  // A sum has two elements of each of two rows.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      vst1_f32(c + 2 * i * c_row + 2 * j, vget_low_f32(sum[i][j]));
      vst1_f32(c + (2 * i + 1) * c_row + 2 * j, vget_high_f32(sum[i][j]));
    }
  }
}
__attribute__((noinline, target("arch=armv8.2-a+i8mm"))) void MultiplyStrips(int64_t groups, const int8_t* a,
                                                                             const int8_t* b, int32_t* c,
                                                                             int64_t c_row) {
  int32x4_t sum[4][4] = {};
  for (int64_t g = 0; g < groups; ++g, a += 64, b += 64) {
    const int8x16x4_t x = vld1q_s8_x4(a), y = vld1q_s8_x4(b);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[i][j] = vmmlaq_s32(sum[i][j], x.val[i], y.val[j]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      vst1_s32(c + 2 * i * c_row + 2 * j, vget_low_s32(sum[i][j]));
      vst1_s32(c + (2 * i + 1) * c_row + 2 * j, vget_high_s32(sum[i][j]));
    }
  }
}

template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row,
              int64_t b_col, Sum<T>* c, int64_t c_row) {
  const int64_t strips = (m + kStrip - 1) / kStrip, most = GroupsOf<T>(std::min(k, kDepth)) * kGroup<T> * kStrip;
  const int64_t item = sizeof(T);
  T* const rows = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kB, (strips + 1) * most * item));
  T* const columns = rows + strips * most;
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - k0), groups = GroupsOf<T>(depth);
    for (int64_t s = 0; s < strips; ++s) {
      PackStrip(std::min<int64_t>(kStrip, m - s * kStrip), depth, a + s * kStrip * a_row + k0 * a_col, a_row, a_col,
                rows + s * most);
    }
    for (int64_t j0 = 0; j0 < n; j0 += kStrip) {
      const int64_t width = std::min<int64_t>(kStrip, n - j0);
      PackStrip(width, depth, b + k0 * b_row + j0 * b_col, b_col, b_row, columns);
      for (int64_t s = 0; s < strips; ++s) {
        const int64_t height = std::min<int64_t>(kStrip, m - s * kStrip);
        Sum<T>* const to = c + s * kStrip * c_row + j0;
        if (k0 == 0 && height == kStrip && width == kStrip) {
          MultiplyStrips(groups, rows + s * most, columns, to, c_row);
          continue;
        }
        Sum<T> sums[kStrip * kStrip];
        MultiplyStrips(groups, rows + s * most, columns, sums, kStrip);
        for (int64_t r = 0; r < height; ++r) {
          for (int64_t j = 0; j < width; ++j) {
            Sum<T>& cell = to[r * c_row + j];
            const Sum<T> sum = sums[r * kStrip + j];
            if constexpr (std::is_same_v<T, int8_t>) {
              cell = k0 == 0 ? sum : static_cast<int32_t>(static_cast<uint32_t>(cell) + static_cast<uint32_t>(sum));
            } else {
              cell = k0 == 0 ? sum : cell + sum;
            }
          }
        }
      }
    }
  }
}

}  // namespace

bool HasPairedGemm(DType t) {
  static const bool kBFloat16 = CpuHas("bf16"), kInt8 = CpuHas("i8mm");
  return t == DType::kBFloat16 ? kBFloat16 : t == DType::kInt8 && kInt8;
}

void PairedGemm(int64_t m, int64_t n, int64_t k, const uint16_t* a, int64_t a_row, int64_t a_col, const uint16_t* b,
                int64_t b_row, int64_t b_col, float* c, int64_t c_row) {
  Multiply(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row);
}
void PairedGemm(int64_t m, int64_t n, int64_t k, const int8_t* a, int64_t a_row, int64_t a_col, const int8_t* b,
                int64_t b_row, int64_t b_col, int32_t* c, int64_t c_row) {
  Multiply(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row);
}

#else

bool HasPairedGemm(DType) { return false; }

void PairedGemm(int64_t, int64_t, int64_t, const uint16_t*, int64_t, int64_t, const uint16_t*, int64_t, int64_t, float*,
                int64_t) {
  SMELT_CHECK(false);
}
void PairedGemm(int64_t, int64_t, int64_t, const int8_t*, int64_t, int64_t, const int8_t*, int64_t, int64_t, int32_t*,
                int64_t) {
  SMELT_CHECK(false);
}

#endif

}  // namespace smelt
