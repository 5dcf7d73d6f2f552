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

// Buffers whose lives overlap never overlap in memory. Constant sizes are packed greedily, largest first. A symbolic
// size takes over the place of a dead buffer of provably equal size, or a new one. Takes O(n log n) plus conflicts.
ArenaLayout PackArena(const std::vector<ArenaBuffer>& buffers);

}  // namespace smelt

#endif  // SMELT_CODEGEN_ARENA_H_
