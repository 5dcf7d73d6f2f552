// Pointwise kernels that read a param along another dim than they write: tiles of it go through shared memory, so that
// both accesses are coalesced.
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/codegen/cuda_emitter.h"

namespace smelt {

using llvm::Value;

namespace {

constexpr int kTile = kCudaWarp;
// A row of a tile has one element more, so that the elements of a column lie in different banks.
constexpr int kTileRow = kTile + 1;

}  // namespace

void CudaEmitter::EmitPointsInTiles() {
  // Tiles cover all points of the spec, and short dims would leave most threads without work.
  const int d = schedule_.tile_dim, last = s_.parallel_rank - 1;
  Value* const rows = f_.Product(0, last);
  Value* const from_first = b_.CreateICmpEQ(f_.begin(), b_.getInt64(0));
  Value* const to_last = b_.CreateICmpEQ(f_.end(), rows);
  Value* const whole = b_.CreateAnd(from_first, to_last);
  const auto is_long = [&](int dim) { return b_.CreateICmpSGE(f_.Size(dim), b_.getInt64(limits_.short_side)); };
  Value* const source_is_long = is_long(d);
  Value* const both = b_.CreateAnd(source_is_long, is_long(last));
  f_.IfElse(b_.CreateAnd(whole, both), [&] { EmitTiles(); }, [&] { EmitPoints(/*serial=*/false); });
}

void CudaEmitter::EmitTiles() {
  const int d = schedule_.tile_dim, last = s_.parallel_rank - 1;
  const KernelPhase& phase = s_.phases[0];
  Value* const lane = b_.CreateAnd(f_.thread(), b_.getInt64(kCudaWarp - 1));
  Value* const warp = b_.CreateLShr(f_.thread(), b_.getInt64(5));
  Value* const across = CeilDiv(f_.Size(last), kTile);
  Value* const down = CeilDiv(f_.Size(d), kTile);
  Value* items = b_.CreateMul(across, down);
  for (int k = 0; k < last; ++k) {
    if (k != d) items = b_.CreateMul(items, f_.Size(k));
  }
  // Equal loads of a param have equal values.
  std::map<int, llvm::GlobalVariable*> tiles;
  for (int i : phase.instrs) {
    if (!IsTransposedLoad(s_, i, d)) continue;
    const int param = s_.instrs[i].param;
    const int words = kTile * kTileRow * ItemSize(s_.params[param].dtype) / 8 + 1;
    if (!tiles.contains(param)) tiles[param] = f_.Shared(absl::StrCat("_tile", param).c_str(), words);
  }
  const auto element = [&](int param, Value* row, Value* column) {
    Value* at = b_.CreateAdd(b_.CreateMul(row, b_.getInt64(kTileRow)), column);
    return b_.CreateGEP(MemoryType(s_.params[param].dtype), tiles[param], {at});
  };
  // Calls `body` for the elements of the thread: in the rows warp, warp + 8, ... of the tile. The element exists if
  // both indices do.
  const auto each = [&](int row_dim, Value* row_first, int column_dim, Value* column_first, const auto& body) {
    index_[column_dim] = b_.CreateAdd(column_first, lane);
    Value* const column_exists = b_.CreateICmpSLT(index_[column_dim], f_.Size(column_dim));
    for (int k = 0; k < kTile; k += kCudaBlock / kCudaWarp) {
      Value* const row = b_.CreateAdd(warp, b_.getInt64(k));
      index_[row_dim] = b_.CreateAdd(row_first, row);
      Value* const row_exists = b_.CreateICmpSLT(index_[row_dim], f_.Size(row_dim));
      f_.If(b_.CreateAnd(column_exists, row_exists), [&] { body(row); });
    }
  };
  f_.For(f_.block(), items, f_.blocks(), [&](Value* item) {
    Value* const column_first = b_.CreateMul(b_.CreateURem(item, across), b_.getInt64(kTile));
    Value* rest = b_.CreateUDiv(item, across);
    Value* const row_first = b_.CreateMul(b_.CreateURem(rest, down), b_.getInt64(kTile));
    rest = b_.CreateUDiv(rest, down);
    for (int k = last - 1; k >= 0; --k) {
      if (k == d) continue;
      index_[k] = b_.CreateURem(rest, f_.Size(k));
      rest = b_.CreateUDiv(rest, f_.Size(k));
    }
    for (const auto& [param, tile] : tiles) {
      const DType type = s_.params[param].dtype;
      each(last, column_first, d, row_first, [&](Value* row) {
        Value* const from = f_.Address(param, index_, nullptr);
        auto* load = b_.CreateAlignedLoad(MemoryType(type), from, llvm::Align(ItemSize(type)));
        f_.MarkConstant(load, param);
        b_.CreateAlignedStore(load, element(param, row, lane), llvm::Align(ItemSize(type)));
      });
    }
    f_.Barrier();
    each(d, row_first, last, column_first, [&](Value* row) {
      values_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
      given_.assign(s_.instrs.size(), nullptr);
      for (int i : phase.instrs) {
        if (!IsTransposedLoad(s_, i, d)) continue;
        const int param = s_.instrs[i].param;
        const DType type = s_.params[param].dtype;
        Value* const at = element(param, lane, row);
        given_[i] = FromMemory(type, b_.CreateAlignedLoad(MemoryType(type), at, llvm::Align(ItemSize(type))));
      }
      EmitInstrs(phase.instrs, 1);
      given_.clear();
    });
    // The tiles may still be read.
    f_.Barrier();
  });
}

}  // namespace smelt
