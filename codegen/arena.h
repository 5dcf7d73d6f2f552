// Packs buffers that live for known intervals into one block of memory.
#ifndef SMELT_CODEGEN_ARENA_H_
#define SMELT_CODEGEN_ARENA_H_

#include <vector>

#include "smelt/core/symbol/expr.h"

namespace smelt {

struct ArenaBuffer {
  Expr bytes;
  int begin = 0, end = 0;  // live in [begin, end], positions in the program
};

struct ArenaLayout {
  std::vector<Expr> offsets;  // bytes, multiples of 64
  Expr bytes;
};

// Buffers that are live at the same time do not overlap in memory. Sizes that are multiples of one expression, such as
// all constants, or everything that grows with the batch, share a part of the arena. A size that is no such multiple, or a
// small one, shares the memory of dead buffers of equal size only. Takes O(n log n) plus n times the buffers that are alive
// at a time, and n * n steps besides for up to 2,048 buffers.
ArenaLayout PackArena(const std::vector<ArenaBuffer>& buffers);

}  // namespace smelt

#endif  // SMELT_CODEGEN_ARENA_H_
