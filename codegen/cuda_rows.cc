// Kernels that reduce along inner dims: a warp takes a short row, a block a long one, and many blocks one that is
// longer still, if its partial results can be combined by a second launch.
#include <algorithm>
#include <functional>
#include <vector>

#include "smelt/codegen/cuda_emitter.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::Value;

CudaEmitter::Team CudaEmitter::Blocks() {
  return {CudaReductions::Scope::kBlock, kCudaBlock, f_.thread(), f_.block(), f_.blocks()};
}

CudaEmitter::Team CudaEmitter::Warps() {
  Value* const warps = b_.getInt64(kCudaBlock / kCudaWarp);
  Value* const lane = b_.CreateAnd(f_.thread(), b_.getInt64(kCudaWarp - 1));
  Value* const warp = b_.CreateUDiv(f_.thread(), b_.getInt64(kCudaWarp));
  Value* const index = b_.CreateAdd(b_.CreateMul(f_.block(), warps), warp);
  return {CudaReductions::Scope::kWarp, kCudaWarp, lane, index, b_.CreateMul(f_.blocks(), warps)};
}

void CudaEmitter::Meet(const Team& team) {
  if (team.scope == CudaReductions::Scope::kWarp) {
    f_.WarpBarrier();
  } else {
    f_.Barrier();
  }
}

void CudaEmitter::EmitRows() {
  const Team blocks = Blocks();
  if (std::any_of(s_.phases.begin(), s_.phases.end(), [&](const KernelPhase& p) { return p.inner && Scatters(p); })) {
    EmitRows(blocks);
    return;
  }
  const Team warps = Warps();
  const auto long_rows = [&] {
    if (schedule_.split == 0) {
      EmitRows(blocks);
      return;
    }
    f_.IfElse(b_.CreateICmpSGT(Splits(), b_.getInt64(1)), [&] { EmitSplitRows(); }, [&] { EmitRows(blocks); });
  };
  f_.IfElse(b_.CreateICmpSLE(ReductionSize(), b_.getInt64(limits_.short_row)), [&] { EmitRows(warps); }, long_rows);
}

void CudaEmitter::EmitRows(const Team& team) {
  f_.For(b_.CreateAdd(f_.begin(), team.index), f_.end(), team.teams, [&](Value* tile) {
    f_.Decompose(tile, 0, s_.parallel_rank, index_);
    const std::vector<Value*> outer = index_;
    values_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
    for (const KernelPhase& phase : s_.phases) {
      index_ = outer;
      if (!phase.inner) {
        EmitOnce(phase, team, b_.CreateICmpEQ(team.rank, b_.getInt64(0)));
      } else {
        reductions_.Begin(phase);
        if (Scatters(phase)) {
          EmitScatter(phase);
        } else {
          EmitElements(phase, team, b_.getInt64(0), ReductionSize());
        }
        index_ = outer;
        reductions_.End(phase, team.scope, values_[0]);
      }
      // Later phases read what threads of this one stored, and store what they loaded.
      Meet(team);
    }
    index_ = outer;
  });
}

void CudaEmitter::EmitElements(const KernelPhase& phase, const Team& team, Value* from, Value* to) {
  const std::vector<Value*> outer = index_;
  const auto loop = [&](int v) {
    values_.resize(v, values_[0]);
    f_.For(b_.CreateAdd(from, b_.CreateMul(team.rank, b_.getInt64(v))), to, b_.getInt64(team.size * v), [&](Value* k) {
      index_ = outer;
      f_.Decompose(k, s_.parallel_rank, s_.rank(), index_);
      EmitInstrs(phase.instrs, v);
    });
    values_.resize(1);
    index_ = outer;
  };
  const int v = schedule_.vector;
  if (v == 1) {
    loop(1);
    return;
  }
  lane_dim_ = s_.rank() - 1;
  // With fewer elements, some threads would have none while others have several.
  Value* const enough = b_.CreateICmpSGE(b_.CreateSub(to, from), b_.getInt64(team.size * v));
  f_.IfElse(b_.CreateAnd(enough, IsAligned(phase, v)), [&] { loop(v); }, [&] { loop(1); });
}

