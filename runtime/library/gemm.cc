#include "smelt/runtime/library/gemm.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/cpu_targets.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/library/transpose.h"

namespace smelt {
namespace {

constexpr int64_t kDepth = 256;  // rows of b that are multiplied at a time: a panel of them stays in the near caches
constexpr int64_t kLine = 64;    // bytes

template <typename T>
struct Product {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;  // packed or not
  int64_t b_row, b_col;
  T* c;
  int64_t c_row;
  int64_t begin, end;  // columns
  bool add = false;    // to c
};

// The memory to prefetch during a product: its next line, and the number of lines at each fourth step.
struct Ahead {
  const char* next = nullptr;
  const char* end = nullptr;
  int64_t lines = 0;

  SMELT_INLINE void Ask() {
    for (int64_t i = 0; i < lines && next < end; ++i, next += kLine) __builtin_prefetch(next, 0, 2);
  }
};

// As many whole vectors of `kBytes` as there are, then vectors of half that size.
template <typename T, int kBytes>
SMELT_INLINE void StoreVectors(T* to, const T* line, int64_t columns, bool add) {
  using U = typename Vector<T, kBytes>::Unaligned;
  int64_t j = 0;
  for (; j + Vector<T, kBytes>::kLanes <= columns; j += Vector<T, kBytes>::kLanes) {
    U* place = reinterpret_cast<U*>(to + j);
    const U values = *reinterpret_cast<const U*>(line + j);
    *place = add ? *place + values : values;
  }
  if constexpr (kBytes > static_cast<int>(sizeof(T))) {
    StoreVectors<T, kBytes / 2>(to + j, line + j, columns - j, add);
  }
}

// Stores, or adds to c, the first `columns` of `rows` lines of sums. One function for all tiles: it runs for the last
// columns alone, and would be most of their code.
template <typename T>
__attribute__((noinline)) void StorePart(T* c, int64_t c_row, const T* lines, int64_t lanes, int rows, int64_t columns,
                                         bool add) {
  for (int r = 0; r < rows; ++r) StoreVectors<T, 16>(c + r * c_row, lines + r * lanes, columns, add);
}

// Returns where the panel's vector v begins in a row of c. In an overlapping panel the last vector ends with the
// columns: some columns are in two vectors, with equal values, and no vector is stored in part.
template <int kLanes, bool kOverlaps>
SMELT_INLINE int64_t PlaceOf(int64_t v, int64_t columns) {
  return kOverlaps ? std::min(v * kLanes, columns - kLanes) : v * kLanes;
}

// Computes `kHeight` rows and `kVectors` vectors of columns of c, and stores (or adds to c) the first `columns`. Rows
// of the panel are `width` elements apart.
template <typename T, int kBytes, int kVectors, int kHeight, bool kOverlaps>
SMELT_INLINE void Tile(const Product<T>& p, int64_t depth, const T* a, const T* panel, int64_t width, T* c,
                       int64_t columns, bool add, Ahead& ahead) {
  using V = typename Vector<T, kBytes>::Type;
  using U = typename Vector<T, kBytes>::Unaligned;
  constexpr int kLanes = Vector<T, kBytes>::kLanes;
  constexpr int kUnrolled = 4;
  // Unrolled by name: sums that a loop indexes during register allocation stay in memory.
  V sum[kHeight][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kHeight; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = V{};
  }
  const int64_t row = p.a_row, col = p.a_col;
  const auto step = [&]() SMELT_ALWAYS_INLINE {
    V w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = *reinterpret_cast<const U*>(panel + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kHeight; ++r) {
      const T x = a[r * row];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] += x * w[v];
    }
    a += col;
    panel += width;
  };
  int64_t i = 0;
  for (; i + kUnrolled <= depth; i += kUnrolled) {
    ahead.Ask();
#pragma GCC unroll 8
    for (int u = 0; u < kUnrolled; ++u) step();
  }
  for (; i < depth; ++i) step();
  T part[kOverlaps ? 1 : kHeight][kLanes];  // the sums of a vector that only begins within the columns
#pragma GCC unroll 8
  for (int r = 0; r < kHeight; ++r) {
    T* to = c + r * p.c_row;
    // All vectors are read before any is written.
    V old[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const int64_t place = PlaceOf<kLanes, kOverlaps>(v, columns);
      if (add && (kOverlaps || place + kLanes <= columns)) old[v] = *reinterpret_cast<const U*>(to + place);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const int64_t place = PlaceOf<kLanes, kOverlaps>(v, columns);
      if (kOverlaps || place + kLanes <= columns) {
        *reinterpret_cast<U*>(to + place) = add ? old[v] + sum[r][v] : sum[r][v];
      } else if (place < columns) {
        std::memcpy(part[r], &sum[r][v], sizeof(V));
      }
    }
  }
  const int64_t whole = columns / kLanes * kLanes;
  if (kOverlaps || columns >= kLanes * kVectors || whole == columns) return;
  if (kVectors > 1) {
    StorePart(c + whole, p.c_row, part[0], kLanes, kHeight, columns - whole, add);
  } else {
    // Where a row is one vector, the call would be felt.
#pragma GCC unroll 1
    for (int r = 0; r < kHeight; ++r) StoreVectors<T, kBytes>(c + r * p.c_row, part[r], columns, add);
  }
}

// Computes all rows of up to `kVectors` vectors of columns, `kRows` at a time.
template <typename T, int kBytes, int kVectors, int kRows, bool kOverlaps>
SMELT_INLINE void Rows(const Product<T>& p, int64_t depth, const T* a, const T* panel, int64_t width, T* c,
                       int64_t columns, bool add, Ahead& ahead) {
  int64_t i = 0;
  for (; i + kRows <= p.m; i += kRows)
    Tile<T, kBytes, kVectors, kRows, kOverlaps>(p, depth, a + i * p.a_row, panel, width, c + i * p.c_row, columns, add,
                                                ahead);
  if constexpr (kRows > 4) {
    for (; i + 4 <= p.m; i += 4)
      Tile<T, kBytes, kVectors, 4, kOverlaps>(p, depth, a + i * p.a_row, panel, width, c + i * p.c_row, columns, add,
                                              ahead);
    for (; i + 2 <= p.m; i += 2)
      Tile<T, kBytes, kVectors, 2, kOverlaps>(p, depth, a + i * p.a_row, panel, width, c + i * p.c_row, columns, add,
                                              ahead);
  }
  for (; i < p.m; ++i)
    Tile<T, kBytes, kVectors, 1, kOverlaps>(p, depth, a + i * p.a_row, panel, width, c + i * p.c_row, columns, add,
                                            ahead);
}

// A panel of any width, by as many vectors as its columns fill.
template <typename T, int kBytes, int kVectors, int kRows>
SMELT_INLINE void Panel(const Product<T>& p, int64_t depth, const T* a, const T* panel, int64_t width, T* c,
                        int64_t columns, bool add, Ahead& ahead) {
  constexpr int64_t kLanes = Vector<T, kBytes>::kLanes;
  for (int64_t j = 0; j < columns; j += kLanes * kVectors) {
    const int64_t left = columns - j;
    if (left <= kLanes) {
      Rows<T, kBytes, 1, kRows, false>(p, depth, a, panel + j, width, c + j, left, add, ahead);
    } else if (kVectors > 2 && left <= 2 * kLanes) {
      Rows<T, kBytes, 2, kRows, false>(p, depth, a, panel + j, width, c + j, left, add, ahead);
    } else {
      Rows<T, kBytes, kVectors, kRows, false>(p, depth, a, panel + j, width, c + j, left, add, ahead);
    }
  }
}

// Multiplies by a b that is not packed; one panel at a time is packed here. c has one vector of columns, or kVectors of
// which the last may begin within the one before.
template <typename T, int kBytes, int kVectors, int kRows>
SMELT_INLINE void Unpacked(const Product<T>& p) {
  constexpr int64_t kLanes = Vector<T, kBytes>::kLanes, kWidth = kLanes * kVectors;
  constexpr bool kOverlaps = kVectors > 1;
  T* panel = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kB, kDepth * kWidth * static_cast<int64_t>(sizeof(T))));
  Ahead nothing;
  int64_t columns;
  for (int64_t j0 = 0; j0 < p.n; j0 += columns) {
    // The last panel has at least a vector.
    const int64_t left = p.n - j0;
    columns = left >= kWidth + kLanes ? kWidth : left > kWidth ? (left + 1) / 2 : left;
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, p.k - k0);
      for (int64_t i = 0; i < depth; ++i) {
        const T* from = p.b + (k0 + i) * p.b_row + j0 * p.b_col;
        T* to = panel + i * kWidth;
        if (p.b_col == 1 && columns >= kLanes) {
          for (int v = 0; v < kVectors; ++v) {
            std::memcpy(to + v * kLanes, from + PlaceOf<kLanes, kOverlaps>(v, columns), kBytes);
          }
          continue;
        }
        for (int v = 0; v < kVectors; ++v) {
          const T* at = from + PlaceOf<kLanes, kOverlaps>(v, columns) * p.b_col;
          for (int64_t j = 0; j < kLanes; ++j)
            to[v * kLanes + j] = v * kLanes + j < columns || kOverlaps ? at[j * p.b_col] : 0;
        }
      }
      Rows<T, kBytes, kVectors, kRows, kOverlaps>(p, depth, p.a + k0 * p.a_col, panel, kWidth, p.c + j0, columns,
                                                  k0 > 0, nothing);
    }
  }
}

