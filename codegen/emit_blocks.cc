#include "smelt/codegen/emit_blocks.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

Value* BlockEmitter::WritesWholeLines() {
  Value* all = b_.getTrue();
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (!plan_.written[k]) continue;
    Value* places = b_.CreatePtrToInt(words_.base(k), b_.getInt64Ty());
    for (int d = 0; d < s_.parallel_rank - 1; ++d) {
      if (words_.stride(k, d)) places = b_.CreateOr(places, words_.stride(k, d));
    }
    Value* are_lines = b_.CreateICmpEQ(b_.CreateAnd(places, b_.getInt64(kLine - 1)), b_.getInt64(0));
    all = b_.CreateAnd(all, b_.CreateAnd(words_.passes_cache(k), are_lines));
  }
  return all;
}

Value* BlockEmitter::InNextBlock(Value* ahead, int param, Value* element) {
  const bool tiled = plan_.tiles.is_tiled[param];
  Value* along = b_.getInt64(tiled ? shape_.rows : shape_.columns);
  Value* stride = words_.stride(param, tiled ? plan_.loop_dim : s_.parallel_rank - 2);
  Value* row = b_.CreateGEP(b_.getInt8Ty(), ahead, b_.CreateMul(b_.CreateUDiv(element, along), stride));
  Value* place = b_.CreateURem(element, along);
  if (!tiled) place = b_.CreateMul(place, b_.getInt64(plan_.LinesApart(param)));
  return b_.CreateGEP(fn_.MemType(s_.params[param].dtype), row, place);
}

void BlockEmitter::FillBlockSquare(const LoopContext& ctx, int param, Value* next_block, Value* tile,
                                   Value* first_column, Value* number) {
  const int item = ItemSize(s_.params[param].dtype), n = plan_.SquareSide(item);
  Type* element = fn_.MemType(s_.params[param].dtype);
  Value* stride = words_.stride(param, plan_.loop_dim);
  const int64_t across = shape_.square_rows / n, parts = across * shape_.square_columns / n;
  Value* jump = b_.CreateSub(stride, b_.getInt64((shape_.rows * item - 1) / kLine * kLine));
  auto fill = [&](Value* part) {
    Value* i = b_.CreateMul(b_.CreateURem(part, b_.getInt64(across)), b_.getInt64(n));
    Value* j = b_.CreateMul(b_.CreateUDiv(part, b_.getInt64(across)), b_.getInt64(n));
    Value* column = b_.CreateMul(b_.CreateAdd(first_column, j), stride);
    Value* from = b_.CreateGEP(element, b_.CreateGEP(b_.getInt8Ty(), ctx.addr[param], column), i);
    Value* to = b_.CreateAdd(b_.CreateMul(i, b_.getInt64(shape_.square_columns)), j);
    Value* ahead =
        InNextBlock(next_block, param, b_.CreateAdd(number, b_.CreateMul(part, b_.getInt64(int64_t{n} * n))));
    squares_.FillSquare(param, {from, stride, b_.CreateGEP(element, tile, to),
                                b_.getInt64(shape_.square_columns * item), ahead, b_.getInt64(kLine), jump});
  };
  parts == 1 ? fill(b_.getInt64(0)) : fn_.For(b_.getInt64(0), b_.getInt64(parts), b_.getInt64(1), fill);
}

std::vector<Value*> BlockEmitter::NextBlock(const LoopContext& corner, const BlockPlace& place, Value* next) {
  const int d = s_.parallel_rank - 2;
  Value* zero = b_.getInt64(0);
  Value* ends_columns = b_.CreateICmpSGE(next, place.rows);
  Value* next_column = b_.CreateAdd(place.first_column, b_.getInt64(shape_.columns));
  Value* ends_rows = b_.CreateICmpSGE(next_column, words_.size(plan_.loop_dim));
  std::vector<Value*> ahead(s_.params.size(), nullptr);
  for (size_t k = 0; k < ahead.size(); ++k) {
    if (!words_.stride(k, plan_.loop_dim) || !words_.stride(k, d)) continue;
    auto in_column = [&](Value* row, Value* column) {
      Value* at = b_.CreateGEP(b_.getInt8Ty(), corner.addr[k], b_.CreateMul(row, words_.stride(k, d)));
      return b_.CreateGEP(b_.getInt8Ty(), at, b_.CreateMul(column, words_.stride(k, plan_.loop_dim)));
    };
    Value* beside = b_.CreateSelect(ends_rows, place.next_corner[k], in_column(zero, next_column));
    ahead[k] = b_.CreateSelect(ends_columns, beside, in_column(next, place.first_column));
  }
  return ahead;
}

void BlockEmitter::EmitBlocks(const LoopContext& corner, const std::vector<Value*>& tiles, const BlockPlace& place,
                              const std::function<void(const LoopContext&, Value*, int)>& vectors) {
  const int d = s_.parallel_rank - 2;
  Value* zero = b_.getInt64(0);
  Value* square_rows = b_.getInt64(shape_.square_rows);
  Value* square_columns = b_.getInt64(shape_.square_columns);
  AllocaInst* number = fn_.Variable(b_.getInt64Ty());  // of the next block's elements, those that were asked for
  fn_.For(zero, place.rows, b_.getInt64(shape_.rows), [&](Value* first) {
    Value* next = b_.CreateAdd(first, b_.getInt64(shape_.rows));
    const std::vector<Value*> ahead = NextBlock(corner, place, next);
    b_.CreateStore(zero, number);
    fn_.For(first, fn_.Min(next, place.rows), square_rows, [&](Value* i) {
      fn_.For(zero, place.columns, square_columns, [&](Value* column) {
        Value* j = b_.CreateAdd(place.first_column, column);
        LoopContext square = corner;
        words_.AddIndex(square, d, i);
        for (size_t k = 0; k < tiles.size(); ++k) {
          if (!plan_.tiles.is_tiled[k]) continue;
          FillBlockSquare(square, static_cast<int>(k), ahead[k], tiles[k], j, fn_.Load(number));
        }
        fn_.For(zero, square_rows, b_.getInt64(1), [&](Value* row) {
          LoopContext inner = corner;
          words_.AddIndex(inner, d, b_.CreateAdd(i, row));
          inner.idx[d] = b_.CreateAdd(place.first_row, inner.idx[d]);
          squares_.GoToTileRow(inner, tiles, row, shape_.square_columns, j);
          vectors(inner, j, static_cast<int>(shape_.square_columns) / plan_.lanes);
          b_.CreateStore(b_.CreateAdd(PrefetchRow(ahead, fn_.Load(number)), square_columns), number);
        });
      });
    });
  });
}

Value* BlockEmitter::PrefetchRow(const std::vector<Value*>& ahead, Value* from) {
  for (int k = 0; k < static_cast<int>(ahead.size()); ++k) {
    if (!plan_.IsReadAsLoopRuns(k) || !words_.stride(k, s_.parallel_rank - 2)) continue;
    const int64_t bytes = shape_.square_columns * ItemSize(s_.params[k].dtype) * plan_.LinesApart(k);
    for (int64_t byte = 0; byte < bytes; byte += kLine) {
      from = squares_.Paced(from);
      Value* place = InNextBlock(ahead[k], k, from);
      fn_.Prefetch(b_.CreateConstGEP1_64(b_.getInt8Ty(), place, byte), /*nearest=*/false);
    }
  }
  return from;
}

}  // namespace smelt
