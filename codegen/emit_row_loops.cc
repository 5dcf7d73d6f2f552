#include "smelt/codegen/emit_row_loops.h"

#include <utility>
#include <vector>

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

LoopContext RowLoopEmitter::InVectors(const LoopContext& ctx) const {
  LoopContext inner = ctx;
  inner.lanes = plan_.lanes;
  return inner;
}

void RowLoopEmitter::EmitPhases(const LoopContext& ctx, const RowsAhead& ahead, size_t from, size_t to) {
  values_.ClearHoisted();
  for (size_t k = from; k < to; ++k) {
    if (plan_.unless[k] >= 0) {
      EmitPhaseUnless(ctx, ahead, k, values_.Get(plan_.unless[k], 0));
    } else if (s_.phases[k].inner) {
      EmitPhase(ctx, ahead, s_.phases[k]);
    } else {
      parts_.instrs.EmitInstrs(ctx, s_.phases[k].instrs, 1);
    }
  }
}

void RowLoopEmitter::EmitPhaseUnless(const LoopContext& ctx, const RowsAhead& ahead, size_t k, Value* known) {
  std::vector<std::pair<int, AllocaInst*>> sums;
  for (int i : s_.phases[k].instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    Type* type = fn_.scalar().TypeOf(in.type);
    sums.emplace_back(i, fn_.Variable(type));
    b_.CreateStore(llvm::Constant::getNullValue(type), sums.back().second);
  }
  fn_.If(b_.CreateNot(known), [&] {
    EmitPhase(ctx, ahead, s_.phases[k]);
    for (const auto& [i, sum] : sums) b_.CreateStore(values_.Get(i, 0), sum);
  });
  for (const auto& [i, sum] : sums) values_.Set(i, 0, fn_.Load(sum));
}

void RowLoopEmitter::EmitPhase(const LoopContext& ctx, const RowsAhead& ahead, const KernelPhase& phase) {
  const RowLoop loop = PlanLoop(phase);
  Start(ctx, loop);
  std::function<void()> flush;
  if (plan_.HasSums(phase.instrs)) flush = [&] { Flush(ctx, loop); };
  Value* n = words_.size(plan_.loop_dim);
  fn_.If(b_.CreateICmpSGT(n, b_.getInt64(0)), [&] {
    parts_.nests.Nest(
        ctx, s_.parallel_rank, s_.rank() - 1,
        [&](const LoopContext& inner) { Run(inner, loop, ahead, b_.getInt64(0), n, flush); }, flush);
  });
  Finish(ctx, loop);
}

RowLoop RowLoopEmitter::PlanLoop(const KernelPhase& phase) const {
  RowLoop loop;
  loop.phase = &phase;
  bool scans = false, reduces = false;
  for (int i : phase.instrs) {
    scans = scans || s_.instrs[i].op == KernelOp::kScan;
    reduces = reduces || s_.instrs[i].op == KernelOp::kReduce;
  }
  // A scan of sums runs in order, one element after the other; the instructions beside it run in vectors.
  loop.copies = plan_.lanes == 1 || scans ? 1 : plan_.Copies(phase.instrs, reduces);
  int inner = 0, number = -1;
  for (size_t k = 0; k < s_.phases.size(); ++k) {
    if (plan_.unless[k] >= 0) continue;
    if (&s_.phases[k] == &phase) number = inner;
    inner += s_.phases[k].inner;
  }
  loop.prefetches = plan_.lanes > 1 && s_.reduction_rank == 1 && number == rows_.prefetch_loop;
  return loop;
}

void RowLoopEmitter::Start(const LoopContext& ctx, const RowLoop& loop) {
  parts_.reductions.StartReductions(InVectors(ctx), loop.phase->instrs, loop.copies);
}

void RowLoopEmitter::Run(const LoopContext& ctx, const RowLoop& loop, const RowsAhead& ahead, Value* lo, Value* hi,
                         const std::function<void()>& flush) {
  const std::vector<int>& instrs = loop.phase->instrs;
  const LoopContext row = InVectors(ctx);
  const std::vector<Value*> known = values_.First();
  const std::vector<bool> ready = values_.Ready();
  values_.Reset(loop.copies, known);
  std::vector<Value*> rows_ahead;
  if (loop.prefetches) rows_ahead = parts_.prefetches.FindRowsAhead(row, ahead.rows);
  parts_.loops.Hoist(row, instrs, ready);
  parts_.loops.ChunkLoop(
      row, instrs, {lo, hi, loop.copies, plan_.HasStores(instrs)},
      [&](const LoopContext& inner, int copies) {
        auto prefetch = [&] { parts_.prefetches.PrefetchRows(inner, rows_ahead, copies); };
        if (loop.prefetches && (!inner.mask || inner.whole)) ahead.asks ? fn_.If(ahead.asks, prefetch) : prefetch();
        parts_.instrs.EmitInstrs(inner, instrs, copies);
      },
      flush);
  values_.ClearHoisted();
  values_.Reset(1, known);
}

void RowLoopEmitter::Flush(const LoopContext& ctx, const RowLoop& loop) {
  parts_.reductions.FlushSums(InVectors(ctx), loop.phase->instrs, loop.copies);
}

Value* RowLoopEmitter::HeadOf(const LoopContext& ctx, const RowLoop& loop) {
  const std::vector<int>& instrs = loop.phase->instrs;
  if (!plan_.HasStores(instrs)) return b_.getInt64(0);
  LoopContext row = InVectors(ctx);
  row.pairs = plan_.CanPair(instrs, loop.copies);
  Value* head = parts_.loops.NonTemporalHead(row, instrs, b_.getInt64(0)).head;
  return head ? head : b_.getInt64(0);
}

void RowLoopEmitter::Finish(const LoopContext& ctx, const RowLoop& loop) {
  const std::vector<Value*> known = values_.First();
  values_.Reset(loop.copies, known);
  parts_.reductions.FinishReductions(InVectors(ctx), loop.phase->instrs, loop.copies);
  // Only values that later phases may use are left.
  std::vector<Value*> after = known;
  for (int i : loop.phase->instrs) {
    if (s_.instrs[i].op == KernelOp::kReduce) after[i] = values_.Get(i, 0);
  }
  values_.Reset(1, after);
}

}  // namespace smelt
