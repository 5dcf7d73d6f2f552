#include "smelt/runtime/library/gemv.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/cpu_targets.h"
#include "smelt/runtime/library/halves.h"

namespace smelt {
namespace {

// Vectors of the machine's own width: the compiler splits wider ones through memory.
template <int kLanes>
struct Lanes {
  typedef float Vec __attribute__((vector_size(kLanes * 4)));
  typedef float UnalignedVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
};
template <int kLanes>
using Vec = typename Lanes<kLanes>::Vec;

struct F32 {
  using T = float;
  template <int kLanes>
  static SMELT_INLINE void Load(const float* p, Vec<kLanes>& v) {
    v = *reinterpret_cast<const typename Lanes<kLanes>::UnalignedVec*>(p);
  }
  static SMELT_INLINE float One(const float* p) { return *p; }
};
struct BF16 {
  using T = uint16_t;
  template <int kLanes>
  static SMELT_INLINE void Load(const uint16_t* p, Vec<kLanes>& v) {
    LoadBFloat16<kLanes>(p, v);
  }
  static SMELT_INLINE float One(const uint16_t* p) { return BFloat16ToFloat(*p); }
};
struct F16 {
  using T = uint16_t;
  template <int kLanes>
  static SMELT_INLINE void Load(const uint16_t* p, Vec<kLanes>& v) {
    LoadFloat16<kLanes>(p, v);
  }
  static SMELT_INLINE float One(const uint16_t* p) { return HalfToFloat(*p); }
};

// The sums of four vectors, as neighbouring elements.
typedef float Four __attribute__((vector_size(16)));
SMELT_INLINE void Fold(const Vec<4>& v, Four& to) { to = v; }
SMELT_INLINE void Fold(const Vec<8>& v, Four& to) {
  to = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}
SMELT_INLINE void Fold(const Vec<16>& v, Four& to) {
  Fold(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15),
       to);
}
template <typename V>
SMELT_INLINE void Sum4(const V& a, const V& b, const V& c, const V& d, float* to) {
  Four w, x, y, z;
  Fold(a, w);
  Fold(b, x);
  Fold(c, y);
  Fold(d, z);
  const Four wx = __builtin_shufflevector(w, x, 0, 4, 1, 5) + __builtin_shufflevector(w, x, 2, 6, 3, 7);
  const Four yz = __builtin_shufflevector(y, z, 0, 4, 1, 5) + __builtin_shufflevector(y, z, 2, 6, 3, 7);
  const Four sum = __builtin_shufflevector(wx, yz, 0, 1, 4, 5) + __builtin_shufflevector(wx, yz, 2, 3, 6, 7);
  std::memcpy(to, &sum, sizeof(sum));
}

// kRows rows at a time share each load of the matrix, and kColumns columns each load of the rows. A column's sum has
// the same order wherever it falls. The rest of the rows is a vector, too: adding it one by one would be slower and
// less exact.
template <typename W, int kLanes, int kRows, int kColumns>
SMELT_INLINE void TransposedBlock(int64_t k, const float* x, const typename W::T* w, int64_t ldw, float* y,
                                  int64_t ldy) {
  using V = Vec<kLanes>;
  V acc0[kColumns][kRows] = {}, acc1[kColumns][kRows] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= k; i += 2 * kLanes) {
    for (int m = 0; m < kRows; ++m) {
      V x0, x1;
      F32::Load<kLanes>(x + m * k + i, x0);
      F32::Load<kLanes>(x + m * k + i + kLanes, x1);
      for (int c = 0; c < kColumns; ++c) {
        V w0, w1;
        W::template Load<kLanes>(w + c * ldw + i, w0);
        W::template Load<kLanes>(w + c * ldw + i + kLanes, w1);
        acc0[c][m] += w0 * x0;
        acc1[c][m] += w1 * x1;
      }
    }
  }
  if (i + kLanes <= k) {
    for (int m = 0; m < kRows; ++m) {
      V x0;
      F32::Load<kLanes>(x + m * k + i, x0);
      for (int c = 0; c < kColumns; ++c) {
        V w0;
        W::template Load<kLanes>(w + c * ldw + i, w0);
        acc0[c][m] += w0 * x0;
      }
    }
    i += kLanes;
  }
  if (i < k) {
    for (int m = 0; m < kRows; ++m) {
      float x_part[kLanes] = {};
      for (int64_t j = i; j < k; ++j) x_part[j - i] = x[m * k + j];
      V x0;
      F32::Load<kLanes>(x_part, x0);
      for (int c = 0; c < kColumns; ++c) {
        typename W::T w_part[kLanes] = {};
        for (int64_t j = i; j < k; ++j) w_part[j - i] = w[c * ldw + j];
        V w0;
        W::template Load<kLanes>(w_part, w0);
        acc1[c][m] += w0 * x0;
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    float sums[4];
    const V zero = {};
    Sum4<V>(acc0[0][m] + acc1[0][m], kColumns > 1 ? acc0[1 % kColumns][m] + acc1[1 % kColumns][m] : zero,
            kColumns > 2 ? acc0[2 % kColumns][m] + acc1[2 % kColumns][m] : zero,
            kColumns > 3 ? acc0[3 % kColumns][m] + acc1[3 % kColumns][m] : zero, sums);
    for (int c = 0; c < kColumns; ++c) y[m * ldy + c] = sums[c];
  }
}

template <typename W, int kLanes, int kRows>
SMELT_INLINE void Transposed(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t begin, int64_t end,
                             float* y, int64_t ldy) {
  // With 16 registers half of them hold sums, with 32 up to all.
  constexpr int kColumns = kRows == 1 ? 4 : kRows == 2 ? kLanes / 4 : kLanes == 16 ? 4 : 1;
  int64_t n = begin;
  if (kColumns > 1) {
    for (; n + kColumns <= end; n += kColumns)
      TransposedBlock<W, kLanes, kRows, kColumns>(k, x, w + n * ldw, ldw, y + n, ldy);
  }
  for (; n < end; ++n) TransposedBlock<W, kLanes, kRows, 1>(k, x, w + n * ldw, ldw, y + n, ldy);
}

// This many rows of the matrix are summed before they are added to the previous sums: the error of a sum grows with
// this number and with the number of such parts.
constexpr int64_t kPart = 512;

// kVectors vectors of columns, with sums in registers; even and odd rows of the matrix are summed separately.
template <typename W, int kLanes, int kRows, int kVectors>
SMELT_INLINE void PlainBlock(int64_t k, const float* x, const typename W::T* w, int64_t ldw, float* y, int64_t ldy) {
  using V = Vec<kLanes>;
  V sum[kRows][kVectors] = {};
  for (int64_t first = 0; first < k; first += kPart) {
    const int64_t last = std::min(k, first + kPart);
    V acc[2][kRows][kVectors] = {};
    const auto add = [&](int64_t i, int odd) SMELT_ALWAYS_INLINE {
      for (int v = 0; v < kVectors; ++v) {
        V line;
        W::template Load<kLanes>(w + i * ldw + v * kLanes, line);
        for (int m = 0; m < kRows; ++m) acc[odd][m][v] += line * x[m * k + i];
      }
    };
    int64_t i = first;
    for (; i + 2 <= last; i += 2) {
      add(i, 0);
      add(i + 1, 1);
    }
    if (i < last) add(i, 0);
    for (int m = 0; m < kRows; ++m) {
      for (int v = 0; v < kVectors; ++v) sum[m][v] += acc[0][m][v] + acc[1][m][v];
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int v = 0; v < kVectors; ++v) std::memcpy(y + m * ldy + v * kLanes, &sum[m][v], sizeof(V));
  }
}

// Up to kGemvColumns columns: a few rows of the matrix at a time in their order, with sums in the nearest cache. The
// last vector ends with the columns, so that some columns are computed twice, with equal results.
template <typename W, int kLanes, int kRows>
SMELT_INLINE void PlainTile(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t columns, float* y,
                            int64_t ldy) {
  using V = Vec<kLanes>;
  // Elements of x in registers, of which there are 32 or 16: the rest are sums and a line of the matrix.
  constexpr int kStep = kRows == 1 ? 8 : kRows == 2 ? 4 : kLanes == 16 ? 4 : 2;
  constexpr int64_t kVectors = kGemvColumns / kLanes;
  const int64_t vectors = (columns + kLanes - 1) / kLanes;
  V sums[kRows][kVectors];
  for (int64_t first = 0; first < k; first += kPart) {
    const int64_t last = std::min(k, first + kPart);
    V part[kRows][kVectors];
    const auto add = [&](int64_t i, auto rows) SMELT_ALWAYS_INLINE {
      constexpr int kCount = decltype(rows)::value;
      float factors[kRows][kCount];
      for (int m = 0; m < kRows; ++m) {
        for (int r = 0; r < kCount; ++r) factors[m][r] = x[m * k + i + r];
      }
      for (int64_t v = 0; v < vectors; ++v) {
        const typename W::T* at = w + i * ldw + std::min(v * kLanes, columns - kLanes);
        V acc[kRows];
        for (int m = 0; m < kRows; ++m) acc[m] = i == first ? V{} : part[m][v];
        for (int r = 0; r < kCount; ++r) {
          V line;
          W::template Load<kLanes>(at + r * ldw, line);
          for (int m = 0; m < kRows; ++m) acc[m] += line * factors[m][r];
        }
        for (int m = 0; m < kRows; ++m) part[m][v] = acc[m];
      }
    };
    int64_t i = first;
    for (; i + kStep <= last; i += kStep) add(i, std::integral_constant<int, kStep>());
    for (; i < last; ++i) add(i, std::integral_constant<int, 1>());
    for (int m = 0; m < kRows; ++m) {
      for (int64_t v = 0; v < vectors; ++v) sums[m][v] = first == 0 ? part[m][v] : sums[m][v] + part[m][v];
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int64_t v = 0; v < vectors; ++v) {
      std::memcpy(y + m * ldy + std::min(v * kLanes, columns - kLanes), &sums[m][v], sizeof(V));
    }
  }
}

// Fewer columns than the shortest vector has lanes. They run in one vector, so that sums and products are fused here as
// elsewhere.
template <typename W, int kRows, int kColumns>
SMELT_INLINE void LastColumns(int64_t k, const float* x, const typename W::T* w, int64_t ldw, float* y, int64_t ldy) {
  Vec<4> sum[2][kRows] = {};
  const auto add = [&](int64_t i, int odd) SMELT_ALWAYS_INLINE {
    Vec<4> line = {};
    for (int c = 0; c < kColumns; ++c) line[c] = W::One(w + i * ldw + c);
    for (int m = 0; m < kRows; ++m) sum[odd][m] += line * x[m * k + i];
  };
  int64_t i = 0;
  for (; i + 2 <= k; i += 2) {
    add(i, 0);
    add(i + 1, 1);
  }
  if (i < k) add(i, 0);
  for (int m = 0; m < kRows; ++m) {
    const Vec<4> total = sum[0][m] + sum[1][m];
    for (int c = 0; c < kColumns; ++c) y[m * ldy + c] = total[c];
  }
}

template <typename W, int kLanes, int kRows>
SMELT_INLINE void Plain(int64_t k, const float* x, const typename W::T* w, int64_t ldw, int64_t begin, int64_t end,
                        float* y, int64_t ldy) {
  constexpr int kWide = kRows == 1 ? 4 : kLanes == 16 || kRows == 2 ? 2 : 1;
  int64_t n = begin;
  // (This is the same for any number of rows, and so are a column's bits.)
  for (; end - n > 4 * kLanes; n += kGemvColumns)
    PlainTile<W, kLanes, kRows>(k, x, w + n, ldw, std::min(end - n, kGemvColumns), y + n, ldy);
  n = std::min(n, end);
  for (; n + kWide * kLanes <= end; n += kWide * kLanes)
    PlainBlock<W, kLanes, kRows, kWide>(k, x, w + n, ldw, y + n, ldy);
  if (kWide == 4 && n + 2 * kLanes <= end) {
    PlainBlock<W, kLanes, kRows, 2>(k, x, w + n, ldw, y + n, ldy);
    n += 2 * kLanes;
  }
  for (; n + kLanes <= end; n += kLanes) PlainBlock<W, kLanes, kRows, 1>(k, x, w + n, ldw, y + n, ldy);
  if constexpr (kLanes > 8) {
    if (n + 8 <= end) {
      PlainBlock<W, 8, kRows, 1>(k, x, w + n, ldw, y + n, ldy);
      n += 8;
    }
  }
  if constexpr (kLanes > 4) {
    if (n + 4 <= end) {
      PlainBlock<W, 4, kRows, 1>(k, x, w + n, ldw, y + n, ldy);
      n += 4;
    }
  }
  const auto last = [&](auto columns) SMELT_ALWAYS_INLINE {
    LastColumns<W, kRows, decltype(columns)::value>(k, x, w + n, ldw, y + n, ldy);
  };
  if (end - n == 3) last(std::integral_constant<int, 3>());
  if (end - n == 2) last(std::integral_constant<int, 2>());
  if (end - n == 1) last(std::integral_constant<int, 1>());
}

template <typename W, int kLanes, bool kTransposed>
SMELT_INLINE void Rows(int m, int64_t k, const float* x, const void* w, int64_t ldw, int64_t begin, int64_t end,
                       float* y, int64_t ldy) {
  const auto* p = static_cast<const typename W::T*>(w);
  if (kTransposed) {
    if (m == 1) return Transposed<W, kLanes, 1>(k, x, p, ldw, begin, end, y, ldy);
    if (m == 2) return Transposed<W, kLanes, 2>(k, x, p, ldw, begin, end, y, ldy);
    if (m == 3) return Transposed<W, kLanes, 3>(k, x, p, ldw, begin, end, y, ldy);
    return Transposed<W, kLanes, 4>(k, x, p, ldw, begin, end, y, ldy);
  }
  if (m == 1) return Plain<W, kLanes, 1>(k, x, p, ldw, begin, end, y, ldy);
  if (m == 2) return Plain<W, kLanes, 2>(k, x, p, ldw, begin, end, y, ldy);
  if (m == 3) return Plain<W, kLanes, 3>(k, x, p, ldw, begin, end, y, ldy);
  return Plain<W, kLanes, 4>(k, x, p, ldw, begin, end, y, ldy);
}

template <int kLanes, bool kTransposed>
SMELT_INLINE void Typed(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                        int64_t end, float* y, int64_t ldy) {
  if (dtype == DType::kFloat32) return Rows<F32, kLanes, kTransposed>(m, k, x, w, ldw, begin, end, y, ldy);
  if (dtype == DType::kBFloat16) return Rows<BF16, kLanes, kTransposed>(m, k, x, w, ldw, begin, end, y, ldy);
  Rows<F16, kLanes, kTransposed>(m, k, x, w, ldw, begin, end, y, ldy);
}

template <bool kTransposed>
SMELT_TARGET_V4 void RunV4(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                           int64_t end, float* y, int64_t ldy) {
  Typed<16, kTransposed>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}
template <bool kTransposed>
SMELT_TARGET_V3 void RunV3(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin,
                           int64_t end, float* y, int64_t ldy) {
  Typed<8, kTransposed>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}
template <bool kTransposed>
void RunBaseline(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin, int64_t end,
                 float* y, int64_t ldy) {
  Typed<4, kTransposed>(m, k, x, w, dtype, ldw, begin, end, y, ldy);
}

template <bool kTransposed>
void Dispatch(int m, int64_t k, const float* x, const void* w, DType dtype, int64_t ldw, int64_t begin, int64_t end,
              float* y, int64_t ldy) {
  SMELT_DCHECK(m >= 1);
  const auto run = LibraryLevel() == 4   ? RunV4<kTransposed>
                   : LibraryLevel() == 3 ? RunV3<kTransposed>
                                         : RunBaseline<kTransposed>;
  for (; m > 0; m -= kGemvRows, x += kGemvRows * k, y += kGemvRows * ldy)
    run(std::min(m, kGemvRows), k, x, w, dtype, ldw, begin, end, y, ldy);
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

namespace {

// Adds the products of `count` pairs of a row and those of a block to the sums of its columns.
template <int kBytes>
SMELT_INLINE void AddPairs(int64_t count, const float* x, const uint16_t* w, float* sums) {
  using V = typename Vector<float, kBytes>::Type;
  using Words = typename Vector<uint32_t, kBytes>::Type;
  constexpr int kLanes = kBytes / 4, kVectors = kBytes == 64 ? 4 : 2;
  for (int64_t j = 0; j < kBlockColumns; j += kLanes * kVectors) {
    V even[kVectors], odd[kVectors] = {};
    std::memcpy(even, sums + j, sizeof(even));
    const uint16_t* from = w + 2 * j;
    for (int64_t i = 0; i < count; ++i, from += 2 * kBlockColumns) {
      __builtin_prefetch(from + 16 * kBlockColumns);
      __builtin_prefetch(from + 16 * kBlockColumns + 64);
      for (int v = 0; v < kVectors; ++v) {
        Words both;
        std::memcpy(&both, from + v * 2 * kLanes, sizeof(both));
        even[v] += x[2 * i] * (V)(both << 16);
        odd[v] += x[2 * i + 1] * (V)(both & 0xffff0000u);
      }
    }
    for (int v = 0; v < kVectors; ++v) even[v] += odd[v];
    std::memcpy(sums + j, even, sizeof(even));
  }
}

}  // namespace

void GemvBlocks(int m, int64_t k, const float* x, const uint16_t* w, int64_t pairs, int64_t columns, float* y,
                int64_t ldy) {
  constexpr int64_t kPairs = 128;  // of a block, 32 KiB, which stay in the nearest cache for all rows
  AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
    for (int64_t j = 0; j < columns; j += kBlockColumns) {
      for (int r = 0; r < m; ++r) std::fill(y + r * ldy + j, y + r * ldy + j + kBlockColumns, 0.0f);
      for (int64_t i = 0; i < k / 2; i += kPairs) {
        for (int r = 0; r < m; ++r) {
          AddPairs<bytes>(std::min(kPairs, k / 2 - i), x + r * k + 2 * i, w + (j * pairs + i * kBlockColumns) * 2,
                          y + r * ldy + j);
        }
      }
    }
  });
}

}  // namespace smelt
