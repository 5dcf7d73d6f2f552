// Transposed operands. If a load runs along another dim than the loop over columns, a tile of rows and columns is read
// in the order of memory, transposed in registers, and kept in a buffer that the loop then reads by columns.
#include <algorithm>

#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/kernel_emitter.h"
#include "smelt/core/base/check.h"

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

void KernelEmitter::ChooseTiled() {
  tiled_.assign(s_.params.size(), false);
  const int p = s_.parallel_rank;
  if (!columns_ || lanes_ == 1 || p < 2 || s_.reduction_rank > 0 || s_.sequential) return;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const KernelParam& param = s_.params[k];
    // Elements three or four apart are read in order, three or four times.
    const StrideClass along = param.strides[p - 1];
    const bool apart = IsApart(along) && ElementsApart(along) <= 2;
    tiled_[k] = !written_[k] && apart && param.strides[p - 2] == StrideClass::kUnit;
  }
  for (const KernelInstr& in : s_.instrs) {
    if (in.op == KernelOp::kLoad && (in.has_offset || in.has_guard)) tiled_[in.param] = false;
  }
  // Their tiles stay in the second cache together.
  int room = 2;
  for (size_t k = 0; k < tiled_.size(); ++k) {
    if (tiled_[k] && room-- <= 0) tiled_[k] = false;
  }
  int item = 1;
  for (size_t k = 0; k < tiled_.size(); ++k) {
    if (!tiled_[k]) continue;
    has_tiles_ = true;
    item = std::max(item, ItemSize(s_.params[k].dtype));
  }
  const TileShape shape = f_.IsAvx2Only() ? kTileOfAvx2 : kTile;
  tile_rows_ = shape.bytes / item;
  tile_columns_ = shape.columns;
}

// tile[i][j] = param[i, first + j] for i < rows, j < columns; `from` is the address of row 0, column 0 of the tile.
void KernelEmitter::FillTile(int param, Value* tile, Value* from, Value* rows, Value* columns) {
  const int item = ItemSize(s_.params[param].dtype);
  Type* element = MemType(s_.params[param].dtype);
  Value* stride = stride_[param][s_.parallel_rank - 1];  // bytes a column
  const int n = SquareSide(item);
  Type* vector = Vec(element, n);
  const llvm::Align align(item);
  auto at = [&](Value* i, Value* j) {
    return b_.CreateGEP(element, b_.CreateGEP(i8_, from, b_.CreateMul(j, stride)), i);
  };
  auto to = [&](Value* i, Value* j) {
    return b_.CreateGEP(element, tile, b_.CreateAdd(b_.CreateMul(i, b_.getInt64(tile_columns_)), j));
  };
  Value* zero = b_.getInt64(0);
  Value* block_size = b_.getInt64(n);
  Value* whole_tile = b_.CreateICmpEQ(rows, b_.getInt64(tile_rows_));
  Value* has_blocks = b_.CreateICmpSGE(rows, block_size);
  Value* whole_columns = b_.CreateSelect(has_blocks, b_.CreateAnd(columns, b_.getInt64(-n)), zero);
  Value* pitch = b_.getInt64(tile_columns_ * item);
  // The last block of rows ends with them.
  Value* last_rows = b_.CreateSub(rows, block_size);
  For(zero, whole_columns, block_size, [&](Value* j) {
    For(zero, rows, block_size, [&](Value* next) {
      Value* i = Min(next, last_rows);
      // The columns after these lie in other pages, which no prefetcher of the machine looks into. They are prefetched
      // in the order of memory, not in that of their use: columns are often a multiple of a page apart, and then all
      // fall on the same few places of the nearest cache.
      Value* element_of_group = b_.CreateMul(i, block_size);
      Value* column = b_.CreateUDiv(element_of_group, b_.getInt64(tile_rows_));
      Value* row = b_.CreateURem(element_of_group, b_.getInt64(tile_rows_));
      Value* ahead = at(row, b_.CreateAdd(b_.CreateAdd(j, block_size), column));
      const int64_t asked = block_ ? kLine : n * item;  // bytes at a time
      Value* step = b_.getInt64(asked);
      // A tile that is cut off has shorter columns: one piece of each.
      ahead = b_.CreateSelect(whole_tile, ahead, at(i, b_.CreateAdd(j, block_size)));
      step = b_.CreateSelect(whole_tile, step, b_.CreateMul(stride, b_.getInt64(asked / (n * item))));
      FillSquare(param, {at(i, j), stride, to(i, j), pitch, ahead, step, step});
    });
  });
  // The columns that are left, and those of few rows: the last one stands for missing ones.
  const bool masks = MasksNatively(element);
  auto blocks = [&]() -> Value* {
    Value* mask = MaskOf(Min(rows, block_size), n);
    For(whole_columns, columns, block_size, [&](Value* j) {
      For(zero, rows, block_size, [&](Value* next) {
        Value* i = b_.CreateSelect(has_blocks, Min(next, last_rows), zero);
        std::vector<Value*> block;
        for (int k = 0; k < n; ++k) {
          Value* difference = b_.CreateSub(columns, b_.getInt64(1));
          Value* column = Min(b_.CreateAdd(j, b_.getInt64(k)), difference);
          block.push_back(masks ? static_cast<Value*>(b_.CreateMaskedLoad(vector, at(i, column), align, mask,
                                                                          llvm::Constant::getNullValue(vector)))
                                : b_.CreateAlignedLoad(vector, at(i, column), align));
        }
        StoreSquare(item, block, to(i, j), pitch);
      });
    });
    return nullptr;
  };
  // Very few elements, and elements without masks, are taken one by one.
  Value* is_worth_it = has_blocks;
  if (masks) is_worth_it = b_.CreateICmpSGE(b_.CreateMul(rows, columns), b_.getInt64(kFewVectors * n));
  IfElse(is_worth_it, blocks, [&]() -> Value* {
    For(zero, columns, b_.getInt64(1), [&](Value* j) {
      For(zero, rows, b_.getInt64(1), [&](Value* i) {
        Value* second = to(i, j);
        b_.CreateAlignedStore(b_.CreateAlignedLoad(element, at(i, j), align), second, align);
      });
    });
    return nullptr;
  });
}

