// Kernels in which each row is one tile: its reductions run along the vectorized dim, one phase after the other.
#include <algorithm>
#include <utility>
#include <vector>

#include "smelt/codegen/kernel_emitter.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// Rows whose operands and results take at most this many bytes are taken in turns, see EmitRowsInTurns. A Zen 3
// (machines without AVX-512) gains nothing where memory is the limit: there a vector's instructions, twice their
// number, are at least five times the bytes of an element.
constexpr int64_t kTurnBytes = 24 << 10;
constexpr int64_t kTurnBlock = 128;  // elements
constexpr int kTurnCost = 5;
// The distance at which the following rows are prefetched. A Zen 3 was measured for machines without AVX-512, a Zen 4
// for those with it.
constexpr int64_t kBytesAhead = 4 << 10, kBytesAheadOfAvx2 = 8 << 10;

}  // namespace

// Values of a row that are kept in a result's memory until the result itself is stored (the exponentials of a softmax)
// are kept in a buffer instead, if the row fits into it. Then the result's memory is written once, past the cache.
void KernelEmitter::PlanScratch() {
  has_scratch_.assign(s_.params.size(), false);
  scratch_.assign(s_.params.size(), nullptr);
  if (columns_ || s_.reduction_rank != 1 || lanes_ == 1) return;
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (!written_[p] || !s_.params[p].is_read || s_.params[p].strides[loop_dim_] != StrideClass::kUnit) continue;
    int first = -1, last = -1, stores = 0;
    bool ok = true;
    for (size_t i = 0; i < s_.instrs.size(); ++i) {
      const KernelInstr& in = s_.instrs[i];
      if ((in.op != KernelOp::kStore && in.op != KernelOp::kLoad) || in.param != static_cast<int>(p)) continue;
      ok = ok && !in.has_offset && !in.has_guard;
      if (in.op == KernelOp::kLoad) {
        ok = ok && stores == 1 && phase_of_[i] > phase_of_[first];
        continue;
      }
      if (stores++ == 0) first = static_cast<int>(i);
      last = static_cast<int>(i);
    }
    has_scratch_[p] = ok && stores == 2 && phase_of_[last] > phase_of_[first] && s_.phases[phase_of_[first]].inner &&
                      s_.phases[phase_of_[last]].inner;
  }
}
bool KernelEmitter::IsLastStore(const KernelInstr& in) const {
  if (!has_scratch_[in.param]) return true;
  for (const KernelInstr* k = &in + 1; k < s_.instrs.data() + s_.instrs.size(); ++k) {
    if (k->op == KernelOp::kStore && k->param == in.param) return false;
  }
  return true;
}

void KernelEmitter::EmitPhases(size_t from, size_t to) {
  hoisted_.clear();
  for (size_t k = from; k < to; ++k) {
    active_lanes_ = 1;
    if (unless_[k] >= 0) {
      EmitRowPhaseUnless(k, vals_[0][unless_[k]]);
    } else if (s_.phases[k].inner) {
      EmitRowPhase(s_.phases[k]);
    } else {
      EmitInstrs(s_.phases[k].instrs, 1);
    }
  }
}

