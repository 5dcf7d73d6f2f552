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

// Buffers that are live at the same time do not overlap in memory. Constant sizes are packed greedily, largest first. A
// symbolic size reuses the memory of a dead buffer of provably equal size, or gets new memory. Takes O(n log n) plus
// conflicts.
ArenaLayout PackArena(const std::vector<ArenaBuffer>& buffers);

}  // namespace smelt

#endif  // SMELT_CODEGEN_ARENA_H_
