#include "smelt/codegen/emit_tiles.h"

#include "smelt/codegen/transpose_registers.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// A tile with the elements of fewer vectors is not worth a transposed block.
constexpr int64_t kFewVectors = 2;

// Blocks within this many rows are taken column by column. One column of their transposed operands touches as many
// pages as the machine's TLB holds.
constexpr int64_t kBandRows = 512;

}  // namespace

void TileEmitter::FillTile(int param, Value* tile, Value* from, Value* rows, Value* columns) {
  const int item = ItemSize(s_.params[param].dtype);
  Type* element = fn_.MemType(s_.params[param].dtype);
  Value* stride = words_.stride(param, s_.parallel_rank - 1);  // bytes a column
  const int n = plan_.SquareSide(item);
  Type* vector = fn_.Vec(element, n);
  const llvm::Align align(item);
  const int64_t apart = ElementsApart(s_.params[param].strides[s_.parallel_rank - 2]);
  auto at = [&](Value* i, Value* j) {
    if (apart != 1) i = b_.CreateMul(i, b_.getInt64(apart));
    return b_.CreateGEP(element, b_.CreateGEP(b_.getInt8Ty(), from, b_.CreateMul(j, stride)), i);
  };
  auto to = [&](Value* i, Value* j) {
    return b_.CreateGEP(element, tile, b_.CreateAdd(b_.CreateMul(i, b_.getInt64(plan_.tiles.columns)), j));
  };
  Value* zero = b_.getInt64(0);
  Value* block_size = b_.getInt64(n);
  Value* whole_tile = b_.CreateICmpEQ(rows, b_.getInt64(plan_.tiles.rows));
  Value* has_blocks = b_.CreateICmpSGE(rows, block_size);
  Value* whole_columns = b_.CreateSelect(has_blocks, b_.CreateAnd(columns, b_.getInt64(-n)), zero);
  Value* pitch = b_.getInt64(plan_.tiles.columns * item);
  // The last block of rows ends with them.
  Value* last_rows = b_.CreateSub(rows, block_size);
  fn_.For(zero, whole_columns, block_size, [&](Value* j) {
    fn_.For(zero, rows, block_size, [&](Value* next) {
      Value* i = fn_.Min(next, last_rows);
      // The columns after these lie in other pages, which no prefetcher of the machine looks into. They are prefetched
      // in the order of memory, not in that of their use: columns are often a multiple of a page apart, and then all
      // fall on the same few places of the nearest cache.
      Value* element_of_group = b_.CreateMul(i, block_size);
      Value* column = b_.CreateUDiv(element_of_group, b_.getInt64(plan_.tiles.rows));
      Value* row = b_.CreateURem(element_of_group, b_.getInt64(plan_.tiles.rows));
      Value* ahead = at(row, b_.CreateAdd(b_.CreateAdd(j, block_size), column));
      const int64_t asked = blocks_ ? kLine : n * item;  // bytes at a time
      Value* step = b_.getInt64(asked * apart);
      // A tile that is cut off has shorter columns: one piece of each.
      ahead = b_.CreateSelect(whole_tile, ahead, at(i, b_.CreateAdd(j, block_size)));
      step = b_.CreateSelect(whole_tile, step, b_.CreateMul(stride, b_.getInt64(asked / (n * item))));
      squares_.FillSquare(param, {at(i, j), stride, to(i, j), pitch, ahead, step, step});
    });
  });
  // The columns that are left, and those of few rows: the last one stands for missing ones.
  const bool masks = apart == 1 && fn_.MasksNatively(element);
  auto blocks = [&]() -> Value* {
    Value* mask = fn_.MaskOf(fn_.Min(rows, block_size), n);
    fn_.For(whole_columns, columns, block_size, [&](Value* j) {
      fn_.For(zero, rows, block_size, [&](Value* next) {
        Value* i = b_.CreateSelect(has_blocks, fn_.Min(next, last_rows), zero);
        std::vector<Value*> block;
        for (int k = 0; k < n; ++k) {
          Value* difference = b_.CreateSub(columns, b_.getInt64(1));
          Value* column = fn_.Min(b_.CreateAdd(j, b_.getInt64(k)), difference);
          block.push_back(masks ? static_cast<Value*>(b_.CreateMaskedLoad(vector, at(i, column), align, mask,
                                                                          llvm::Constant::getNullValue(vector)))
                                : squares_.LoadColumn(param, n, at(i, column)));
        }
        squares_.StoreSquare(item, block, to(i, j), pitch);
      });
    });
    return nullptr;
  };
  // Very few elements, and elements without masks, are taken one by one.
  Value* is_worth_it = has_blocks;
  if (masks) is_worth_it = b_.CreateICmpSGE(b_.CreateMul(rows, columns), b_.getInt64(kFewVectors * n));
  fn_.IfElse(is_worth_it, blocks, [&]() -> Value* {
    fn_.For(zero, columns, b_.getInt64(1), [&](Value* j) {
      fn_.For(zero, rows, b_.getInt64(1), [&](Value* i) {
        Value* second = to(i, j);
        b_.CreateAlignedStore(b_.CreateAlignedLoad(element, at(i, j), align), second, align);
      });
    });
    return nullptr;
  });
}

