// Rows of which each is one tile: its reductions run along the vectorized dim, one phase after the other.
#include <algorithm>
#include <utility>
#include <vector>

#include "smelt/codegen/kernel_emitter.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// Of a row's operands and results: rows up to this are taken in turns, see EmitRowsInTurns; where a vector's
// instructions, twice their number, are at least five times the bytes of an element: others wait for memory anyway.
constexpr int64_t kTurnBytes = 24 << 10;
constexpr int kTurnCost = 5;
// How much of the rows that follow is on its way: of machines without AVX-512 a Zen 3 was measured, of those with it a
// Zen 4.
constexpr int64_t kBytesAhead = 4 << 10, kBytesAheadOfAvx2 = 8 << 10;
// And of what is read in one piece, where the machine wants to be asked (an Emerald Rapids was measured; 1 to 8 KiB are
// alike there, and less takes less room in the nearest cache).
constexpr int64_t kBytesAheadInOnePiece = 3 << 10;

}  // namespace

// A row's values that are kept in a result's memory until the result itself is stored (the exponentials of a softmax)
// are kept in a buffer instead, where the row fits into it: the result's memory is then written once, past the cache.
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
  const bool in_turns = loops > 1 && lanes_ > 1 && s_.reduction_rank == 1 && !scans && 2 * cost >= kTurnCost * moved;
  // Where memory is the limit, a Zen 3 (machines without AVX-512) is better asked for the next row as this one is
  // written than for one further on as its reductions run: its own prefetchers are at work then.
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

// A row's sum is many additions side by side and then a few that wait for each other; what follows waits for these. So
// the last loop runs a row behind the others: the machine has it to do while it waits. Only if the nearest cache holds
// both rows; else each row is finished before the next begins.
void KernelEmitter::EmitRowsInTurns(size_t last, const std::function<void(Value*)>& start) {
  int64_t item_bytes = 0;
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (stride_[p][loop_dim_]) item_bytes += ItemSize(s_.params[p].dtype);
  }
  Value* bytes = b_.CreateMul(size_[loop_dim_], b_.getInt64(item_bytes));
  Value* behind = b_.CreateICmpSLE(bytes, b_.getInt64(kTurnBytes));
  Value* rows_behind = b_.CreateZExt(behind, i64_);
  // What the last loop and what follows it take from before it.
  struct Carried {
    Value** what;
    AllocaInst *next, *now;
  };
  std::vector<Carried> carried;
  auto carry = [&](Value*& what) {
    if (!what) return;
    Carried c{&what, Variable(what->getType()), Variable(what->getType())};
    b_.CreateStore(what, c.next);
    carried.push_back(c);
  };
  auto pass_on = [&] {
    for (const Carried& c : carried) b_.CreateStore(Load(c.next), c.now);
  };
  std::vector<bool> wanted(s_.instrs.size(), false);
  for (size_t k = last; k < s_.phases.size(); ++k) {
    for (int i : s_.phases[k].instrs) {
      for (int o : s_.instrs[i].operands) wanted[o] = true;
    }
  }
  ForTiles(b_.CreateAdd(end_, rows_behind), [&](Value* tile) {
    If(b_.CreateICmpSLT(tile, end_), [&] {
      start(tile);
      EmitPhases(0, last);
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i]) carry(vals_[0][i]);
      }
      for (Value*& a : addr_) carry(a);
      for (Value*& a : scratch_) carry(a);
      for (int d = 0; d < s_.parallel_rank; ++d) carry(idx_[d]);
    });
    If(b_.CreateNot(behind), pass_on);
    If(b_.CreateICmpSGE(tile, b_.CreateAdd(begin_, rows_behind)), [&] {
      std::fill(vals_[0].begin(), vals_[0].end(), nullptr);
      for (const Carried& c : carried) *c.what = Load(c.now);
      Value* ahead = rows_ahead_;
      if (ahead) rows_ahead_ = b_.CreateAdd(ahead, rows_behind);
      EmitPhases(last, s_.phases.size());
      rows_ahead_ = ahead;
    });
    If(behind, pass_on);
  });
}