template <typename T, int kBytes, int kVectors, int kRows>
SMELT_INLINE void Packed(const Product<T>& p) {
  constexpr int64_t kSteps = kDepth / 4;  // of a tile's that ask for what is ahead
  constexpr int64_t kWidth = Vector<T, kBytes>::kLanes * kVectors;
  const int64_t tiles = (p.m + kRows - 1) / kRows;
  const char* end = reinterpret_cast<const char*>(p.b + (p.end + kWidth - 1) / kWidth * kWidth * p.k);
  for (int64_t j0 = p.begin; j0 < p.end; j0 += kWidth) {
    const int64_t columns = std::min(kWidth, p.end - j0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, p.k - k0);
      const T* panel = p.b + j0 * p.k + k0 * kWidth;
      Ahead ahead;
      ahead.next = reinterpret_cast<const char*>(panel + depth * kWidth);
      ahead.end = end;
      constexpr int64_t kLines = kDepth * kWidth * static_cast<int64_t>(sizeof(T)) / kLine;
      ahead.lines = (kLines + tiles * kSteps - 1) / (tiles * kSteps);
      Panel<T, kBytes, kVectors, kRows>(p, depth, p.a + k0 * p.a_col, panel, kWidth, p.c + j0, columns, p.add || k0 > 0,
                                        ahead);
    }
  }
}