// The last block of rows or columns ends with them: elements in two blocks are written twice.
void TileEmitter::DrainTile(int param, Value* tile, Value* to, Value* rows, Value* columns) {
  const int item = ItemSize(s_.params[param].dtype), n = plan_.SquareSide(item);
  Type* element = fn_.MemType(s_.params[param].dtype);
  Type* vector = fn_.Vec(element, n);
  const llvm::Align align(item);
  Value* stride = words_.stride(param, plan_.loop_dim);
  auto at = [&](Value* i, Value* j) {
    return b_.CreateGEP(element, b_.CreateGEP(b_.getInt8Ty(), to, b_.CreateMul(j, stride)), i);
  };
  auto from = [&](Value* i, Value* j) {
    return b_.CreateGEP(element, tile, b_.CreateAdd(b_.CreateMul(i, b_.getInt64(plan_.tiles.columns)), j));
  };
  Value* zero = b_.getInt64(0);
  Value* side = b_.getInt64(n);
  auto squares = [&]() -> Value* {
    Value* last_row = b_.CreateSub(rows, side);
    Value* last_column = b_.CreateSub(columns, side);
    fn_.For(zero, columns, side, [&](Value* next_column) {
      Value* j = fn_.Min(next_column, last_column);
      fn_.For(zero, rows, side, [&](Value* next_row) {
        Value* i = fn_.Min(next_row, last_row);
        std::vector<Value*> block;
        for (int k = 0; k < n; ++k)
          block.push_back(b_.CreateAlignedLoad(vector, from(b_.CreateAdd(i, b_.getInt64(k)), j), align));
        TransposeRegisters(b_, item, block);
        Value* place = at(i, j);
        for (Value* column : block) {
          b_.CreateAlignedStore(column, place, align);
          place = b_.CreateGEP(b_.getInt8Ty(), place, stride);
        }
      });
    });
    return nullptr;
  };
  Value* has_rows = b_.CreateICmpSGE(rows, side);
  Value* has_squares = b_.CreateAnd(has_rows, b_.CreateICmpSGE(columns, side));
  fn_.IfElse(has_squares, squares, [&]() -> Value* {
    fn_.For(zero, columns, b_.getInt64(1), [&](Value* j) {
      fn_.For(zero, rows, b_.getInt64(1), [&](Value* i) {
        Value* one = b_.CreateAlignedLoad(element, from(i, j), align);
        b_.CreateAlignedStore(one, at(i, j), align);
      });
    });
    return nullptr;
  });
}

void TileEmitter::PrefetchNextTile(const LoopContext& ctx, Value* column) {
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int param = static_cast<int>(k);
    if (!plan_.IsReadAsLoopRuns(param)) continue;
    const int64_t item = ItemSize(s_.params[k].dtype) * plan_.LinesApart(param);
    Value* at = b_.CreateGEP(b_.getInt8Ty(), ctx.addr[k], b_.CreateMul(column, b_.getInt64(item)));
    for (int64_t byte = 0; byte < plan_.tiles.columns * item; byte += kLine) {
      fn_.Prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), at, byte), /*nearest=*/false);
    }
  }
}

TileEmitter::TileEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words)
    : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec), words_(words), squares_(fn, plan) {
  if (squares_.block()) blocks_.emplace(fn, plan, words, squares_);
}

// Moves to the matrix of row `tile`, and to the row.
LoopContext TileEmitter::RowOf(const LoopContext& ctx, Value* tile) {
  const int d = s_.parallel_rank - 2;
  LoopContext row = ctx;
  Value* first = b_.CreateURem(tile, words_.size(d));
  Value* rest = d > 0 ? b_.CreateUDiv(tile, words_.size(d)) : nullptr;
  for (int k = d - 1; k >= 0; --k) {
    words_.AddIndex(row, k, k ? b_.CreateURem(rest, words_.size(k)) : rest);
    if (k) rest = b_.CreateUDiv(rest, words_.size(k));
  }
  words_.AddIndex(row, d, first);
  return row;
}

