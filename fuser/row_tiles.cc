#include "smelt/fuser/row_tiles.h"

#include <cstddef>
#include <vector>

namespace smelt {

RowTiles RowTiles::Of(const KernelSpec& spec) {
  constexpr size_t kMost = 3;  // buffers, which share the room
  RowTiles tiles;
  tiles.is_tiled.assign(spec.params.size(), false);
  const int row = spec.parallel_rank - 1, along = spec.rank() - 1;
  if (row < 0 || spec.reduction_rank != 1 || spec.vector_dim != along || spec.sequential) return tiles;
  std::vector<bool> is_indexed(spec.params.size(), false);
  for (const KernelInstr& in : spec.instrs) {
    if (in.has_offset || in.has_guard) is_indexed[in.param] = true;
  }
  for (size_t p = 0; p < spec.params.size() && tiles.item_bytes.size() < kMost; ++p) {
    const KernelParam& param = spec.params[p];
    if (is_indexed[p] || param.strides[row] != StrideClass::kUnit || param.strides[along] != StrideClass::kAny)
      continue;
    tiles.is_tiled[p] = true;
    tiles.item_bytes.push_back(ItemSize(param.dtype));
  }
  return tiles;
}

bool RowTiles::HaveRoom(int64_t row_elements) const {
  if (row_elements > kBytes) return false;
  int64_t bytes = 0;
  for (int item : item_bytes) bytes += PitchOf(row_elements, item);
  return bytes * kRows <= kBytes;
}

}  // namespace smelt