#if defined(__aarch64__)
// On AArch64 an instruction multiplies a vector by one lane of another. A tile has 16 accumulators: 4 vectors of each of
// 4 rows, or, of at most half a panel's columns, 2 vectors of each of 8 rows. It loads 4 adjacent factors of a row, or of
// a column, with one instruction, and a line of its panel with one, too: 1.3 instructions for each that multiplies and
// adds. The last 4 rows of a half panel take a tile of 8 accumulators. Tiles are as few functions as possible, since each
// is long. What is beyond the last row or column is computed and left out.
constexpr int kMostTileRows = 8;
template <typename T>
constexpr int kTileColumns = 64 / static_cast<int>(sizeof(T));
// There is no product of vectors of 64-bit integers.
template <typename T>
constexpr bool kHasTiles = !std::is_same_v<T, uint64_t>;

inline float32x4x4_t LoadFour(const float* p) { return vld1q_f32_x4(p); }
inline float64x2x4_t LoadFour(const double* p) { return vld1q_f64_x4(p); }
inline uint32x4x4_t LoadFour(const uint32_t* p) { return vld1q_u32_x4(p); }
inline float32x4x2_t LoadTwo(const float* p) { return vld1q_f32_x2(p); }
inline uint32x4x2_t LoadTwo(const uint32_t* p) { return vld1q_u32_x2(p); }

