// Operands and results that lie across the rows of a kernel: elements of a row are far apart in memory, those of adjacent
// rows adjacent (softmax(x.t())). A kernel for a CPU that vectorizes along its rows transposes some rows of such a param
// at a time through a buffer of its own (codegen/emit_row_tiles.h).
//
//   const RowTiles tiles = RowTiles::Of(spec);
//   if (tiles.Takes(param) && tiles.HaveRoom(row_elements)) ...   // no other kernel need transpose it
#ifndef SMELT_FUSER_ROW_TILES_H_
#define SMELT_FUSER_ROW_TILES_H_

#include <cstdint>
#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

struct RowTiles {
  // The bytes of all buffers of a kernel together: they stay in the second cache.
  static constexpr int64_t kBytes = 272 << 10;
  // The number of rows in the buffers is a multiple of this: a cache line of float32.
  static constexpr int64_t kRows = 16;
  static constexpr int64_t kLine = 64;

  static RowTiles Of(const KernelSpec& spec);
  // Returns the bytes from one row to the next in a buffer. An odd number of lines: rows that were a power of two apart
  // would evict each other from the nearest cache.
  static int64_t PitchOf(int64_t row_elements, int64_t item_bytes) {
    return ((row_elements * item_bytes + kLine - 1) / kLine | 1) * kLine;
  }

  bool Takes(int param) const { return is_tiled[param]; }
  // Returns whether the buffers have room for kRows rows of so many elements.
  bool HaveRoom(int64_t row_elements) const;

  std::vector<bool> is_tiled;   // by param
  std::vector<int> item_bytes;  // of tiled params
};

}  // namespace smelt

#endif  // SMELT_FUSER_ROW_TILES_H_