void KernelEmitter::EmitRowMode() {
  size_t last = 0;
  int loops = 0, cost = 0;
  bool scans = false;
  for (size_t k = 0; k < s_.phases.size(); ++k) {
    if (!s_.phases[k].inner || unless_[k] >= 0) continue;
    last = k;
    ++loops;
    for (int i : s_.phases[k].instrs) scans = scans || s_.instrs[i].op == KernelOp::kScan;
    cost += CostOf(s_.phases[k].instrs).all;
  }
  const int row = s_.parallel_rank - 1;  // the dim that counts rows
  int64_t read = 0, moved = 0;           // bytes of an element
  for (size_t p = 0; row >= 0 && loop_dim_ >= 0 && p < s_.params.size(); ++p) {
    if (!stride_[p][loop_dim_] || !stride_[p][row]) continue;
    moved += ItemSize(s_.params[p].dtype);
    if (!written_[p]) read += ItemSize(s_.params[p].dtype);
  }
  const bool in_turns = loops > 1 && lanes_ > 1 && s_.reduction_rank == 1 && !scans &&
                        (!f_.IsAvx2Only() || 2 * cost >= kTurnCost * moved);
  // Where memory is the limit, a Zen 3 (machines without AVX-512) should prefetch the next row as this one is written,
  // rather than a row further on as its reductions run: its own prefetchers are at work then.
  const bool late = f_.IsAvx2Only() && !in_turns && loops > 2;
  prefetch_loop_ = late ? loops - 1 : std::min(loops - 1, 1);
  if (read > 0 && !late) {
    Value* bytes = b_.CreateMul(size_[loop_dim_], b_.getInt64(read));
    bytes = b_.CreateSelect(b_.CreateICmpSGT(bytes, b_.getInt64(0)), bytes, b_.getInt64(1));
    const int64_t ahead = f_.IsAvx2Only() ? kBytesAheadOfAvx2 : kBytesAhead;
    rows_ahead_ = b_.CreateAdd(b_.getInt64(1), b_.CreateUDiv(b_.getInt64(ahead), bytes));
  }
  Value* fits = nullptr;
  std::vector<AllocaInst*> scratch(s_.params.size(), nullptr);
  for (size_t p = 0; p < scratch.size(); ++p) {
    if (!has_scratch_[p]) continue;
    scratch[p] = Temporary(llvm::ArrayType::get(MemType(s_.params[p].dtype), (in_turns ? 2 : 1) * kScratchElements));
    fits = b_.CreateICmpSLE(size_[loop_dim_], b_.getInt64(kScratchElements));
  }
  auto start = [&](Value* tile) {
    for (size_t p = 0; p < scratch.size(); ++p) {
      if (!scratch[p]) continue;
      Value* place = scratch[p];
      if (in_turns) {
        Value* half = b_.CreateMul(b_.CreateAnd(tile, b_.getInt64(1)), b_.getInt64(kScratchElements));
        place = b_.CreateGEP(MemType(s_.params[p].dtype), place, half);
      }
      scratch_[p] = b_.CreateSelect(fits, place, addr_[p]);
    }
    vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
  };
  if (in_turns) return EmitRowsInTurns(last, start);
  ForTiles(end_, [&](Value* tile) {
    start(tile);
    EmitPhases(0, s_.phases.size());
  });
}

// The values and places of a row, kept in variables from one part of a loop's body to another, or to the next turn.
class KernelEmitter::KeptRow {
 public:
  // Allocates the values of phases before `end`, of which only `wanted` ones are kept.
  KeptRow(KernelEmitter& e, size_t end, const std::vector<bool>* wanted) : e_(e) {
    ForEach([&](Value*&, int i, Type* type) {
      const bool is_kept = i < 0 || (e.phase_of_[i] < static_cast<int>(end) && (!wanted || (*wanted)[i]) &&
                                     (e.s_.instrs[i].op == KernelOp::kReduce || !e.s_.phases[e.phase_of_[i]].inner));
      variables_.push_back(is_kept ? e.Variable(type) : nullptr);
    });
  }
  void Keep() {
    size_t k = 0;
    ForEach([&](Value*& v, int, Type*) {
      if (variables_[k] && v) e_.b_.CreateStore(v, variables_[k]);
      ++k;
    });
  }
  // Restores the state that was kept, by code before or behind this; other values are null.
  void Restore() {
    e_.vals_.assign(1, std::vector<Value*>(e_.s_.instrs.size(), nullptr));
    size_t k = 0;
    ForEach([&](Value*& v, int, Type*) {
      v = variables_[k] ? e_.Load(variables_[k]) : nullptr;
      ++k;
    });
  }

 private:
  // (what, the instruction whose value it is or -1, its type)
  void ForEach(const std::function<void(Value*&, int, Type*)>& f) {
    for (size_t i = 0; i < e_.s_.instrs.size(); ++i) {
      const KernelInstr& in = e_.s_.instrs[i];
      if (in.op != KernelOp::kStore) f(e_.vals_[0][i], static_cast<int>(i), e_.scalar_.TypeOf(in.type));
    }
    for (Value*& a : e_.addr_) f(a, -1, e_.ptr_);
    for (size_t p = 0; p < e_.scratch_.size(); ++p) {
      if (e_.has_scratch_[p]) f(e_.scratch_[p], -1, e_.ptr_);
    }
    for (int d = 0; d < e_.s_.parallel_rank; ++d) f(e_.idx_[d], -1, e_.i64_);
  }

