// Kernels whose threads compute points of their own, and those that reduce along an outer dim.
#include <functional>
#include <vector>

#include "smelt/codegen/cuda_emitter.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::Value;

void CudaEmitter::EmitPoints(bool serial) {
  const int p = s_.parallel_rank;
  const bool by_elements = VectorIsParallel(s_) && p == 1;
  const bool by_rows = VectorIsParallel(s_) && p > 1;
  const int row_dims = by_rows ? p - 1 : p;
  const int v = serial ? 1 : schedule_.vector;
  lane_dim_ = p - 1;
  Value* tiles = b_.CreateSub(f_.end(), f_.begin());
  Value* per_row = by_rows ? CeilDiv(f_.Size(p - 1), v) : nullptr;
  Value* total = by_elements ? CeilDiv(tiles, v) : by_rows ? b_.CreateMul(tiles, per_row) : tiles;
  Value* first = serial ? b_.getInt64(0) : b_.CreateAdd(b_.CreateMul(f_.block(), b_.getInt64(kCudaBlock)), f_.thread());
  Value* step = serial ? b_.getInt64(1) : b_.CreateMul(f_.blocks(), b_.getInt64(kCudaBlock));
  auto all = [&] {
    f_.For(first, total, step, [&](Value* c) {
      if (by_elements) {
        Chunk(b_.CreateAdd(f_.begin(), b_.CreateMul(c, b_.getInt64(v))), f_.end(), v);
      } else if (by_rows) {
        f_.Decompose(b_.CreateAdd(f_.begin(), b_.CreateUDiv(c, per_row)), 0, row_dims, index_);
        Chunk(b_.CreateMul(b_.CreateURem(c, per_row), b_.getInt64(v)), f_.Size(p - 1), v);
      } else {
        f_.Decompose(b_.CreateAdd(f_.begin(), c), 0, p, index_);
        Point(1);
      }
    });
  };
  if (serial) {
    f_.If(b_.CreateICmpEQ(b_.CreateOr(f_.block(), f_.thread()), b_.getInt64(0)), all);
  } else {
    all();
  }
}

void CudaEmitter::Chunk(Value* at, Value* limit, int v) {
  Value*& index = index_[s_.parallel_rank - 1];
  if (v == 1) {
    index = at;
    Point(1);
    return;
  }
  auto one_by_one = [&] {
    Value* stop = Min(limit, b_.CreateAdd(at, b_.getInt64(v)));
    f_.For(at, stop, b_.getInt64(1), [&](Value* i) {
      index = i;
      Point(1);
    });
  };
  // True if the chunk is whole and each param with adjacent elements is aligned: no alignment is promised.
  index = at;
  Value* whole = b_.CreateICmpSLE(b_.CreateAdd(at, b_.getInt64(v)), limit);
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (!IsUnit(static_cast<int>(k), lane_dim_)) continue;
    const int bytes = v * ItemSize(s_.params[k].dtype);
    Value* address = b_.CreatePtrToInt(f_.Address(static_cast<int>(k), index_, nullptr), i64_);
    whole = b_.CreateAnd(whole, b_.CreateICmpEQ(b_.CreateAnd(address, b_.getInt64(bytes - 1)), b_.getInt64(0)));
  }
  f_.IfElse(whole, [&] { index = at, Point(v); }, one_by_one);
}

void CudaEmitter::Point(int v) {
  const std::vector<Value*> outer = index_;
  values_.assign(v, std::vector<Value*>(s_.instrs.size(), nullptr));
  for (const KernelPhase& phase : s_.phases) {
    index_ = outer;
    if (!phase.inner) {
      EmitInstrs(phase.instrs, v);
      continue;
    }
    SMELT_CHECK(v == 1);
    reductions_.Begin(phase);
    f_.For(b_.getInt64(0), ReductionSize(), b_.getInt64(1), [&](Value* k) {
      f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
      EmitInstrs(phase.instrs, 1);
    });
    index_ = outer;
    reductions_.End(phase, CudaReductions::Scope::kThread, values_[0]);
  }
  index_ = outer;
}

void CudaEmitter::SetPoint(Value* row, Value* column) {
  const int p = s_.parallel_rank;
  if (p == 1) {
    index_[0] = b_.CreateAdd(f_.begin(), column);
    return;
  }
  f_.Decompose(b_.CreateAdd(f_.begin(), row), 0, p - 1, index_);
  index_[p - 1] = column;
}

