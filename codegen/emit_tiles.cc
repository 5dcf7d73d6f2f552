// Transposed operands. Where a load runs along another dim than the loop over columns, a tile of rows and columns is
// read the way it lies in memory, transposed in registers, and kept in a buffer that the loop then reads by columns.
#include <algorithm>

#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/kernel_emitter.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

constexpr int kLaneBytes = 16;  // in which x86's shuffles move elements about

// A tile of fewer vectors' elements is not worth a transposed block.
constexpr int64_t kFewVectors = 2;

// Shuffles of vectors of n elements.
class Transposer {
 public:
  Transposer(llvm::IRBuilder<>& b, int n, int item) : b_(b), n_(n), per_lane_(kLaneBytes / item) {}

  // rows[r][c] becomes rows[c][r]; as many vectors as they have elements.
  void Run(std::vector<Value*>& rows) {
    const int lanes = n_ / per_lane_;
    SMELT_CHECK(lanes == 1 || lanes == 2 || lanes == 4);
    // Within lanes: afterwards row per_lane * k + c holds in lane l column per_lane * l + c of rows per_lane * k ...
    for (int g = 1; g < per_lane_; g *= 2) {
      std::vector<Value*> next(rows.size());
      for (int m = 0; m < n_; m += 2 * g) {
        for (int j = 0; j < g; ++j) {
          next[m + 2 * j] = Unpack(rows[m + j], rows[m + j + g], g, 0);
          next[m + 2 * j + 1] = Unpack(rows[m + j], rows[m + j + g], g, 1);
        }
      }
      for (size_t r = 0; r < rows.size(); ++r) rows[r] = Fenced(next[r]);
    }
    if (lanes == 1) return;
    std::vector<Value*> out(rows.size());
    for (int c = 0; c < per_lane_; ++c) {
      auto row = [&](int k) { return rows[per_lane_ * k + c]; };
      if (lanes == 2) {
        out[c] = Lanes(row(0), row(1), {0, 2});
        out[per_lane_ + c] = Lanes(row(0), row(1), {1, 3});
        continue;
      }
      for (int odd = 0; odd < 2; ++odd) {
        Value* low = Fenced(Lanes(row(0), row(1), {odd, odd + 2, odd + 4, odd + 6}));
        Value* high = Fenced(Lanes(row(2), row(3), {odd, odd + 2, odd + 4, odd + 6}));
        out[per_lane_ * odd + c] = Lanes(low, high, {0, 2, 4, 6});
        out[per_lane_ * (odd + 2) + c] = Lanes(low, high, {1, 3, 5, 7});
      }
    }
    rows = out;
  }

 private:
  // In each lane, granules of g elements of a and z in turn: of the lane's first or second half.
  Value* Unpack(Value* a, Value* z, int g, int half) {
    std::vector<int> mask;
    for (int lane = 0; lane < n_; lane += per_lane_) {
      for (int q = 0; q < per_lane_ / 2 / g; ++q) {
        for (int from : {0, n_}) {
          for (int e = 0; e < g; ++e) mask.push_back(from + lane + half * per_lane_ / 2 + q * g + e);
        }
      }
    }
    return b_.CreateShuffleVector(a, z, mask);
  }
  Value* Lanes(Value* a, Value* z, const std::vector<int>& which) {
    std::vector<int> mask;
    for (int w : which) {
      for (int e = 0; e < per_lane_; ++e) mask.push_back(w * per_lane_ + e);
    }
    return b_.CreateShuffleVector(a, z, mask);
  }

  // LLVM looks through a shuffle at those that it takes its elements from, for each of its users anew: of a network of
  // them that took ten times as long as all else. It does not look through this, which is no instruction of the
  // machine.
  Value* Fenced(Value* v) {
    Type* floats = llvm::FixedVectorType::get(b_.getFloatTy(), v->getType()->getPrimitiveSizeInBits() / 32);
    return b_.CreateBitCast(b_.CreateArithmeticFence(b_.CreateBitCast(v, floats), floats), v->getType());
  }