using Doubles = Vector<double, 16>::Type;
// Loads two adjacent vectors and moves the pointer to the next line of a panel, by one instruction. gcc 12 would use two, which
// counts in half tiles of float64: there a load serves few products.
inline void LoadTwoOfLine(const double*& p, Doubles& first, Doubles& second) {
  asm volatile("ldp %q0, %q1, [%2], #64" : "=w"(first), "=w"(second), "+r"(p) : : "memory");
}
// Loads a vector and moves the pointer behind it. The empty statement keeps gcc from computing all addresses from one counter,
// in more instructions.
inline void LoadNext(const double*& p, Doubles& next) {
  next = *reinterpret_cast<const Vector<double, 16>::Unaligned*>(p);
  p += 2;
  asm("" : "+r"(p));
}

// The factors of a tile: those of row r and step i at rows[r] + i, or, by columns, at rows[0] + i * step + r.
template <typename T>
struct Factors {
  const T* rows[kMostTileRows] = {};
  int64_t step = 0;
};

// Stores, or adds to c, kVectors vectors of each of kRows rows. Lines of the panel have kTileColumns columns. With
// float32, of which b may be packed, each fourth step asks for a line of memory.
template <typename T, int kRows, int kVectors, bool kByColumns>
__attribute__((noinline)) void LaneTile(int64_t depth, Factors<T> a, const T* panel, const char* ahead, T* c,
                                        int64_t c_row, bool add) {
  using V = typename Vector<T, 16>::Type;
  using U = typename Vector<T, 16>::Unaligned;
  constexpr int kLanes = Vector<T, 16>::kLanes;
  // With more steps of float64, or of integers by columns, gcc 12 copies accumulators between registers.
  constexpr int kUnrolled = kLanes == 2 || (kByColumns && std::is_integral_v<T>) ? 2 : 4;
  // Factors are loaded a vector at a time: of some steps of a row, or of some rows of a step.
  constexpr int kSteps = kByColumns ? 1 : kLanes, kLoads = kByColumns ? kRows / kLanes : kRows;
  constexpr bool kMovesByLoads = std::is_same_v<T, double> && kVectors == 2;
  V sum[kRows][kVectors] = {};
  const auto multiply = [&](const auto& factor) SMELT_ALWAYS_INLINE {
    V w[kVectors];
    if constexpr (kVectors == 4) {
      const auto line = LoadFour(panel);
      for (int v = 0; v < kVectors; ++v) w[v] = line.val[v];
    } else if constexpr (kMovesByLoads) {
      LoadTwoOfLine(panel, w[0], w[1]);
    } else {
      const auto line = LoadTwo(panel);
      for (int v = 0; v < kVectors; ++v) w[v] = line.val[v];
    }
    if constexpr (!kMovesByLoads) panel += kTileColumns<T>;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] += factor(r) * w[v];
        // Left to itself, gcc adds the products of integers to each other first, and copies sums of half tiles of float64
        // between registers.
        if constexpr (std::is_integral_v<T> || kMovesByLoads) asm("" : "+w"(sum[r][v]));
      }
    }
  };
  int64_t i = depth / kUnrolled * kUnrolled;
  for (int64_t left = depth / kUnrolled; left > 0; --left) {
    if constexpr (std::is_same_v<T, float>) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += kLine;
    }
#pragma GCC unroll 4
    for (int u = 0; u < kUnrolled; u += kSteps) {
      V factors[kLoads];
#pragma GCC unroll 8
      for (int l = 0; l < kLoads; ++l) {
        if constexpr (kMovesByLoads && !kByColumns) {
          LoadNext(a.rows[l], factors[l]);
        } else {
          factors[l] = *reinterpret_cast<const U*>(kByColumns ? a.rows[0] + l * kLanes : a.rows[l] + u);
        }
      }
      if constexpr (kByColumns) a.rows[0] += a.step;
#pragma GCC unroll 4
      for (int s = 0; s < kSteps; ++s) {
        multiply([&](int r)
                     SMELT_ALWAYS_INLINE { return kByColumns ? factors[r / kLanes][r % kLanes] : factors[r][s]; });
      }
    }
    if constexpr (!kByColumns && !kMovesByLoads) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) a.rows[r] += kUnrolled;
    }
  }
  for (; i < depth; ++i) {
    multiply([&](int r) SMELT_ALWAYS_INLINE { return kByColumns ? a.rows[0][r] : *a.rows[r]; });
    for (int r = 0; r < (kByColumns ? 1 : kRows); ++r) a.rows[r] += kByColumns ? a.step : 1;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      U* to = reinterpret_cast<U*>(c + r * c_row + v * kLanes);
      *to = add ? *to + sum[r][v] : sum[r][v];
    }
  }
}

