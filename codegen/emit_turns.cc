#include "smelt/codegen/emit_turns.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Value;

namespace {

// Rows whose operands and results take at most this many bytes are taken in turns.
constexpr int64_t kTurnBytes = 24 << 10;
constexpr int64_t kTurnBlock = 128;  // elements

}  // namespace

KeptRow::KeptRow(KernelFunction& fn, const Schedule& plan, Values& values, size_t end, const std::vector<bool>* wanted)
    : fn_(fn), values_(values) {
  const KernelSpec& spec = plan.spec;
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const KernelInstr& in = spec.instrs[i];
    const int phase = plan.phase_of[i];
    const bool is_kept = in.op != KernelOp::kStore && phase < static_cast<int>(end) && (!wanted || (*wanted)[i]) &&
                         (in.op == KernelOp::kReduce || !spec.phases[phase].inner);
    kept_.push_back(is_kept ? fn.Variable(fn.scalar().TypeOf(in.type)) : nullptr);
  }
  llvm::Type* pointer = fn.b().getPtrTy();
  for (size_t p = 0; p < spec.params.size(); ++p) addr_.push_back(fn.Variable(pointer));
  for (size_t p = 0; p < spec.params.size(); ++p) {
    scratch_.push_back(plan.has_scratch[p] ? fn.Variable(pointer) : nullptr);
  }
  for (int d = 0; d < spec.rank(); ++d) {
    idx_.push_back(d < spec.parallel_rank ? fn.Variable(fn.b().getInt64Ty()) : nullptr);
  }
}

void KeptRow::Store(const std::vector<Value*>& values, const Variables& to) {
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] && values[k]) fn_.b().CreateStore(values[k], to[k]);
  }
}

std::vector<Value*> KeptRow::Load(const Variables& from) {
  std::vector<Value*> values;
  for (AllocaInst* variable : from) values.push_back(variable ? fn_.Load(variable) : nullptr);
  return values;
}

void KeptRow::Keep(const LoopContext& ctx) {
  Store(values_.First(), kept_);
  Store(ctx.addr, addr_);
  Store(ctx.scratch, scratch_);
  Store(ctx.idx, idx_);
}

LoopContext KeptRow::Restore(const LoopContext& ctx) {
  values_.Reset(1, Load(kept_));
  LoopContext row = ctx;
  row.addr = Load(addr_);
  row.scratch = Load(scratch_);
  row.idx = Load(idx_);
  return row;
}

TurnEmitter::TurnEmitter(KernelFunction& fn, const Schedule& plan, const RowPlan& rows, const LaunchWords& words,
                         Values& values, LoopParts& parts)
    : fn_(fn),
      b_(fn.b()),
      plan_(plan),
      s_(plan.spec),
      words_(words),
      values_(values),
      parts_(parts),
      row_loops_(fn, plan, rows, words, values, parts),
      last_(rows.last),
      before_(last_ - 1) {
  while (!s_.phases[before_].inner || plan_.unless[before_] >= 0) --before_;
  front_loop_ = row_loops_.PlanLoop(s_.phases[before_]);
  back_loop_ = row_loops_.PlanLoop(s_.phases[last_]);
}

std::vector<bool> TurnEmitter::TakenFromBefore() const {
  std::vector<bool> taken(s_.instrs.size(), false);
  for (size_t k = last_; k < s_.phases.size(); ++k) {
    for (int i : s_.phases[k].instrs) {
      for (int o : s_.instrs[i].operands) taken[o] = true;
    }
  }
  return taken;
}

void TurnEmitter::ChooseBlock(const RowsAhead& ahead) {
  ahead_ = ahead;
  // A block is whole steps of both loops, and has no more additions than sums may have before they are added to their
  // second level.
  const int64_t sum_block = front_loop_.copies * plan_.lanes * kSumBlock;
  const int64_t step = std::max(front_loop_.copies, back_loop_.copies) * int64_t{plan_.lanes};
  block_ = b_.getInt64(std::max(std::min(kTurnBlock, sum_block), step));
  int64_t item_bytes = 0;
  int rows_read = 0;
  Value* past_cache = nullptr;
  Value* places = b_.getInt64(0);  // bits of the places of rows that are read
  bool some_apart = absl::c_linear_search(plan_.fills_next, true);
  for (int p = 0; p < static_cast<int>(s_.params.size()); ++p) {
    if (!words_.stride(p, plan_.loop_dim)) continue;
    item_bytes += ItemSize(s_.params[p].dtype);
    const bool has_rows = s_.parallel_rank == 0 || words_.stride(p, s_.parallel_rank - 1);
    if (!plan_.written[p] && has_rows) {
      ++rows_read;
      some_apart = some_apart || plan_.LinesApart(p) > 1;
      places = b_.CreateOr(places, b_.CreatePtrToInt(words_.base(p), b_.getInt64Ty()));
      for (int d = 0; d < s_.parallel_rank; ++d) {
        if (words_.stride(p, d)) places = b_.CreateOr(places, words_.stride(p, d));
      }
    }
    if (words_.passes_cache(p)) past_cache = words_.passes_cache(p);
  }
  Value* n = words_.size(plan_.loop_dim);
  behind_ = b_.CreateICmpSLE(b_.CreateMul(n, b_.getInt64(item_bytes)), b_.getInt64(kTurnBytes));
  if (rows_read > 1 && words_.reads_alone()) {
    block_ = b_.CreateSelect(words_.reads_alone(), b_.getInt64(std::max(sum_block, step)), block_);
    if (past_cache) {
      // There the machine's own prefetchers keep up, if rows are finished in the order of memory, and each vector is one
      // line.
      Value* by_itself = b_.CreateAnd(words_.reads_alone(), past_cache);
      Value* are_lines = b_.CreateICmpEQ(b_.CreateAnd(places, b_.getInt64(kLine - 1)), b_.getInt64(0));
      by_itself = b_.CreateAnd(by_itself, some_apart ? b_.getFalse() : are_lines);
      behind_ = b_.CreateAnd(behind_, b_.CreateNot(by_itself));
      ahead_.asks = b_.CreateNot(by_itself);
    }
  }
  rows_behind_ = b_.CreateZExt(behind_, b_.getInt64Ty());
}

