// Squares of a transposed operand: read in the order of memory, transposed in registers, and kept in a tile, while later
// memory is prefetched.
//
// Invariants: a tile's rows are the loop's, with `pitch` bytes from one to the next. With blocks (see emit_blocks.h) all
// requests wait for some cycles after the one before, and reads stay in order with them.
#ifndef SMELT_CODEGEN_EMIT_SQUARES_H_
#define SMELT_CODEGEN_EMIT_SQUARES_H_

#include <optional>
#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

// to[i][j] = from[j][i]: the addresses of its rows, and `pitch` and `stride`, the bytes from one to the next. For the
// lines to prefetch: the address of the first, and the distances to the next in the same row of a block and after its
// end.
struct Square {
  llvm::Value *from, *stride, *to, *pitch, *ahead, *step, *jump;
};

class SquareEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  SquareEmitter(KernelFunction& fn, const Schedule& plan);

  // nullopt: the kernel has no blocks.
  const std::optional<BlockShape>& block() const { return block_; }

  // If there are blocks, this is a function of its own: it is half of the machine code of such a kernel.
  void FillSquare(int param, const Square& square);
  // Loads `n` elements of a column of a transposed operand, which are adjacent or have another one between them.
  Value* LoadColumn(int param, int n, Value* from);
  // Transposes `rows`, vectors of elements of `item` bytes, and stores them from `to` on.
  void StoreSquare(int item, std::vector<Value*>& rows, Value* to, Value* pitch);
  // Returns the same number, seven cycles later.
  Value* Paced(Value* number) { return Paced(number, pace_); }
  // Moves to row `row` of the transposed operands, so that column `first` is the tile's first.
  void GoToTileRow(LoopContext& ctx, const std::vector<Value*>& tiles, Value* row, int64_t columns, Value* first);

 private:
  // One and zero, as values that the optimizer does not know; null: there are no blocks.
  struct Pace {
    Value *one = nullptr, *zero = nullptr;
  };

  Value* Paced(Value* number, const Pace& pace);
  void EmitSquare(int param, const Square& square, const Pace& pace);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const std::optional<BlockShape> block_;
  Pace pace_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_SQUARES_H_
