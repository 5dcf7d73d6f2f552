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
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/codegen/kernel_emitter.h"
#include "smelt/codegen/transpose_registers.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// The bytes of a column of a block's transposed operands; a block has as many columns as a tile. On a Zen 5, adding
// 4096 x 4096 elements of float32 in blocks of 32, 64, 128 and 256 rows of 64 takes 4.2, 4.3, 4.5 and 4.6 ms, and in
// blocks of 64 rows of 128 it takes 5.0 ms. Taking the blocks of a row one after the other costs .3 ms more, and tiles
// take 6.9 ms.
constexpr int64_t kBlockBytes = 128;

}  // namespace

std::optional<KernelEmitter::BlockShape> KernelEmitter::PlanBlocks() const {
  if (f_.vector_bits < 256) return std::nullopt;
  std::vector<int> all;
  for (const KernelPhase& phase : s_.phases) all.insert(all.end(), phase.instrs.begin(), phase.instrs.end());
  // With so much arithmetic, the loop is not bound by memory.
  if (CostOf(all).all > kOneBody) return std::nullopt;
  const int d = s_.parallel_rank - 2;
  int64_t widest = 1, narrowest_read = kLine, narrowest_written = kLine;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int64_t item = ItemSize(s_.params[k].dtype);
    if (written_[k]) {
      if (!nt_launch_[k] || !stride_[k][d]) return std::nullopt;
      narrowest_written = std::min(narrowest_written, item);
    }
    if (tiled_[k]) {
      widest = std::max(widest, item);
      narrowest_read = std::min(narrowest_read, item);
    }
  }
  BlockShape block;
  block.square_rows = kLine / narrowest_read;
  block.rows = std::max(kBlockBytes / widest, block.square_rows);
  block.columns = tile_columns_;
  block.square_columns = std::max<int64_t>({lanes_, block.square_rows, kLine / narrowest_written});
  return block;
}

// Returns whether this launch's results are too large for the cache, and each of their rows consists of whole lines
// from its start on.
Value* KernelEmitter::WritesWholeLines() {
  auto unknown = [&](int64_t number) {
    AllocaInst* memory = Temporary(i64_);
    b_.CreateStore(b_.getInt64(number), memory);
    return b_.CreateLoad(i64_, memory, /*isVolatile=*/true);
  };
  one_ = unknown(1);
  zero_ = unknown(0);
  Value* all = b_.getTrue();
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (!written_[k]) continue;
    Value* places = b_.CreatePtrToInt(base_[k], i64_);
    for (int d = 0; d < s_.parallel_rank - 1; ++d) {
      if (stride_[k][d]) places = b_.CreateOr(places, stride_[k][d]);
    }
    Value* are_lines = b_.CreateICmpEQ(b_.CreateAnd(places, b_.getInt64(kLine - 1)), b_.getInt64(0));
    all = b_.CreateAnd(all, b_.CreateAnd(nt_launch_[k], are_lines));
  }
  return all;
}

// Returns the address of element number `element` of the next block of a param, in the order in which the elements lie.
Value* KernelEmitter::InNextBlock(int param, Value* element) {
  const bool tiled = tiled_[param];
  Value* along = b_.getInt64(tiled ? block_->rows : block_->columns);
  Value* stride = stride_[param][tiled ? loop_dim_ : s_.parallel_rank - 2];
  Value* row = b_.CreateGEP(i8_, block_ahead_[param], b_.CreateMul(b_.CreateUDiv(element, along), stride));
  return b_.CreateGEP(MemType(s_.params[param].dtype), row, b_.CreateURem(element, along));
}

void KernelEmitter::StoreSquare(int item, std::vector<Value*>& rows, Value* to, Value* pitch) {
  TransposeRegisters(b_, item, rows);
  const llvm::Align align(rows.size() * item);
  for (Value* row : rows) {
    b_.CreateAlignedStore(row, to, align);
    to = b_.CreateGEP(i8_, to, pitch);
  }
}