// Rows are often pages, into the next of which no prefetcher of the machine looks. What is asked for waits in the
// second cache where a machine with AVX-512 waits for memory: more lines can be on their way there, and pages that lie
// in the same places of the nearest cache drive each other out of it. What a loop without reductions reads in one piece
// such a machine reads ahead itself, and asking for it is in its way; but not Intel's, whose prefetchers end with a
// page.
void KernelEmitter::PrefetchAhead(int copies) {
  const bool by_machine = !f_.IsAvx2Only() && s_.reduction_rank == 0;
  const bool nearest = f_.IsAvx2Only() || (by_machine && CostOf(loop_instrs_).all > kComputeBound);
  const int row = s_.parallel_rank - (columns_ ? 2 : 1);  // the dim that counts rows
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int item = ItemSize(s_.params[k].dtype);
    const int param = static_cast<int>(k);
    const int64_t step = ElementsApart(LoopClass(param));
    const int64_t apart = !f_.IsAvx2Only() && step >= 2 ? step : 1;
    if (written_[k] || (apart == 1 && !UnitAlongLoop(param))) continue;
    auto ask = [&](Value* distance, bool into_nearest) {
      Value* at = b_.CreateGEP(i8_, Address(param, 0), distance);
      for (int byte = 0; byte < copies * active_lanes_ * item * apart; byte += 64) {
        Prefetch(b_.CreateConstGEP1_64(i8_, at, byte), into_nearest);
      }
    };
    Value* distance = b_.getInt64(kLineAhead);
    if (row >= 0) {
      if (!stride_[k][row]) continue;
      Value* small = b_.CreateICmpSLE(size_[loop_dim_], b_.getInt64(kPrefetchBytes / item));
      Value* next = rows_ahead_ ? b_.CreateMul(stride_[k][row], rows_ahead_) : stride_[k][row];
      distance = b_.CreateSelect(small, next, distance);
    }
    auto as_usual = [&]() -> Value* {
      ask(distance, nearest);
      return nullptr;
    };
    auto in_one_piece = [&]() -> Value* {
      If(asks_ahead_, [&] { ask(b_.getInt64(kBytesAheadInOnePiece), true); });
      return nullptr;
    };
    if (!by_machine) {
      as_usual();
    } else if (row < 0) {
      in_one_piece();
    } else {
      Value* bytes = b_.CreateMul(size_[loop_dim_], b_.getInt64(item * apart));
      IfElse(b_.CreateICmpEQ(stride_[k][row], bytes), in_one_piece, as_usual);
    }
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

void KernelEmitter::EmitRowPhase(const KernelPhase& phase) {
  bool scans = false, reduces = false;
  for (int i : phase.instrs) {
    scans = scans || s_.instrs[i].op == KernelOp::kScan;
    reduces = reduces || s_.instrs[i].op == KernelOp::kReduce;
  }
  // A scan of sums runs in order, one element after the other; what is beside it in vectors.
  active_lanes_ = lanes_;
  const int copies = active_lanes_ == 1 || scans ? 1 : Copies(phase.instrs, reduces);
  int inner = 0, number = -1;
  for (size_t k = 0; k < s_.phases.size(); ++k) {
    if (unless_[k] >= 0) continue;
    if (&s_.phases[k] == &phase) number = inner;
    inner += s_.phases[k].inner;
  }
  const bool prefetches = active_lanes_ > 1 && s_.reduction_rank == 1 && number == prefetch_loop_;
  const std::vector<Value*> known = vals_[0];
  std::vector<bool> ready(s_.instrs.size());
  for (size_t i = 0; i < ready.size(); ++i) ready[i] = known[i] != nullptr;
  vals_.assign(copies, known);
  loop_instrs_ = phase.instrs;
  StartReductions(phase.instrs, copies);
  std::function<void()> flush;
  if (HasSums(phase.instrs)) flush = [&, copies] { FlushSums(phase.instrs, copies); };
  Value* n = size_[loop_dim_];
  If(b_.CreateICmpSGT(n, b_.getInt64(0)), [&] {
    Nest(
        s_.parallel_rank, s_.rank() - 1,
        [&] {
          Hoist(phase.instrs, ready);
          ChunkLoop(
              b_.getInt64(0), n, copies,
              [&](int k) {
                if (prefetches && (!mask_ || whole_)) PrefetchAhead(k);
                EmitInstrs(phase.instrs, k);
              },
              flush, HasStores(phase.instrs));
        },
        flush);
  });
  hoisted_.clear();
  vals_.assign(copies, known);
  FinishReductions(phase.instrs, copies);
  // Only what later phases may use is left.
  std::vector<Value*> after = known;
  for (int i : phase.instrs) {
    if (s_.instrs[i].op == KernelOp::kReduce) after[i] = vals_[0][i];
  }
  vals_.assign(1, after);
  active_lanes_ = 1;
}

}  // namespace smelt