  KernelEmitter& e_;
  std::vector<AllocaInst*> variables_;
};

// A row's sum is many additions side by side, and then a few that wait for each other; the code behind waits for these.
// So the last loop runs one row behind the others: the machine executes it while it waits. It takes turns with the loop
// before it, a block of elements each, so that one computes while the other's stores are on their way. This happens
// only if the nearest cache holds both rows. Otherwise a row is finished before the next begins, in a turn of its own.
void KernelEmitter::EmitRowsInTurns(size_t last, const std::function<void(Value*)>& start) {
  size_t before = last - 1;  // the loop before it
  while (!s_.phases[before].inner || unless_[before] >= 0) --before;
  const RowLoop front_loop = PlanRowLoop(s_.phases[before]), back_loop = PlanRowLoop(s_.phases[last]);
  // A block is whole steps of both loops, and has no more additions than sums may have before they are added to their
  // second level.
  const int64_t sum_block = front_loop.copies * lanes_ * kSumBlock;
  const int64_t step = std::max(front_loop.copies, back_loop.copies) * int64_t{lanes_};
  Value* block = b_.getInt64(std::max(std::min(kTurnBlock, sum_block), step));
  // The values that the last loop and the code after it take from before it.
  std::vector<bool> wanted(s_.instrs.size(), false);
  for (size_t k = last; k < s_.phases.size(); ++k) {
    for (int i : s_.phases[k].instrs) {
      for (int o : s_.instrs[i].operands) wanted[o] = true;
    }
  }
  int64_t item_bytes = 0;
  int rows_read = 0;
  Value* past_cache = nullptr;
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (stride_[p][loop_dim_]) item_bytes += ItemSize(s_.params[p].dtype);
    rows_read += !written_[p] && stride_[p][loop_dim_] && stride_[p][s_.parallel_rank - 1];
    if (nt_launch_[p]) past_cache = nt_launch_[p];
  }
  Value* n = size_[loop_dim_];
  Value* behind = b_.CreateICmpSLE(b_.CreateMul(n, b_.getInt64(item_bytes)), b_.getInt64(kTurnBytes));
  if (rows_read > 1 && reads_alone_) {
    block = b_.CreateSelect(reads_alone_, b_.getInt64(std::max(sum_block, step)), block);
    if (past_cache) {
      // There the machine's own prefetchers keep up, if rows are finished in the order of memory.
      Value* by_itself = b_.CreateAnd(reads_alone_, past_cache);
      behind = b_.CreateAnd(behind, b_.CreateNot(by_itself));
      asks_for_rows_ = b_.CreateNot(by_itself);
    }
  }
  Value* rows_behind = b_.CreateZExt(behind, i64_);
  AllocaInst* head = Variable(i64_);  // elements before the first aligned place of what the last loop writes
  vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
  KeptRow front(*this, before, nullptr), back(*this, last, &wanted);
  auto turn = [&](Value* tile, Value* has_front, Value* has_back) {
    If(has_front, [&] {
      start(tile);
      EmitPhases(0, before);
      StartRowLoop(front_loop);
      front.Keep();
    });
    If(has_back, [&] {
      back.Restore();
      StartRowLoop(back_loop);
      b_.CreateStore(HeadOf(back_loop), head);
    });
    For(b_.getInt64(0), n, block, [&](Value* from) {
      Value* to = b_.CreateAdd(from, block);
      Value* is_last = b_.CreateICmpSGE(to, n);
      auto flush = [&](const RowLoop& loop) {
        if (!HasSums(loop.phase->instrs)) return;
        Value* rest = b_.CreateAnd(to, b_.getInt64(loop.copies * lanes_ * kSumBlock - 1));
        Value* is_full = b_.CreateICmpEQ(rest, b_.getInt64(0));
        If(b_.CreateAnd(is_full, b_.CreateNot(is_last)), [&] { FlushSums(loop.phase->instrs, loop.copies); });
      };
      If(has_front, [&] {
        front.Restore();
        RunRowLoop(front_loop, from, Min(to, n));
        flush(front_loop);
      });
      If(has_back, [&] {
        back.Restore();
        Value* first = Load(head);
        Value* smaller = Min(b_.CreateAdd(from, first), n);
        Value* lo = b_.CreateSelect(b_.CreateICmpEQ(from, b_.getInt64(0)), from, smaller);
        Value* hi = b_.CreateSelect(is_last, n, Min(b_.CreateAdd(to, first), n));
        Value* ahead = rows_ahead_;
        if (ahead) rows_ahead_ = b_.CreateAdd(ahead, rows_behind);
        RunRowLoop(back_loop, lo, hi);
        rows_ahead_ = ahead;
        flush(back_loop);
      });
    });
    If(has_back, [&] {
      back.Restore();
      FinishRowLoop(back_loop);
      EmitPhases(last + 1, s_.phases.size());
    });
    If(has_front, [&] {
      front.Restore();
      FinishRowLoop(front_loop);
      EmitPhases(before + 1, last);
      back.Keep();
    });
  };
  ForTiles(b_.CreateAdd(end_, rows_behind), [&](Value* tile) {
    Value* turns = b_.CreateSub(b_.getInt64(2), rows_behind);
    const std::vector<Value*> addr = addr_;
    For(b_.getInt64(0), turns, b_.getInt64(1), [&](Value* k) {
      Value* is_first = b_.CreateICmpEQ(k, b_.getInt64(0));
      Value* negated = b_.CreateNot(is_first);
      Value* chosen = b_.CreateSelect(behind, b_.CreateICmpSGT(tile, begin_), negated);
      turn(tile, b_.CreateAnd(is_first, b_.CreateICmpSLT(tile, end_)), chosen);
      addr_ = addr;
    });
  });
}