  llvm::IRBuilder<>& b_;
  const int n_, per_lane_;
};

}  // namespace

void KernelEmitter::ChooseTiled() {
  tiled_.assign(s_.params.size(), false);
  const int p = s_.parallel_rank;
  if (!columns_ || lanes_ == 1 || p < 2 || s_.reduction_rank > 0 || s_.sequential) return;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const KernelParam& param = s_.params[k];
    // What lies three or four apart is read as it lies, three or four times.
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

// tile[i][j] = param[i, first + j] for i < rows, j < columns; `from` is where row 0, column 0 of the tile is.
void KernelEmitter::FillTile(int param, Value* tile, Value* from, Value* rows, Value* columns) {
  const int item = ItemSize(s_.params[param].dtype);
  Type* element = MemType(s_.params[param].dtype);
  Value* stride = stride_[param][s_.parallel_rank - 1];  // bytes a column
  const int n = std::min(16, f_.vector_bits / 8 / item);
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
  auto transpose = [&](std::vector<Value*>& block, Value* i, Value* j) {
    Transposer(b_, n, item).Run(block);
    Value* into = to(i, j);
    for (int k = 0; k < n; ++k) {
      b_.CreateAlignedStore(block[k], b_.CreateConstGEP1_64(element, into, static_cast<int64_t>(k) * tile_columns_),
                            llvm::Align(n * item));
    }
  };
  // The last block of rows ends with them.
  Value* last_rows = b_.CreateSub(rows, block_size);
  For(zero, whole_columns, block_size, [&](Value* j) {
    For(zero, rows, block_size, [&](Value* next) {
      Value* i = Min(next, last_rows);
      std::vector<Value*> block;
      Value* first = at(i, j);
      // The columns after these lie in other pages, which no prefetcher of the machine looks into. They are asked for
      // in the order in which they lie, not in that in which they are used: columns are often a multiple of a page
      // apart, and then all fall on the same few places of the nearest cache.
      Value* element_of_group = b_.CreateMul(i, block_size);
      Value* column = b_.CreateUDiv(element_of_group, b_.getInt64(tile_rows_));
      Value* row = b_.CreateURem(element_of_group, b_.getInt64(tile_rows_));
      Value* ahead = at(row, b_.CreateAdd(b_.CreateAdd(j, block_size), column));
      Value* step = b_.getInt64(static_cast<int64_t>(n) * item);
      // A tile that is cut off has shorter columns: one piece of each.
      ahead = b_.CreateSelect(whole_tile, ahead, at(i, b_.CreateAdd(j, block_size)));
      step = b_.CreateSelect(whole_tile, step, stride);
      for (int k = 0; k < n; ++k) {
        Prefetch(ahead, /*nearest=*/false);
        ahead = b_.CreateGEP(i8_, ahead, step);
      }
      for (int k = 0; k < n; ++k) {
        block.push_back(b_.CreateAlignedLoad(vector, first, align));
        first = b_.CreateGEP(i8_, first, stride);
      }
      transpose(block, i, j);
    });
  });
  // Columns that are left, and those of few rows: the last one stands for those that there are not.
  const bool masks = MasksNatively(element);
  auto blocks = [&]() -> Value* {
    Value* mask = MaskOf(Min(rows, block_size), n);
    For(whole_columns, columns, block_size, [&](Value* j) {
      For(zero, rows, block_size, [&](Value* next) {
        Value* i = b_.CreateSelect(has_blocks, Min(next, last_rows), zero);
        std::vector<Value*> block;
        for (int k = 0; k < n; ++k) {
          Value* column = Min(b_.CreateAdd(j, b_.getInt64(k)), b_.CreateSub(columns, b_.getInt64(1)));
          block.push_back(masks ? static_cast<Value*>(b_.CreateMaskedLoad(vector, at(i, column), align, mask,
                                                                          llvm::Constant::getNullValue(vector)))
                                : b_.CreateAlignedLoad(vector, at(i, column), align));
        }
        transpose(block, i, j);
      });
    });
    return nullptr;
  };
  // Next to nothing, or what has no masks, is taken element by element.
  Value* is_worth_it = has_blocks;
  if (masks) is_worth_it = b_.CreateICmpSGE(b_.CreateMul(rows, columns), b_.getInt64(kFewVectors * n));
  IfElse(is_worth_it, blocks, [&]() -> Value* {
    For(zero, columns, b_.getInt64(1), [&](Value* j) {
      For(zero, rows, b_.getInt64(1),
          [&](Value* i) { b_.CreateAlignedStore(b_.CreateAlignedLoad(element, at(i, j), align), to(i, j), align); });
    });
    return nullptr;
  });
}

// The same row of the next tile, of operands that lie as the loop runs.
void KernelEmitter::PrefetchNextTile(Value* column) {
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (tiled_[k] || written_[k] || s_.params[k].strides[loop_dim_] != StrideClass::kUnit) continue;
    const int item = ItemSize(s_.params[k].dtype);
    Value* at = b_.CreateGEP(MemType(s_.params[k].dtype), addr_[k], column);
    for (int64_t byte = 0; byte < tile_columns_ * item; byte += 64) {
      Prefetch(b_.CreateConstGEP1_64(i8_, at, byte), /*nearest=*/false);
    }
  }
}

