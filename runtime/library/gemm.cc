#include "smelt/runtime/library/gemm.h"

#include <algorithm>
#include <cstring>

#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/cpu_targets.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt {
namespace {

constexpr int64_t kDepth = 256;  // rows of b that are packed at a time: a panel stays in the nearest cache
constexpr int kRows = 4;         // of c in registers

template <typename T>
struct Product {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* c;
  int64_t c_row;
};

template <typename T, int kBytes>
struct Vector {
  typedef T Type __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
};

// `kHeight` rows and up to a panel's width of c: set, or added to.
template <typename T, int kBytes, int kVectors, int kHeight>
SMELT_INLINE void Tile(const Product<T>& p, int64_t depth, const T* a, const T* panel, T* c, int64_t columns,
                       bool add) {
  using V = typename Vector<T, kBytes>::Type;
  using U = typename Vector<T, kBytes>::Unaligned;
  constexpr int kLanes = Vector<T, kBytes>::kLanes, kWidth = kLanes * kVectors;
  V sum[kHeight][kVectors] = {};
  for (int64_t i = 0; i < depth; ++i) {
    V w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = *reinterpret_cast<const U*>(panel + i * kWidth + v * kLanes);
    for (int r = 0; r < kHeight; ++r) {
      const T x = a[r * p.a_row + i * p.a_col];
      for (int v = 0; v < kVectors; ++v) sum[r][v] += x * w[v];
    }
  }
  for (int r = 0; r < kHeight; ++r) {
    T* to = c + r * p.c_row;
    if (columns == kWidth) {
      for (int v = 0; v < kVectors; ++v) {
        U* line = reinterpret_cast<U*>(to + v * kLanes);
        *line = add ? *line + sum[r][v] : sum[r][v];
      }
      continue;
    }
    T line[kWidth];
    std::memcpy(line, sum[r], sizeof line);
    for (int64_t j = 0; j < columns; ++j) to[j] = add ? to[j] + line[j] : line[j];
  }
}

template <typename T, int kBytes, int kVectors>
SMELT_INLINE void Panels(const Product<T>& p) {
  constexpr int kWidth = Vector<T, kBytes>::kLanes * kVectors;
  T* panel = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kB, kDepth * kWidth * static_cast<int64_t>(sizeof(T))));
  for (int64_t j0 = 0; j0 < p.n; j0 += kWidth) {
    const int64_t columns = std::min<int64_t>(kWidth, p.n - j0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, p.k - k0);
      for (int64_t i = 0; i < depth; ++i) {
        const T* from = p.b + (k0 + i) * p.b_row + j0 * p.b_col;
        T* to = panel + i * kWidth;
        for (int64_t j = 0; j < columns; ++j) to[j] = from[j * p.b_col];
        for (int64_t j = columns; j < kWidth; ++j) to[j] = 0;
      }
      const T* a = p.a + k0 * p.a_col;
      T* c = p.c + j0;
      int64_t i = 0;
      for (; i + kRows <= p.m; i += kRows) {
        Tile<T, kBytes, kVectors, kRows>(p, depth, a + i * p.a_row, panel, c + i * p.c_row, columns, k0 > 0);
      }
      for (; i < p.m; ++i) {
        Tile<T, kBytes, kVectors, 1>(p, depth, a + i * p.a_row, panel, c + i * p.c_row, columns, k0 > 0);
      }
    }
  }
}

// Panels no wider than c.
template <typename T, int kBytes>
SMELT_INLINE void Widths(const Product<T>& p) {
  constexpr int kLanes = Vector<T, kBytes>::kLanes;
  if (p.n <= kLanes) return Panels<T, kBytes, 1>(p);
  Panels<T, kBytes, 2>(p);
}

template <typename T>
SMELT_TARGET_V4 void RunV4(const Product<T>& p) {
  if (p.n <= Vector<T, 32>::kLanes) return Panels<T, 32, 1>(p);
  Widths<T, 64>(p);
}
template <typename T>
SMELT_TARGET_V3 void RunV3(const Product<T>& p) {
  Widths<T, 32>(p);
}
template <typename T>
void RunBaseline(const Product<T>& p) {
  Widths<T, 16>(p);
}

template <typename T>
void Run(const Product<T>& p) {
  static const int kLevel = CpuLevel() == "x86-64-v4" ? 4 : CpuLevel() == "x86-64-v3" ? 3 : 1;
  const auto run = kLevel == 4 ? RunV4<T> : kLevel == 3 ? RunV3<T> : RunBaseline<T>;
  run(p);
}

}  // namespace

void Gemm(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_col, const double* b,
          int64_t b_row, int64_t b_col, double* c, int64_t c_row) {
  Run<double>({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row});
}

void Gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b, int64_t b_row,
          int64_t b_col, float* c, int64_t c_row) {
  Run<float>({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row});
}

}  // namespace smelt