// In bytes.
Value* KernelEmitter::DistanceAhead(int param, int row) {
  const int item = ItemSize(s_.params[param].dtype);
  Value* small = b_.CreateICmpSLE(size_[loop_dim_], b_.getInt64(kPrefetchBytes / item));
  Value* next = rows_ahead_ ? b_.CreateMul(stride_[param][row], rows_ahead_) : stride_[param][row];
  return b_.CreateSelect(small, next, b_.getInt64(kLineAhead));
}

void KernelEmitter::FindRowsAhead() {
  const int row = s_.parallel_rank - 1;
  row_ahead_.assign(addr_.size(), nullptr);
  for (size_t k = 0; row >= 0 && k < addr_.size(); ++k) {
    if (stride_[k][row]) row_ahead_[k] = b_.CreateGEP(i8_, addr_[k], DistanceAhead(static_cast<int>(k), row));
  }
}

// Rows are often pages, and no prefetcher of the machine looks into the next page. A machine with AVX-512 prefetches
// into the second cache if memory is the limit: that holds more outstanding lines, and pages that share places in the
// nearest cache evict each other from it.
void KernelEmitter::PrefetchRows(int copies) {
  const int row = s_.parallel_rank - 1;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int param = static_cast<int>(k);
    if (!IsReadInLines(param) || (row >= 0 && !stride_[k][row])) continue;
    Value* at = nullptr;
    if (row >= 0) {
      std::swap(addr_[k], row_ahead_[k]);
      at = Address(param, 0);
      std::swap(addr_[k], row_ahead_[k]);
    } else {
      at = b_.CreateGEP(i8_, Address(param, 0), b_.getInt64(kLineAhead));
    }
    PrefetchLines(param, at, copies, f_.IsAvx2Only());
  }
}

void KernelEmitter::EmitRowPhaseUnless(size_t k, Value* known) {
  std::vector<std::pair<int, AllocaInst*>> sums;
  for (int i : s_.phases[k].instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    Type* type = scalar_.TypeOf(in.type);
    sums.emplace_back(i, Variable(type));
    b_.CreateStore(llvm::Constant::getNullValue(type), sums.back().second);
  }
  If(b_.CreateNot(known), [&] {
    EmitRowPhase(s_.phases[k]);
    for (const auto& [i, sum] : sums) b_.CreateStore(vals_[0][i], sum);
  });
  for (const auto& [i, sum] : sums) vals_[0][i] = Load(sum);
}