Value* CudaEmitter::IsAligned(const KernelPhase& phase, int v) {
  const int last = s_.rank() - 1;
  const auto is_multiple = [&](Value* n, int of) {
    return b_.CreateICmpEQ(b_.CreateAnd(n, b_.getInt64(of - 1)), b_.getInt64(0));
  };
  Value* aligned = is_multiple(f_.Size(last), v);
  std::vector<bool> seen(s_.params.size(), false);
  std::vector<Value*> first = index_;
  for (int d = s_.parallel_rank; d < s_.rank(); ++d) first[d] = b_.getInt64(0);
  for (int i : phase.instrs) {
    const KernelInstr& in = s_.instrs[i];
    if ((in.op != KernelOp::kLoad && in.op != KernelOp::kStore) || in.has_offset || in.has_guard) continue;
    if (!IsUnit(in.param, last) || seen[in.param]) continue;
    seen[in.param] = true;
    const int bytes = v * ItemSize(s_.params[in.param].dtype);
    Value* const address = b_.CreatePtrToInt(f_.Address(in.param, first, nullptr), i64_);
    aligned = b_.CreateAnd(aligned, is_multiple(address, bytes));
    for (int d = s_.parallel_rank; d < last; ++d) {
      if (Value* stride = f_.StrideBytes(in.param, d)) aligned = b_.CreateAnd(aligned, is_multiple(stride, bytes));
    }
  }
  return aligned;
}

void CudaEmitter::EmitSplitRows() {
  const Team team = Blocks();
  Value* const splits = Splits();
  Value* const size = ReductionSize();
  Value* const items = b_.CreateMul(b_.CreateSub(f_.end(), f_.begin()), splits);
  f_.For(f_.block(), items, f_.blocks(), [&](Value* item) {
    f_.Decompose(b_.CreateAdd(f_.begin(), b_.CreateUDiv(item, splits)), 0, s_.parallel_rank, index_);
    const std::vector<Value*> outer = index_;
    EmitPhasesBefore();
    reductions_.Begin(InnerPhase());
    Value* const from = b_.CreateMul(b_.CreateURem(item, splits), b_.getInt64(schedule_.split));
    EmitElements(InnerPhase(), team, from, Min(size, b_.CreateAdd(from, b_.getInt64(schedule_.split))));
    index_ = outer;
    reductions_.Combine(InnerPhase(), team.scope);
    f_.If(b_.CreateICmpEQ(team.rank, b_.getInt64(0)), [&] { reductions_.WritePartial(InnerPhase(), item); });
  });
}

void CudaEmitter::EmitRowsOfPartials() {
  const Team team = Blocks();
  Value* const splits = Splits();
  f_.For(f_.block(), b_.CreateSub(f_.end(), f_.begin()), f_.blocks(), [&](Value* tile) {
    f_.Decompose(b_.CreateAdd(f_.begin(), tile), 0, s_.parallel_rank, index_);
    const std::vector<Value*> outer = index_;
    EmitPhasesBefore();
    reductions_.Begin(InnerPhase());
    f_.For(team.rank, splits, b_.getInt64(team.size), [&](Value* split) {
      reductions_.AccumulatePartial(InnerPhase(), b_.CreateAdd(b_.CreateMul(tile, splits), split));
    });
    reductions_.End(InnerPhase(), team.scope, values_[0]);
    EmitPhasesAfter(team, b_.CreateICmpEQ(team.rank, b_.getInt64(0)));
    index_ = outer;
  });
}

const KernelPhase& CudaEmitter::InnerPhase() const {
  return *std::find_if(s_.phases.begin(), s_.phases.end(), [](const KernelPhase& p) { return p.inner; });
}

void CudaEmitter::EmitPhasesBefore() {
  values_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
  for (const KernelPhase& phase : s_.phases) {
    if (phase.inner) return;
    EmitInstrs(phase.instrs, 1);
  }
}

void CudaEmitter::EmitPhasesAfter(const Team& team, Value* stores) {
  bool after = false;
  for (const KernelPhase& phase : s_.phases) {
    if (after) {
      EmitOnce(phase, team, stores);
      Meet(team);
    }
    after = after || phase.inner;
  }
}

void CudaEmitter::EmitOnce(const KernelPhase& phase, const Team& team, Value* stores) {
  once_ = &team;
  stores_ = stores;
  EmitInstrs(phase.instrs, 1);
  once_ = nullptr;
}

}  // namespace smelt