// If there are several, this is a function of its own: it is half of the machine code of such a kernel.
void KernelEmitter::FillSquare(int param, const Square& square) {
  if (!block_) return EmitSquare(param, square);
  const int item = ItemSize(s_.params[param].dtype);
  const std::string name = absl::StrCat("square_", item);
  llvm::Function* fn = m_.getFunction(name);
  const std::vector<Value*> arguments = {square.from, square.stride, square.to, square.pitch, square.ahead,
                                         square.step, square.jump,   one_,      zero_};
  if (!fn) {
    std::vector<Type*> types;
    for (Value* v : arguments) types.push_back(v->getType());
    fn = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                llvm::GlobalValue::InternalLinkage, name, m_);
    const llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(BasicBlock::Create(c_, "entry", fn));
    auto arg = [&](int k) { return fn->getArg(k); };
    Value* one = std::exchange(one_, arg(7));
    Value* zero = std::exchange(zero_, arg(8));
    EmitSquare(param, {arg(0), arg(1), arg(2), arg(3), arg(4), arg(5), arg(6)});
    one_ = one;
    zero_ = zero;
    b_.CreateRetVoid();
  }
  b_.CreateCall(fn, arguments);
}

void KernelEmitter::EmitSquare(int param, const Square& square) {
  const int item = ItemSize(s_.params[param].dtype), n = SquareSide(item);
  Type* vector = Vec(MemType(s_.params[param].dtype), n);
  const int64_t elements = kLine / item;  // of a line
  Value* from = square.from;
  Value* ahead = b_.CreatePtrToInt(square.ahead, i64_);
  std::vector<Value*> rows;
  for (int64_t k = 1; k <= n; ++k) {
    // In order with the prefetches: LLVM would read first, and then prefetch everything at once.
    rows.push_back(b_.CreateAlignedLoad(vector, from, llvm::Align(item), /*isVolatile=*/block_.has_value()));
    from = b_.CreateGEP(i8_, from, square.stride);
    if (block_ && k * n % elements != 0) continue;
    ahead = Paced(ahead);
    Prefetch(b_.CreateIntToPtr(ahead, ptr_), /*nearest=*/false);
    const bool ends_row = block_ && k * n % block_->rows == 0;
    ahead = b_.CreateAdd(ahead, ends_row ? square.jump : square.step);
  }
  StoreSquare(item, rows, square.to, square.pitch);
}

// Returns the same number, seven cycles later. (With requests 4, 8, 9 and 13 cycles apart the matrices above took 5.9,
// 3.9, 4.2 and 7.7 ms. Without the operation between the products LLVM would combine them.)
Value* KernelEmitter::Paced(Value* number) {
  return one_ ? b_.CreateMul(b_.CreateXor(b_.CreateMul(number, one_), zero_), one_) : number;
}

// tile[i][j] = param[i, first_column + j] of a square. `number` counts the elements of the next block that were
// prefetched.
void KernelEmitter::FillBlockSquare(int param, Value* tile, Value* first_column, Value* number) {
  const int item = ItemSize(s_.params[param].dtype), n = SquareSide(item);
  Type* element = MemType(s_.params[param].dtype);
  Value* stride = stride_[param][loop_dim_];
  const int64_t across = block_->square_rows / n, parts = across * block_->square_columns / n;
  Value* jump = b_.CreateSub(stride, b_.getInt64((block_->rows * item - 1) / kLine * kLine));
  auto fill = [&](Value* part) {
    Value* i = b_.CreateMul(b_.CreateURem(part, b_.getInt64(across)), b_.getInt64(n));
    Value* j = b_.CreateMul(b_.CreateUDiv(part, b_.getInt64(across)), b_.getInt64(n));
    Value* column = b_.CreateMul(b_.CreateAdd(first_column, j), stride);
    Value* from = b_.CreateGEP(element, b_.CreateGEP(i8_, addr_[param], column), i);
    Value* to = b_.CreateAdd(b_.CreateMul(i, b_.getInt64(block_->square_columns)), j);
    Value* ahead = InNextBlock(param, b_.CreateAdd(number, b_.CreateMul(part, b_.getInt64(int64_t{n} * n))));
    FillSquare(param, {from, stride, b_.CreateGEP(element, tile, to), b_.getInt64(block_->square_columns * item), ahead,
                       b_.getInt64(kLine), jump});
  };
  parts == 1 ? fill(b_.getInt64(0)) : For(b_.getInt64(0), b_.getInt64(parts), b_.getInt64(1), fill);
}