template <typename T, bool kByColumns>
auto LaneTileOf(bool narrow, int64_t rows) {
  if (!narrow) return LaneTile<T, 4, 4, kByColumns>;
  return rows == 8 ? LaneTile<T, 8, 2, kByColumns> : LaneTile<T, 4, 2, kByColumns>;
}

// Computes all rows of a panel's columns.
template <typename T>
void LaneRows(const Product<T>& p, int64_t depth, const T* a, const T* panel, const char* ahead, int64_t ahead_step,
              T* c, int64_t columns, bool add) {
  constexpr int64_t kColumns = kTileColumns<T>;
  const bool narrow = columns <= kColumns / 2;
  T block[kDepth * kMostTileRows], lines[kMostTileRows * kColumns];
  for (int64_t i = 0, tile_rows; i < p.m; i += tile_rows, ahead += ahead_step) {
    tile_rows = narrow && p.m - i > 4 ? 8 : 4;
    const int64_t rows = std::min(tile_rows, p.m - i);
    const T* from = a + i * p.a_row;
    Factors<T> factors;
    bool by_columns = false;
    if (p.a_col == 1) {
      for (int64_t r = 0; r < tile_rows; ++r) factors.rows[r] = from + (r < rows ? r * p.a_row : 0);
    } else {
      by_columns = true;
      factors.rows[0] = from;
      factors.step = p.a_col;
      if (p.a_row != 1 || rows < tile_rows) {
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t r = 0; r < tile_rows; ++r)
            block[k * tile_rows + r] = r < rows ? from[r * p.a_row + k * p.a_col] : T(0);
        }
        factors.rows[0] = block;
        factors.step = tile_rows;
      }
    }
    const bool whole = rows == tile_rows && columns == kColumns;
    T* to = whole ? c + i * p.c_row : lines;
    const int64_t to_row = whole ? p.c_row : kColumns;
    const auto tile = by_columns ? LaneTileOf<T, true>(narrow, tile_rows) : LaneTileOf<T, false>(narrow, tile_rows);
    tile(depth, factors, panel, ahead, to, to_row, whole && add);
    for (int64_t r = 0; !whole && r < rows; ++r)
      StoreVectors<T, 16>(c + (i + r) * p.c_row, lines + r * kColumns, columns, add);
  }
}

// Copies a panel of b's columns from j0 on and rows from k0 on, with zeros behind the last column.
template <typename T>
void PackPanel(const Product<T>& p, int64_t j0, int64_t columns, int64_t k0, int64_t depth, T* panel) {
  constexpr int64_t kColumns = kTileColumns<T>;
  const T* b = p.b + k0 * p.b_row + j0 * p.b_col;
  if (sizeof(T) == 4 && p.b_row == 1 && p.b_col != 1) {
    if (columns < kColumns) std::fill(panel, panel + depth * kColumns, T(0));
    return Transpose4ByteElements(columns, depth, b, p.b_col, panel, kColumns);
  }
  for (int64_t i = 0; i < depth; ++i, b += p.b_row, panel += kColumns) {
    if (p.b_col == 1 && columns == kColumns) {
      std::memcpy(panel, b, kColumns * sizeof(T));
      continue;
    }
    for (int64_t j = 0; j < kColumns; ++j) panel[j] = j < columns ? b[j * p.b_col] : T(0);
  }
}