CudaEmitter::Columns CudaEmitter::ColumnsOfLaunch() {
  Value* tiles = b_.CreateSub(f_.end(), f_.begin());
  if (s_.parallel_rank == 1) return {b_.getInt64(1), tiles};
  return {tiles, f_.Size(s_.parallel_rank - 1)};
}

void CudaEmitter::EmitColumns() {
  // Where each point has few elements, a thread for each point is enough.
  f_.IfElse(
      b_.CreateICmpSLE(ReductionSize(), b_.getInt64(limits_.few_elements)), [&] { EmitPoints(/*serial=*/false); },
      [&] { EmitTiledColumns(); });
}

void CudaEmitter::EmitTiledColumns() {
  const Team team = Blocks();
  Value* const lane = b_.CreateAnd(f_.thread(), b_.getInt64(kCudaWarp - 1));
  Value* const warp = b_.CreateLShr(f_.thread(), b_.getInt64(5));
  const Columns all = ColumnsOfLaunch();
  Value* const splits = Splits();
  Value* const is_split = b_.CreateICmpSGT(splits, b_.getInt64(1));
  Value* const size = ReductionSize();
  Value* const groups = CeilDiv(all.columns, kCudaWarp);
  Value* const items = b_.CreateMul(b_.CreateMul(all.rows, groups), splits);
  f_.For(f_.block(), items, f_.blocks(), [&](Value* item) {
    Value* const split = b_.CreateURem(item, splits);
    Value* const rest = b_.CreateUDiv(item, splits);
    Value* const row = b_.CreateUDiv(rest, groups);
    Value* const column = b_.CreateAdd(b_.CreateMul(b_.CreateURem(rest, groups), b_.getInt64(kCudaWarp)), lane);
    Value* const exists = b_.CreateICmpSLT(column, all.columns);
    // Threads without a point go along with the last one.
    SetPoint(row, Min(column, b_.CreateSub(all.columns, b_.getInt64(1))));
    const std::vector<Value*> outer = index_;
    EmitPhasesBefore();
    reductions_.Begin(InnerPhase());
    Value* const from = b_.CreateMul(split, b_.getInt64(schedule_.split));
    Value* const to = Min(size, b_.CreateAdd(from, b_.getInt64(schedule_.split)));
    Value* const first = b_.CreateAdd(from, warp);
    Value* const end = b_.CreateSelect(exists, to, b_.getInt64(0));
    f_.For(first, end, b_.getInt64(kCudaBlock / kCudaWarp), [&](Value* k) {
      f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
      EmitInstrs(InnerPhase().instrs, 1);
    });
    index_ = outer;
    reductions_.Combine(InnerPhase(), CudaReductions::Scope::kColumn);
    Value* const stores = b_.CreateAnd(exists, b_.CreateICmpEQ(warp, b_.getInt64(0)));
    f_.IfElse(
        is_split,
        [&] {
          f_.If(stores, [&] {
            Value* const points = b_.CreateMul(all.rows, all.columns);
            Value* const point = b_.CreateAdd(b_.CreateMul(row, all.columns), column);
            reductions_.WritePartial(InnerPhase(), b_.CreateAdd(b_.CreateMul(split, points), point));
          });
        },
        [&] {
          reductions_.Finish(InnerPhase(), values_[0]);
          EmitPhasesAfter(team, stores);
        });
    index_ = outer;
  });
}

void CudaEmitter::EmitColumnsOfPartials() {
  const Columns all = ColumnsOfLaunch();
  Value* const points = b_.CreateMul(all.rows, all.columns);
  Value* const splits = Splits();
  Value* const block = b_.getInt64(kCudaBlock);
  Value* const first = b_.CreateAdd(b_.CreateMul(f_.block(), block), f_.thread());
  Value* const stride = b_.CreateMul(f_.blocks(), block);
  f_.For(first, points, stride, [&](Value* point) {
    Value* const row = b_.CreateUDiv(point, all.columns);
    Value* const column = b_.CreateURem(point, all.columns);
    SetPoint(row, column);
    const std::vector<Value*> outer = index_;
    EmitPhasesBefore();
    reductions_.Begin(InnerPhase());
    f_.For(b_.getInt64(0), splits, b_.getInt64(1), [&](Value* split) {
      reductions_.AccumulatePartial(InnerPhase(), b_.CreateAdd(b_.CreateMul(split, points), point));
    });
    reductions_.End(InnerPhase(), CudaReductions::Scope::kThread, values_[0]);
    bool after = false;
    for (const KernelPhase& phase : s_.phases) {
      if (after) EmitInstrs(phase.instrs, 1);
      after = after || phase.inner;
    }
    index_ = outer;
  });
}

}  // namespace smelt