void TileEmitter::EmitTiles(const LoopContext& ctx, const RowBody& row, const VectorBody& vectors) {
  const int d = s_.parallel_rank - 2;  // the rows of tiles
  Value* by_blocks = blocks_ ? blocks_->WritesWholeLines() : nullptr;
  std::vector<Value*> tiles(s_.params.size(), nullptr);
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (!plan_.tiles.is_tiled[k]) continue;
    Type* element = fn_.MemType(s_.params[k].dtype);
    tiles[k] = fn_.Temporary(llvm::ArrayType::get(element, plan_.tiles.rows * plan_.tiles.columns));
  }
  AllocaInst* at = fn_.Variable(b_.getInt64Ty());
  b_.CreateStore(fn_.begin(), at);
  fn_.While([&] { return b_.CreateICmpSLT(fn_.Load(at), fn_.end()); },
            [&] {
              Value* start = fn_.Load(at);
              Value* rows = b_.CreateSub(words_.size(d), b_.CreateURem(start, words_.size(d)));
              rows = fn_.Min(rows, b_.CreateSub(fn_.end(), start));
              Value* a_tile = fn_.Min(rows, b_.getInt64(plan_.tiles.rows));
              rows = blocks_ ? b_.CreateSelect(by_blocks, fn_.Min(rows, b_.getInt64(kBandRows)), a_tile) : a_tile;
              Value* next = b_.CreateAdd(start, rows);
              b_.CreateStore(next, at);
              std::vector<Value*> next_corner;
              if (blocks_) next_corner = RowOf(ctx, next).addr;
              const LoopContext corner = RowOf(ctx, start);
              fn_.For(b_.getInt64(0), words_.size(plan_.loop_dim), b_.getInt64(plan_.tiles.columns), [&](Value* j) {
                Value* width = b_.CreateSub(words_.size(plan_.loop_dim), j);
                Value* columns = fn_.Min(width, b_.getInt64(plan_.tiles.columns));
                Value* end = b_.CreateAdd(j, columns);
                Value* done = b_.getInt64(0);
                if (blocks_) {
                  const BlockShape& block = *squares_.block();
                  Value* rest = b_.CreateAnd(columns, b_.getInt64(block.square_columns - 1));
                  Value* are_blocks = b_.CreateAnd(by_blocks, b_.CreateIsNull(rest));
                  done = b_.CreateSelect(are_blocks, b_.CreateAnd(rows, b_.getInt64(-block.square_rows)), done);
                  blocks_->EmitBlocks(corner, tiles, {corner.idx[d], j, done, columns, next_corner}, vectors);
                }
                fn_.For(done, rows, b_.getInt64(plan_.tiles.rows), [&](Value* from) {
                  Value* count = fn_.Min(b_.CreateSub(rows, from), b_.getInt64(plan_.tiles.rows));
                  EmitTile(corner, tiles, from, count, {j, columns, end}, row);
                });
              });
            });
}

void TileEmitter::EmitTile(const LoopContext& corner, const std::vector<Value*>& tiles, Value* from, Value* count,
                           const Columns& columns, const RowBody& row) {
  const int d = s_.parallel_rank - 2;
  LoopContext tile = corner;
  words_.AddIndex(tile, d, from);
  std::vector<Value*> places(tiles.size(), nullptr);
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (!plan_.tiles.is_tiled[k]) continue;
    Value* distance = b_.CreateMul(columns.first, words_.stride(k, plan_.loop_dim));
    places[k] = b_.CreateGEP(b_.getInt8Ty(), tile.addr[k], distance);
    if (s_.params[k].is_read) FillTile(static_cast<int>(k), tiles[k], places[k], count, columns.count);
  }
  fn_.For(b_.getInt64(0), count, b_.getInt64(1), [&](Value* i) {
    LoopContext inner = tile;
    words_.AddIndex(inner, d, i);
    inner.idx[d] = b_.CreateAdd(corner.idx[d], b_.CreateAdd(from, i));
    squares_.GoToTileRow(inner, tiles, i, plan_.tiles.columns, columns.first);
    PrefetchNextTile(inner, columns.end);
    row(inner, columns.first, columns.end);
  });
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (plan_.tiles.is_tiled[k] && plan_.written[k])
      DrainTile(static_cast<int>(k), tiles[k], places[k], count, columns.count);
  }
}

}  // namespace smelt