KernelEmitter::RowLoop KernelEmitter::PlanRowLoop(const KernelPhase& phase) {
  RowLoop loop;
  loop.phase = &phase;
  bool scans = false, reduces = false;
  for (int i : phase.instrs) {
    scans = scans || s_.instrs[i].op == KernelOp::kScan;
    reduces = reduces || s_.instrs[i].op == KernelOp::kReduce;
  }
  // A scan of sums runs in order, one element after the other; the instructions beside it run in vectors.
  active_lanes_ = lanes_;
  loop.copies = active_lanes_ == 1 || scans ? 1 : Copies(phase.instrs, reduces);
  int inner = 0, number = -1;
  for (size_t k = 0; k < s_.phases.size(); ++k) {
    if (unless_[k] >= 0) continue;
    if (&s_.phases[k] == &phase) number = inner;
    inner += s_.phases[k].inner;
  }
  loop.prefetches = active_lanes_ > 1 && s_.reduction_rank == 1 && number == prefetch_loop_;
  active_lanes_ = 1;
  return loop;
}

void KernelEmitter::StartRowLoop(const RowLoop& loop) {
  active_lanes_ = lanes_;
  StartReductions(loop.phase->instrs, loop.copies);
  active_lanes_ = 1;
}

void KernelEmitter::RunRowLoop(const RowLoop& loop, Value* lo, Value* hi, const std::function<void()>& flush) {
  active_lanes_ = lanes_;
  loop_instrs_ = loop.phase->instrs;
  const std::vector<Value*> known = vals_[0];
  std::vector<bool> ready(s_.instrs.size());
  for (size_t i = 0; i < ready.size(); ++i) ready[i] = known[i] != nullptr;
  vals_.assign(loop.copies, known);
  if (loop.prefetches) FindRowsAhead();
  Hoist(loop_instrs_, ready);
  ChunkLoop(
      lo, hi, loop.copies,
      [&](int k) {
        if (loop.prefetches && (!mask_ || whole_)) {
          asks_for_rows_ ? If(asks_for_rows_, [&] { PrefetchRows(k); }) : PrefetchRows(k);
        }
        EmitInstrs(loop_instrs_, k);
      },
      flush, HasStores(loop_instrs_));
  hoisted_.clear();
  vals_.assign(1, known);
  active_lanes_ = 1;
}

Value* KernelEmitter::HeadOf(const RowLoop& loop) {
  if (!HasStores(loop.phase->instrs)) return b_.getInt64(0);
  active_lanes_ = lanes_;
  loop_instrs_ = loop.phase->instrs;
  pairs_ = CanPair(loop_instrs_, loop.copies);
  Value *use = nullptr, *head = nullptr;
  NonTemporalHead(b_.getInt64(0), &use, &head);
  pairs_ = false;
  active_lanes_ = 1;
  return head ? head : b_.getInt64(0);
}

void KernelEmitter::FinishRowLoop(const RowLoop& loop) {
  active_lanes_ = lanes_;
  const std::vector<Value*> known = vals_[0];
  vals_.assign(loop.copies, known);
  FinishReductions(loop.phase->instrs, loop.copies);
  // Only values that later phases may use are left.
  std::vector<Value*> after = known;
  for (int i : loop.phase->instrs) {
    if (s_.instrs[i].op == KernelOp::kReduce) after[i] = vals_[0][i];
  }
  vals_.assign(1, after);
  active_lanes_ = 1;
}

void KernelEmitter::EmitRowPhase(const KernelPhase& phase) {
  const RowLoop loop = PlanRowLoop(phase);
  StartRowLoop(loop);
  std::function<void()> flush;
  if (HasSums(phase.instrs)) flush = [&] { FlushSums(phase.instrs, loop.copies); };
  Value* n = size_[loop_dim_];
  If(b_.CreateICmpSGT(n, b_.getInt64(0)),
     [&] { Nest(s_.parallel_rank, s_.rank() - 1, [&] { RunRowLoop(loop, b_.getInt64(0), n, flush); }, flush); });
  FinishRowLoop(loop);
}

}  // namespace smelt
