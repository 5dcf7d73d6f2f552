// Transposed operands. If a load runs along another dim than the loop over columns, a tile of rows and columns is read
// in the order of memory, transposed in registers, and kept in a buffer that the loop then reads by columns. A store that
// runs along another dim writes such a buffer, which is then transposed and written in the order of memory.
//
// Invariant: a body gets a position at which the transposed operands' addresses are those of their tiles.
#ifndef SMELT_CODEGEN_EMIT_TILES_H_
#define SMELT_CODEGEN_EMIT_TILES_H_

#include <functional>
#include <optional>
#include <vector>

#include "smelt/codegen/emit_blocks.h"
#include "smelt/codegen/emit_squares.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

class TileEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  // row(position, lo, hi): the columns [lo, hi) of a row. vectors(position, column, n): n whole vectors from a column
  // on that are stored non-temporally.
  using RowBody = std::function<void(const LoopContext&, Value*, Value*)>;
  using VectorBody = std::function<void(const LoopContext&, Value*, int)>;

  TileEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words);

  // Loops over all tiles of the launch and all columns, of which there must be some.
  void EmitTiles(const LoopContext& ctx, const RowBody& row, const VectorBody& vectors);

 private:
  struct Columns {
    Value *first, *count, *end;
  };

  LoopContext RowOf(const LoopContext& ctx, Value* tile);
  // Emits `count` rows from row `from` of `corner` on.
  void EmitTile(const LoopContext& corner, const std::vector<Value*>& tiles, Value* from, Value* count,
                const Columns& columns, const RowBody& row);
  // tile[i][j] = param[i, first + j] for i < rows, j < columns; `from` is the address of row 0, column 0 of the tile.
  void FillTile(int param, Value* tile, Value* from, Value* rows, Value* columns);
  // param[i, first + j] = tile[i][j]
  void DrainTile(int param, Value* tile, Value* to, Value* rows, Value* columns);
  // Prefetches the same row of the next tile, for operands that lie in the loop's order.
  void PrefetchNextTile(const LoopContext& ctx, Value* column);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  SquareEmitter squares_;
  std::optional<BlockEmitter> blocks_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_TILES_H_