void TurnEmitter::EmitBlock(const LoopContext& ctx, Value* from, Value* front, Value* back) {
  Value* n = words_.size(plan_.loop_dim);
  Value* to = b_.CreateAdd(from, block_);
  Value* is_last = b_.CreateICmpSGE(to, n);
  auto flush = [&](const LoopContext& row, const RowLoop& loop) {
    if (!plan_.HasSums(loop.phase->instrs)) return;
    Value* rest = b_.CreateAnd(to, b_.getInt64(loop.copies * plan_.lanes * kSumBlock - 1));
    Value* is_full = b_.CreateICmpEQ(rest, b_.getInt64(0));
    fn_.If(b_.CreateAnd(is_full, b_.CreateNot(is_last)), [&] { row_loops_.Flush(row, loop); });
  };
  fn_.If(front, [&] {
    const LoopContext row = front_->Restore(ctx);
    row_loops_.Run(row, front_loop_, ahead_, from, fn_.Min(to, n));
    flush(row, front_loop_);
  });
  fn_.If(back, [&] {
    const LoopContext row = back_->Restore(ctx);
    Value* first = fn_.Load(head_);
    Value* smaller = fn_.Min(b_.CreateAdd(from, first), n);
    Value* lo = b_.CreateSelect(b_.CreateICmpEQ(from, b_.getInt64(0)), from, smaller);
    Value* hi = b_.CreateSelect(is_last, n, fn_.Min(b_.CreateAdd(to, first), n));
    RowsAhead ahead = ahead_;
    if (ahead.rows) ahead.rows = b_.CreateAdd(ahead.rows, rows_behind_);
    row_loops_.Run(row, back_loop_, ahead, lo, hi);
    flush(row, back_loop_);
  });
}

void TurnEmitter::EmitTurn(const LoopContext& ctx, Value* front, Value* back,
                           const std::function<LoopContext()>& start) {
  fn_.If(front, [&] {
    const LoopContext row = start();
    row_loops_.EmitPhases(row, ahead_, 0, before_);
    row_loops_.Start(row, front_loop_);
    front_->Keep(row);
  });
  fn_.If(back, [&] {
    const LoopContext row = back_->Restore(ctx);
    row_loops_.Start(row, back_loop_);
    b_.CreateStore(row_loops_.HeadOf(row, back_loop_), head_);
  });
  fn_.For(b_.getInt64(0), words_.size(plan_.loop_dim), block_, [&](Value* from) { EmitBlock(ctx, from, front, back); });
  fn_.If(back, [&] {
    const LoopContext row = back_->Restore(ctx);
    row_loops_.Finish(row, back_loop_);
    row_loops_.EmitPhases(row, ahead_, last_ + 1, s_.phases.size());
  });
  fn_.If(front, [&] {
    const LoopContext row = front_->Restore(ctx);
    row_loops_.Finish(row, front_loop_);
    row_loops_.EmitPhases(row, ahead_, before_ + 1, last_);
    back_->Keep(row);
  });
}

void TurnEmitter::Emit(const LoopContext& ctx, const RowsAhead& ahead,
                       const std::function<LoopContext(const LoopContext&, Value*)>& start) {
  ChooseBlock(ahead);
  head_ = fn_.Variable(b_.getInt64Ty());
  const std::vector<bool> wanted = TakenFromBefore();
  values_.Reset(1, values_.None());
  front_.emplace(fn_, plan_, values_, before_, nullptr);
  back_.emplace(fn_, plan_, values_, last_, &wanted);
  parts_.nests.ForTiles(ctx, b_.CreateAdd(fn_.end(), rows_behind_), [&](const LoopContext& row, Value* tile) {
    Value* turns = b_.CreateSub(b_.getInt64(2), rows_behind_);
    fn_.For(b_.getInt64(0), turns, b_.getInt64(1), [&](Value* k) {
      Value* is_first = b_.CreateICmpEQ(k, b_.getInt64(0));
      Value* negated = b_.CreateNot(is_first);
      Value* back = b_.CreateSelect(behind_, b_.CreateICmpSGT(tile, fn_.begin()), negated);
      Value* front = b_.CreateAnd(is_first, b_.CreateICmpSLT(tile, fn_.end()));
      EmitTurn(row, front, back, [&] { return start(row, tile); });
    });
  });
}

}  // namespace smelt