// Multiplies by a b in panels, or by one of which a panel at a time is packed here.
template <typename T>
void MultiplyByLanes(const Product<T>& p, bool packed) {
  constexpr int64_t kColumns = kTileColumns<T>;
  T* own = nullptr;
  if (!packed) {
    own = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kB, kDepth * kColumns * static_cast<int64_t>(sizeof(T))));
  }
  for (int64_t j0 = p.begin; j0 < p.end; j0 += kColumns) {
    const int64_t columns = std::min(kColumns, p.end - j0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, p.k - k0);
      const T* panel = packed ? p.b + j0 * p.k + k0 * kColumns : own;
      if (!packed) PackPanel(p, j0, columns, k0, depth, own);
      // The tiles ask for the next panel together, a part each.
      const char* ahead = reinterpret_cast<const char*>(packed ? panel + depth * kColumns : panel);
      LaneRows(p, depth, p.a + k0 * p.a_col, panel, ahead, packed ? depth / 4 * kLine : 0, p.c + j0, columns,
               p.add || k0 > 0);
    }
  }
}
#endif

// The case in which c's columns fill one vector, or vectors that overlap by less than one.
template <typename T, int kBytes>
SMELT_INLINE void Widths(const Product<T>& p) {
  constexpr int64_t kLanes = Vector<T, kBytes>::kLanes;
  if (p.n > kLanes) return Unpacked<T, kBytes, 2, 4>(p);
  if constexpr (kBytes > 16) {
    if (p.n < kLanes) return Widths<T, kBytes / 2>(p);
  }
  Unpacked<T, kBytes, 1, 4>(p);
}

template <typename T>
SMELT_TARGET_V4 void RunV4(const Product<T>& p) {
  Widths<T, 64>(p);
}
template <typename T>
SMELT_TARGET_V3 void RunV3(const Product<T>& p) {
  Widths<T, 32>(p);
}
template <typename T>
void RunBaseline(const Product<T>& p) {
#if defined(__aarch64__)
  if constexpr (kHasTiles<T>) return MultiplyByLanes(p, /*packed=*/false);
#endif
  Widths<T, 16>(p);
}

// There are as many accumulators as registers for them. A panel is as wide as a tile, and so is contiguous: lines that
// are further apart fall on fewer sets of the nearest cache.
SMELT_TARGET_V4 void PackedV4(const Product<float>& p) { Packed<float, 64, 4, 6>(p); }
SMELT_TARGET_V3 void PackedV3(const Product<float>& p) { Packed<float, 32, 2, 6>(p); }
#if defined(__aarch64__)
void PackedBaseline(const Product<float>& p) { MultiplyByLanes(p, /*packed=*/true); }
constexpr int64_t kBaselineWidth = kTileColumns<float>;
#else
void PackedBaseline(const Product<float>& p) { Packed<float, 16, 2, 4>(p); }
constexpr int64_t kBaselineWidth = 8;
#endif

// The packed form of the machine's level: the columns of a panel, and the product that reads such panels.
struct PackedForm {
  int64_t width;
  void (*multiply)(const Product<float>& p);
};
PackedForm PackedFormOfLevel() {
  if (LibraryLevel() == 4) return {64, PackedV4};
  if (LibraryLevel() == 3) return {16, PackedV3};
  return {kBaselineWidth, PackedBaseline};
}

template <typename T>
void Run(const Product<T>& p) {
  const auto run = LibraryLevel() == 4 ? RunV4<T> : LibraryLevel() == 3 ? RunV3<T> : RunBaseline<T>;
  run(p);
}

}  // namespace

void Gemm(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_col, const double* b,
          int64_t b_row, int64_t b_col, double* c, int64_t c_row) {
  Run<double>({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, 0, n});
}

void Gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* b, int64_t b_row,
          int64_t b_col, float* c, int64_t c_row) {
  Run<float>({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, 0, n});
}

void Gemm(int64_t m, int64_t n, int64_t k, const uint64_t* a, int64_t a_row, int64_t a_col, const uint64_t* b,
          int64_t b_row, int64_t b_col, uint64_t* c, int64_t c_row) {
  Run<uint64_t>({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, 0, n});
}

void Gemm(int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t a_row, int64_t a_col, const uint32_t* b,
          int64_t b_row, int64_t b_col, uint32_t* c, int64_t c_row) {
  Run<uint32_t>({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, 0, n});
}

int64_t PanelWidth() { return PackedFormOfLevel().width; }

int64_t PackedElements(int64_t k, int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * k; }

