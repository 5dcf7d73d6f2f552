#include "smelt/runtime/library/transpose.h"

#include <algorithm>

#include "smelt/runtime/library/cpu_targets.h"

namespace smelt {
namespace {

constexpr int kSide = 8;       // of a block in registers
constexpr int64_t kLine = 16;  // elements of a cache line

typedef uint32_t Vec __attribute__((vector_size(32)));
typedef uint32_t UnalignedVec __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t Element __attribute__((may_alias));

// Rows become columns in three rounds: single elements are exchanged, then pairs, then halves.
SMELT_INLINE void Block(const Element* from, int64_t from_step, Element* to, int64_t to_step) {
  Vec a[kSide], b[kSide];
  for (int i = 0; i < kSide; ++i) a[i] = *reinterpret_cast<const UnalignedVec*>(from + i * from_step);
  for (int i = 0; i < kSide; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < kSide; i += 4) {
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < kSide / 2; ++i) {
    *reinterpret_cast<UnalignedVec*>(to + i * to_step) =
        __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<UnalignedVec*>(to + (i + 4) * to_step) =
        __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

SMELT_INLINE void Elements(int64_t rows, int64_t columns, const Element* from, int64_t from_step, Element* to,
                           int64_t to_step) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
  }
}

// Bands have as many rows as a line has elements, so that each line of the result is written once, whole.
SMELT_INLINE void Transpose(int64_t rows, int64_t columns, const Element* from, int64_t from_step, Element* to,
                            int64_t to_step) {
  const int64_t whole = columns / kSide * kSide;
  for (int64_t r = 0; r < rows; r += kLine) {
    const int64_t height = std::min(kLine, rows - r), blocks = height / kSide * kSide;
    const Element* f = from + r * from_step;
    for (int64_t c = 0; c < whole; c += kSide) {
      for (int64_t i = 0; i < blocks; i += kSide) {
        Block(f + i * from_step + c, from_step, to + c * to_step + r + i, to_step);
      }
    }
    Elements(height - blocks, whole, f + blocks * from_step, from_step, to + r + blocks, to_step);
    Elements(height, columns - whole, f + whole, from_step, to + whole * to_step + r, to_step);
  }
}

SMELT_TARGET_V3 void RunV3(int64_t rows, int64_t columns, const Element* from, int64_t from_step, Element* to,
                           int64_t to_step) {
  Transpose(rows, columns, from, from_step, to, to_step);
}
void RunBaseline(int64_t rows, int64_t columns, const Element* from, int64_t from_step, Element* to, int64_t to_step) {
  Transpose(rows, columns, from, from_step, to, to_step);
}

}  // namespace

void Transpose4ByteElements(int64_t rows, int64_t columns, const void* from, int64_t from_step, void* to,
                            int64_t to_step) {
  (LibraryLevel() >= 3 ? RunV3 : RunBaseline)(rows, columns, static_cast<const Element*>(from), from_step,
                                              static_cast<Element*>(to), to_step);
}

}  // namespace smelt