bool KernelEmitter::IsReadAsLoopRuns(size_t param) const {
  return !tiled_[param] && !written_[param] && s_.params[param].strides[loop_dim_] == StrideClass::kUnit;
}

// Moves to row `row` of the transposed operands, so that column `first` is the tile's first.
void KernelEmitter::GoToTileRow(const std::vector<Value*>& tiles, Value* row, int64_t columns, Value* first) {
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (!tiled_[k]) continue;
    Value* offset = b_.CreateSub(b_.CreateMul(row, b_.getInt64(columns)), first);
    addr_[k] = b_.CreateGEP(MemType(s_.params[k].dtype), tiles[k], offset);
  }
}

// Prefetches the same row of the next tile, for operands that lie in the loop's order.
void KernelEmitter::PrefetchNextTile(Value* column) {
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (!IsReadAsLoopRuns(k)) continue;
    const int item = ItemSize(s_.params[k].dtype);
    Value* at = b_.CreateGEP(MemType(s_.params[k].dtype), addr_[k], column);
    for (int64_t byte = 0; byte < tile_columns_ * item; byte += 64) {
      Prefetch(b_.CreateConstGEP1_64(i8_, at, byte), /*nearest=*/false);
    }
  }
}

void KernelEmitter::EmitTiles(const std::function<void(Value*, Value*)>& row,
                              const std::function<void(Value*, int)>& vectors) {
  const int d = s_.parallel_rank - 2;  // the rows of tiles
  block_ = PlanBlocks();
  const std::optional<BlockShape>& block = block_;
  Value* by_blocks = block ? WritesWholeLines() : nullptr;
  std::vector<Value*> tiles(s_.params.size(), nullptr);
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (!tiled_[k]) continue;
    tiles[k] = Temporary(llvm::ArrayType::get(MemType(s_.params[k].dtype), tile_rows_ * tile_columns_));
  }
  const std::vector<Value*> outermost = addr_;
  // Moves to the matrix of row `tile`, and returns the row's number.
  auto go_to = [&](Value* tile) {
    addr_ = outermost;
    Value* first = b_.CreateURem(tile, size_[d]);
    Value* rest = d > 0 ? b_.CreateUDiv(tile, size_[d]) : nullptr;
    for (int k = d - 1; k >= 0; --k) {
      AddIndex(k, k ? b_.CreateURem(rest, size_[k]) : rest);
      if (k) rest = b_.CreateUDiv(rest, size_[k]);
    }
    AddIndex(d, first);
    return first;
  };
  AllocaInst* at = Variable(i64_);
  b_.CreateStore(begin_, at);
  While([&] { return b_.CreateICmpSLT(Load(at), end_); },
        [&] {
          Value* start = Load(at);
          Value* rows = b_.CreateSub(size_[d], b_.CreateURem(start, size_[d]));
          rows = Min(rows, b_.CreateSub(end_, start));
          Value* a_tile = Min(rows, b_.getInt64(tile_rows_));
          rows = block ? b_.CreateSelect(by_blocks, Min(rows, b_.getInt64(kBandRows)), a_tile) : a_tile;
          Value* next = b_.CreateAdd(start, rows);
          b_.CreateStore(next, at);
          if (block) go_to(next);
          const std::vector<Value*> next_corner = addr_;
          Value* first = go_to(start);
          const std::vector<Value*> corner = addr_;
          For(b_.getInt64(0), size_[loop_dim_], b_.getInt64(tile_columns_), [&](Value* j) {
            Value* columns = Min(b_.CreateSub(size_[loop_dim_], j), b_.getInt64(tile_columns_));
            Value* end = b_.CreateAdd(j, columns);
            Value* done = b_.getInt64(0);
            if (block) {
              Value* rest = b_.CreateAnd(columns, b_.getInt64(block->square_columns - 1));
              Value* are_blocks = b_.CreateAnd(by_blocks, b_.CreateIsNull(rest));
              done = b_.CreateSelect(are_blocks, b_.CreateAnd(rows, b_.getInt64(-block->square_rows)), done);
              addr_ = corner;
              EmitBlocks(tiles, {first, j, done, columns}, next_corner, vectors);
            }
            For(done, rows, b_.getInt64(tile_rows_), [&](Value* from) {
              Value* count = Min(b_.CreateSub(rows, from), b_.getInt64(tile_rows_));
              addr_ = corner;
              AddIndex(d, from);
              const std::vector<Value*> tile_corner = addr_;
              for (size_t k = 0; k < tiles.size(); ++k) {
                if (!tiled_[k]) continue;
                Value* place = b_.CreateGEP(i8_, tile_corner[k], b_.CreateMul(j, stride_[k][loop_dim_]));
                FillTile(static_cast<int>(k), tiles[k], place, count, columns);
              }
              For(b_.getInt64(0), count, b_.getInt64(1), [&](Value* i) {
                addr_ = tile_corner;
                AddIndex(d, i);
                idx_[d] = b_.CreateAdd(first, b_.CreateAdd(from, i));
                GoToTileRow(tiles, i, tile_columns_, j);
                PrefetchNextTile(end);
                row(j, end);
              });
            });
          });
        });
  addr_ = outermost;
}

}  // namespace smelt
