// Transposed operands of results that are too large for the cache. Such a loop is bound by memory, which it reads in
// two orders at once. It works on one block of rows and columns while the next one is prefetched into the second cache.
// The next block is the one below: in other pages of the operands that lie in the loop's order, and in the same pages
// of the rest.
//
// Three things decide the speed. Lines are prefetched in the order of their addresses, since the lines of a column are
// a row apart, often a power of two, and then share few places of every cache. They are prefetched one by one, between
// the loads and stores of the present block, as many as are used. And never many at once: a machine without room for
// another request drops it (a Zen 5 takes a million requests in .3 ms, which are 64 MB), so each request waits for some
// cycles after the one before.
#ifndef SMELT_CODEGEN_EMIT_BLOCKS_H_
#define SMELT_CODEGEN_EMIT_BLOCKS_H_

#include <functional>
#include <vector>

#include "smelt/codegen/emit_squares.h"
#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

// A place in the dims of rows and columns, and for each param the address of the place after its columns.
struct BlockPlace {
  llvm::Value *first_row, *first_column, *rows, *columns;
  std::vector<llvm::Value*> next_corner;
};

// Only for kernels whose schedule has blocks.
class BlockEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  BlockEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, SquareEmitter& squares)
      : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec), words_(words), squares_(squares), shape_(*squares.block()) {}

  // Returns whether this launch's results are too large for the cache, and each of their rows consists of whole lines
  // from its start on.
  Value* WritesWholeLines();
  // Emits whole squares: vectors(position, column, n) for n whole vectors from a column on that are stored
  // non-temporally. `corner` is the position of the place's first row.
  void EmitBlocks(const LoopContext& corner, const std::vector<Value*>& tiles, const BlockPlace& place,
                  const std::function<void(const LoopContext&, Value*, int)>& vectors);

 private:
  // Returns for each param the address of the first element of the block after the one that ends with row `next`.
  std::vector<Value*> NextBlock(const LoopContext& corner, const BlockPlace& place, Value* next);
  // Returns the address of element number `element` of the next block of a param, which starts at `ahead`, in the order
  // in which the elements lie.
  Value* InNextBlock(Value* ahead, int param, Value* element);
  // tile[i][j] = param[i, first_column + j] of a square. `number` counts the elements of the next block that were
  // prefetched.
  void FillBlockSquare(const LoopContext& ctx, int param, Value* next_block, Value* tile, Value* first_column,
                       Value* number);
  // Prefetches the next elements of the params that are read in the loop's order. Returns `from`, later.
  Value* PrefetchRow(const std::vector<Value*>& ahead, Value* from);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  SquareEmitter& squares_;
  const BlockShape shape_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_BLOCKS_H_
