#include "smelt/runtime/library/transpose.h"

#include <algorithm>
#include <iterator>

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

// --- bytes ---

constexpr int kByteSide = 16;  // of a block in registers, of any level

typedef uint8_t ByteVec __attribute__((vector_size(16)));
typedef uint8_t UnalignedByteVec __attribute__((vector_size(16), aligned(1), may_alias));

// Interleaving row i with row i + 8 turns the bits of an element's number by one place; after four times rows and columns
// have changed places.
void ByteBlock(const uint8_t* from, int64_t from_step, uint8_t* to, int64_t to_step) {
  ByteVec a[kByteSide], b[kByteSide];
  for (int i = 0; i < kByteSide; ++i) a[i] = *reinterpret_cast<const UnalignedByteVec*>(from + i * from_step);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kByteSide / 2; ++i) {
      const ByteVec x = a[i], y = a[i + kByteSide / 2];
      b[2 * i] = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::copy(std::begin(b), std::end(b), std::begin(a));
  }
  for (int i = 0; i < kByteSide; ++i) *reinterpret_cast<UnalignedByteVec*>(to + i * to_step) = a[i];
}

void Bytes(int64_t rows, int64_t columns, const uint8_t* from, int64_t from_step, uint8_t* to, int64_t to_step) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
  }
}

}  // namespace

void Transpose4ByteElements(int64_t rows, int64_t columns, const void* from, int64_t from_step, void* to,
                            int64_t to_step) {
  (LibraryLevel() >= 3 ? RunV3 : RunBaseline)(rows, columns, static_cast<const Element*>(from), from_step,
                                              static_cast<Element*>(to), to_step);
}

void TransposeBytes(int64_t rows, int64_t columns, const void* from, int64_t from_step, void* to, int64_t to_step) {
  const auto* const source = static_cast<const uint8_t*>(from);
  auto* const target = static_cast<uint8_t*>(to);
  const int64_t whole_rows = rows / kByteSide * kByteSide, whole = columns / kByteSide * kByteSide;
  for (int64_t r = 0; r < whole_rows; r += kByteSide) {
    for (int64_t c = 0; c < whole; c += kByteSide)
      ByteBlock(source + r * from_step + c, from_step, target + c * to_step + r, to_step);
  }
  Bytes(rows - whole_rows, whole, source + whole_rows * from_step, from_step, target + whole_rows, to_step);
  Bytes(rows, columns - whole, source + whole, from_step, target + whole * to_step, to_step);
}

}  // namespace smelt