void KernelEmitter::EmitTiles(const std::function<void(Value*, Value*)>& row) {
  const int d = s_.parallel_rank - 2;  // the rows of tiles
  std::vector<Value*> tiles(s_.params.size(), nullptr);
  for (size_t k = 0; k < tiles.size(); ++k) {
    if (!tiled_[k]) continue;
    tiles[k] = Temporary(llvm::ArrayType::get(MemType(s_.params[k].dtype), tile_rows_ * tile_columns_));
  }
  const std::vector<Value*> outermost = addr_;
  AllocaInst* at = Variable(i64_);
  b_.CreateStore(begin_, at);
  While([&] { return b_.CreateICmpSLT(Load(at), end_); },
        [&] {
          addr_ = outermost;
          Value* rest = Load(at);
          Value* first = b_.CreateURem(rest, size_[d]);
          Value* rows = Min(b_.CreateSub(size_[d], first), b_.CreateSub(end_, rest));
          rows = Min(rows, b_.getInt64(tile_rows_));
          b_.CreateStore(b_.CreateAdd(rest, rows), at);
          if (d > 0) rest = b_.CreateUDiv(rest, size_[d]);
          for (int k = d - 1; k >= 0; --k) {
            AddIndex(k, k ? b_.CreateURem(rest, size_[k]) : rest);
            if (k) rest = b_.CreateUDiv(rest, size_[k]);
          }
          AddIndex(d, first);
          const std::vector<Value*> corner = addr_;
          For(b_.getInt64(0), size_[loop_dim_], b_.getInt64(tile_columns_), [&](Value* j) {
            Value* columns = Min(b_.CreateSub(size_[loop_dim_], j), b_.getInt64(tile_columns_));
            for (size_t k = 0; k < tiles.size(); ++k) {
              if (!tiled_[k]) continue;
              Value* from = b_.CreateGEP(i8_, corner[k], b_.CreateMul(j, stride_[k][loop_dim_]));
              FillTile(static_cast<int>(k), tiles[k], from, rows, columns);
            }
            Value* end = b_.CreateAdd(j, columns);
            For(b_.getInt64(0), rows, b_.getInt64(1), [&](Value* i) {
              addr_ = corner;
              AddIndex(d, i);
              idx_[d] = b_.CreateAdd(first, i);
              for (size_t k = 0; k < tiles.size(); ++k) {
                if (!tiled_[k]) continue;
                Value* offset = b_.CreateSub(b_.CreateMul(i, b_.getInt64(tile_columns_)), j);
                addr_[k] = b_.CreateGEP(MemType(s_.params[k].dtype), tiles[k], offset);
              }
              PrefetchNextTile(end);
              row(j, end);
            });
          });
        });
  addr_ = outermost;
}

}  // namespace smelt