namespace {

template <typename T>
void Pack(int64_t k, int64_t n, const T* b, int64_t b_row, int64_t b_col, T* packed) {
  const int64_t width = PanelWidth();
  const int64_t all = PackedElements(k, n) / std::max<int64_t>(k, 1);
  for (int64_t j0 = 0; j0 < all; j0 += width) {
    const int64_t columns = std::clamp<int64_t>(n - j0, 0, width);
    T* to = packed + j0 * k;
    // Follows the operand's lines: a row of the panel, or a line of one column after the other.
    if (b_col == 1 || b_row != 1) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < columns; ++j) to[i * width + j] = b[i * b_row + (j0 + j) * b_col];
      }
    } else {
      constexpr int64_t kElements = kLine / static_cast<int64_t>(sizeof(T));
      for (int64_t i0 = 0; i0 < k; i0 += kElements) {
        const int64_t end = std::min(k, i0 + kElements);
        for (int64_t j = 0; j < columns; ++j) {
          for (int64_t i = i0; i < end; ++i) to[i * width + j] = b[i + (j0 + j) * b_col];
        }
      }
    }
    for (int64_t i = 0; i < k; ++i) std::fill(to + i * width + columns, to + (i + 1) * width, T(0));
  }
}

}  // namespace

void PackRight(int64_t k, int64_t n, const float* b, int64_t b_row, int64_t b_col, float* packed) {
  Pack(k, n, b, b_row, b_col, packed);
}
void PackRight(int64_t k, int64_t n, const uint16_t* b, int64_t b_row, int64_t b_col, uint16_t* packed) {
  Pack(k, n, b, b_row, b_col, packed);
}

void GemmPacked(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col, const float* packed,
                float* c, int64_t c_row, int64_t begin, int64_t end) {
  PackedFormOfLevel().multiply({m, n, k, a, a_row, a_col, packed, 0, 0, c, c_row, begin, end});
}

namespace {

// Multiplies one row by a panel of halves. What a row loads from memory is not worth a detour through the caches.
template <int kBytes, bool kBFloat16>
SMELT_INLINE void RowOfHalves(int64_t k, const float* a, const uint16_t* panel, float* sums) {
  using V = typename Vector<float, kBytes>::Type;
  constexpr int kLanes = kBytes / 4, kVectors = kBytes == 64 ? 4 : 2;  // PanelWidth
  V sum[kVectors] = {};
  for (int64_t i = 0; i < k; ++i, panel += kLanes * kVectors) {
    for (int v = 0; v < kVectors; ++v) {
      V w;
      if constexpr (kBFloat16) {
        LoadBFloat16<kLanes>(panel + v * kLanes, w);
      } else {
        LoadFloat16<kLanes>(panel + v * kLanes, w);
      }
      sum[v] += a[i] * w;
    }
  }
  std::memcpy(sums, sum, sizeof(sum));
}

}  // namespace

void GemmPackedHalves(int64_t m, int64_t n, int64_t k, const float* a, DType t, const uint16_t* packed, float* c,
                      int64_t c_row, int64_t begin, int64_t end) {
  const auto [width, multiply] = PackedFormOfLevel();
  auto* const panel =
      reinterpret_cast<float*>(Scratch::Get(ScratchUse::kB, kDepth * width * static_cast<int64_t>(sizeof(float))));
  for (int64_t j0 = begin; j0 < end; j0 += width) {
    if (m == 1 && LibraryLevel() > 1) {
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
        const uint16_t* const halves = packed + j0 * k;
        t == DType::kBFloat16 ? RowOfHalves<bytes, true>(k, a, halves, panel)
                              : RowOfHalves<bytes, false>(k, a, halves, panel);
      });
      std::memcpy(c + j0 - begin, panel, static_cast<size_t>(std::min(width, end - j0)) * sizeof(float));
      continue;
    }
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const int64_t depth = std::min(kDepth, k - k0);
      ToFloats(t, packed + j0 * k + k0 * width, 1, depth * width, panel);
      multiply({m, n, depth, a + k0, k, 1, panel, 0, 0, c + j0 - begin, c_row, 0, std::min(width, end - j0), k0 > 0});
    }
  }
}

}  // namespace smelt