void KernelEmitter::EmitBlocks(const std::vector<Value*>& tiles, const BlockPlace& place,
                               const std::vector<Value*>& next_corner,
                               const std::function<void(Value*, int)>& vectors) {
  const BlockShape& block = *block_;
  const int d = s_.parallel_rank - 2;
  const std::vector<Value*> corner = addr_;
  Value* zero = b_.getInt64(0);
  Value* square_rows = b_.getInt64(block.square_rows);
  Value* square_columns = b_.getInt64(block.square_columns);
  AllocaInst* number = Variable(i64_);  // of the next block's elements, those that were asked for
  For(zero, place.rows, b_.getInt64(block.rows), [&](Value* first) {
    Value* next = b_.CreateAdd(first, b_.getInt64(block.rows));
    Value* ends_columns = b_.CreateICmpSGE(next, place.rows);
    Value* next_column = b_.CreateAdd(place.first_column, b_.getInt64(block.columns));
    Value* ends_rows = b_.CreateICmpSGE(next_column, size_[loop_dim_]);
    block_ahead_.assign(tiles.size(), nullptr);
    for (size_t k = 0; k < tiles.size(); ++k) {
      if (!stride_[k][loop_dim_] || !stride_[k][d]) continue;
      auto in_column = [&](Value* row, Value* column) {
        Value* at = b_.CreateGEP(i8_, corner[k], b_.CreateMul(row, stride_[k][d]));
        return b_.CreateGEP(i8_, at, b_.CreateMul(column, stride_[k][loop_dim_]));
      };
      Value* beside = b_.CreateSelect(ends_rows, next_corner[k], in_column(zero, next_column));
      block_ahead_[k] = b_.CreateSelect(ends_columns, beside, in_column(next, place.first_column));
    }
    b_.CreateStore(zero, number);
    For(first, Min(next, place.rows), square_rows, [&](Value* i) {
      For(zero, place.columns, square_columns, [&](Value* column) {
        Value* j = b_.CreateAdd(place.first_column, column);
        addr_ = corner;
        AddIndex(d, i);
        for (size_t k = 0; k < tiles.size(); ++k) {
          if (!tiled_[k]) continue;
          FillBlockSquare(static_cast<int>(k), tiles[k], j, Load(number));
        }
        For(zero, square_rows, b_.getInt64(1), [&](Value* row) {
          addr_ = corner;
          AddIndex(d, b_.CreateAdd(i, row));
          idx_[d] = b_.CreateAdd(place.first_row, idx_[d]);
          GoToTileRow(tiles, row, block.square_columns, j);
          vectors(j, static_cast<int>(block.square_columns) / lanes_);
          Value* from = Load(number);
          for (size_t k = 0; k < tiles.size(); ++k) {
            if (!IsReadAsLoopRuns(k) || !stride_[k][d]) continue;
            const int64_t bytes = block.square_columns * ItemSize(s_.params[k].dtype);
            for (int64_t byte = 0; byte < bytes; byte += kLine) {
              from = Paced(from);
              Prefetch(b_.CreateConstGEP1_64(i8_, InNextBlock(static_cast<int>(k), from), byte), /*nearest=*/false);
            }
          }
          b_.CreateStore(b_.CreateAdd(from, square_columns), number);
        });
      });
    });
  });
  addr_ = corner;
}

}  // namespace smelt
