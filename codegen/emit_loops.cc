// The loop nests of a kernel and the loop over the vectorized dim.
#include <algorithm>
#include <utility>

#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/kernel_emitter.h"
#include "smelt/core/base/check.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// The row `kRowsAhead` further on is prefetched if rows are at least kFarRow bytes apart and at most kShortRow bytes
// long.
constexpr int64_t kFarRow = 2 << 10, kShortRow = 128;
constexpr int64_t kRowsAhead = 16;
// The distance of prefetches in memory that is read in one piece, on machines that need them (an Emerald Rapids was
// measured; 1 to 8 KiB are alike there, and less takes less room in the nearest cache).
constexpr int64_t kBytesAheadInOnePiece = 3 << 10;

}  // namespace

bool KernelEmitter::CanHoist(int i, const std::vector<bool>& done) const {
  const KernelInstr& in = s_.instrs[i];
  if (varying_[i] || in.op == KernelOp::kStore || in.op == KernelOp::kReduce || in.op == KernelOp::kScan) return false;
  for (int o : in.operands) {
    if (!done[o]) return false;
  }
  return in.op != KernelOp::kLoad || !MayBeWritten(in.param);
}

bool KernelEmitter::MayBeWritten(int param) const {
  const int cls = s_.params[param].alias_class;
  for (size_t q = 0; q < s_.params.size(); ++q) {
    if (written_[q] && (cls < 0 || s_.params[q].alias_class < 0 || s_.params[q].alias_class == cls)) return true;
  }
  return false;
}

void KernelEmitter::Hoist(const std::vector<int>& instrs, const std::vector<bool>& ready) {
  std::vector<bool> done = ready;
  hoisted_.assign(s_.instrs.size(), false);
  Value* chunk = std::exchange(chunk_, nullptr);
  const int lanes = std::exchange(active_lanes_, 1);
  std::vector<bool> now(s_.instrs.size(), false);
  for (int i : instrs) {
    now[i] = ready[i];
    if (ready[i] || !CanHoist(i, done)) continue;
    if (row_copies_ > 0) {
      for (int u = 0; u < row_copies_ * row_vectors_; ++u) Set(i, u, EmitInstr(i, u));
    } else {
      SetAll(i, EmitInstr(i, 0));
    }
    done[i] = now[i] = true;
  }
  hoisted_ = std::move(now);
  chunk_ = chunk;
  active_lanes_ = lanes;
}

void KernelEmitter::MaskedVector(Value* first, Value* count, const std::function<void()>& body) {
  SetLoopIndex(first);
  count_ = count;
  mask_ = MaskOf(count, active_lanes_);
  body();
  count_ = mask_ = chunk_ = nullptr;
}

void KernelEmitter::InBlocks(Value* lo, Value* hi, Value* block, const std::function<void(Value*, Value*)>& run,
                             const std::function<void()>& flush) {
  if (!flush) return run(lo, hi);
  For(lo, hi, block, [&](Value* i) {
    Value* end = b_.CreateAdd(i, block);
    run(i, Min(hi, end));
    // The last block's sums are added at the end of the phase.
    If(b_.CreateICmpSLT(end, hi), flush);
  });
}

void KernelEmitter::ChunkLoop(Value* lo, Value* hi, int copies, const std::function<void(int)>& body,
                              const std::function<void()>& flush, bool stores) {
  const int lanes = active_lanes_;
  const bool keep_chunk = chunk_ != nullptr;
  SMELT_CHECK(!keep_chunk);
  if (lanes == 1) {
    auto all = [&](Value* from, Value* to) {
      For(from, to, b_.getInt64(1), [&](Value* i) {
        SetLoopIndex(i);
        body(1);
      });
    };
    InBlocks(lo, hi, b_.getInt64(kSumBlock), all, flush);
    chunk_ = nullptr;
    return;
  }
  if (!flush && HasOneBody(loop_instrs_, copies)) return OneBodyLoop(lo, hi, body, stores);
  pairs_ = CanPair(loop_instrs_, copies);
  const int64_t step = static_cast<int64_t>(copies) * lanes;
  AllocaInst* at = Variable(i64_);
  b_.CreateStore(lo, at);
  auto main = [&] {
    auto run = [&](Value* from, Value* to) {
      // While a whole step fits.
      For(from, b_.CreateSub(to, b_.getInt64(step - 1)), b_.getInt64(step), [&](Value* i) {
        SetLoopIndex(i);
        body(copies);
        b_.CreateStore(b_.CreateAdd(i, b_.getInt64(step)), at);
      });
    };
    if (flush) {
      // Whole blocks of kSumBlock steps; the last may be short.
      Value* difference = b_.CreateSub(hi, b_.getInt64(step - 1));
      For(Load(at), difference, b_.getInt64(step * kSumBlock), [&](Value* i) {
        Value* end = b_.CreateAdd(i, b_.getInt64(step * kSumBlock));
        run(i, Min(hi, end));
        // The last block's sums are added at the end of the phase.
        If(b_.CreateICmpSLT(end, hi), flush);
      });
    } else {
      run(Load(at), hi);
    }
    chunk_ = nullptr;
  };
  auto masked = [&](Value* count) {
    Value* i = Load(at);
    MaskedVector(i, count, [&] { body(1); });
    b_.CreateStore(b_.CreateAdd(i, count), at);
  };
  Value* non_temporal = nullptr;
  Value* head = nullptr;
  if (stores) NonTemporalHead(lo, &non_temporal, &head);
  if (!non_temporal) {
    main();
    const bool middle = copies > 1 && (!f_.avx512 || HasStrides(loop_instrs_));
    if (middle) {
      // Without cheap masks, the rest of a step runs vector by vector first. (No machine has masks for elements that
      // are not adjacent.)
      Value* difference = b_.CreateSub(hi, b_.getInt64(lanes - 1));
      For(Load(at), difference, b_.getInt64(lanes), [&](Value* i) {
        SetLoopIndex(i);
        body(1);
        b_.CreateStore(b_.CreateAdd(i, b_.getInt64(lanes)), at);
      });
      chunk_ = nullptr;
    }
    BasicBlock* check = Block("rest");
    BasicBlock* part = Block("part");
    BasicBlock* done = Block("done");
    b_.CreateBr(check);
    b_.SetInsertPoint(check);
    Value* left = b_.CreateSub(hi, Load(at));
    b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), part, done);
    b_.SetInsertPoint(part);
    masked(Min(left, b_.getInt64(lanes)));
    b_.CreateBr(check);
    b_.SetInsertPoint(done);
    pairs_ = false;
    return;
  }
  // A few elements run first, until stores are aligned; then the main loop; then the rest. One masked body serves both
  // ends. The main loop's stores choose between the two kinds: two loops would take LLVM twice as long, and a branch
  // that always goes one way costs nothing beside memory. Pairs of bfloat16 are different: they are bound by
  // arithmetic.
  uses_non_temporal_ = true;
  AllocaInst* skip = Variable(i64_);
  b_.CreateStore(Min(head, b_.CreateSub(hi, lo)), skip);
  BasicBlock* check = Block("check");
  BasicBlock* part = Block("part");
  BasicBlock* whole = Block("whole");
  BasicBlock* some = Block("some");
  BasicBlock* done = Block("done");
  b_.CreateBr(check);
  b_.SetInsertPoint(check);
  Value* left = b_.CreateSub(hi, Load(at));
  Value* first = Load(skip);
  Value* is_head = b_.CreateICmpSGT(first, b_.getInt64(0));
  Value* some_first = Min(first, b_.getInt64(lanes));
  BasicBlock* not_head = Block("aligned");
  llvm::PHINode* count = llvm::PHINode::Create(i64_, 2, "", part);
  count->addIncoming(some_first, check);
  b_.CreateCondBr(is_head, part, not_head);
  b_.SetInsertPoint(not_head);
  b_.CreateCondBr(b_.CreateICmpSGE(left, b_.getInt64(step)), whole, some);
  b_.SetInsertPoint(some);
  count->addIncoming(Min(left, b_.getInt64(lanes)), some);
  b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), part, done);
  b_.SetInsertPoint(part);
  b_.CreateStore(b_.CreateSub(Load(skip), count), skip);
  masked(count);
  b_.CreateBr(check);
  b_.SetInsertPoint(whole);
  auto run = [&](Value* past_cache) -> Value* {
    past_cache_ = past_cache;
    main();
    past_cache_ = nullptr;
    return nullptr;
  };
  if (pairs_) {
    IfElse(non_temporal, [&] { return run(b_.getTrue()); }, [&] { return run(nullptr); });
  } else {
    run(non_temporal);
  }
  b_.CreateBr(check);
  b_.SetInsertPoint(done);
  pairs_ = false;
}

bool KernelEmitter::HasOneBody(const std::vector<int>& instrs, int copies) const {
  // Instructions that are emitted lane by lane leave no room for code that distinguishes whole vectors from others.
  if (!columns_ || copies != 1 || TakesLanes(instrs) || CostOf(instrs).all <= kOneBody) return false;
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    // A scan needs the mask of each lane. Narrow vectors go past the cache in pairs.
    if (in.op == KernelOp::kScan) return false;
    if (in.op == KernelOp::kStore && nt_launch_[in.param] && active_lanes_ * ItemSize(in.type) < f_.vector_bits / 8) {
      return false;
    }
  }
  return true;
}

void KernelEmitter::OneBodyLoop(Value* lo, Value* hi, const std::function<void(int)>& body, bool stores) {
  AllocaInst* at = Variable(i64_);
  b_.CreateStore(lo, at);
  Value* lanes = b_.getInt64(active_lanes_);
  Value* non_temporal = nullptr;
  Value* head = nullptr;
  if (stores) NonTemporalHead(lo, &non_temporal, &head);
  AllocaInst* skip = nullptr;  // of the elements before the first aligned place, those that are left
  if (non_temporal) {
    uses_non_temporal_ = true;
    skip = Variable(i64_);
    b_.CreateStore(head, skip);
  }
  auto left = [&] { return b_.CreateSub(hi, Load(at)); };
  While([&] { return b_.CreateICmpSGT(left(), b_.getInt64(0)); },
        [&] {
          Value* i = Load(at);
          Value* count = Min(left(), lanes);
          if (skip) {
            Value* first = Load(skip);
            Value* is_head = b_.CreateICmpSGT(first, b_.getInt64(0));
            count = b_.CreateSelect(is_head, Min(first, count), count);
            b_.CreateStore(b_.CreateSelect(is_head, b_.CreateSub(first, count), first), skip);
            past_cache_ = b_.CreateAnd(non_temporal, b_.CreateNot(is_head));
          }
          SetLoopIndex(i);
          count_ = count;
          mask_ = MaskOf(count, active_lanes_);
          whole_ = b_.CreateICmpEQ(count, lanes);
          body(1);
          past_cache_ = whole_ = count_ = mask_ = nullptr;
          chunk_ = nullptr;
          b_.CreateStore(b_.CreateAdd(i, count), at);
        });
}

void KernelEmitter::SetLoopIndex(Value* i) {
  chunk_ = i;
  idx_[loop_dim_] = i;
}

void KernelEmitter::NonTemporalHead(Value* lo, Value** use, Value** head) {
  *use = *head = nullptr;
  Value* all = nullptr;
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (!nt_launch_[p]) continue;
    bool here = false;
    for (int i : loop_instrs_)
      here = here || (s_.instrs[i].op == KernelOp::kStore && s_.instrs[i].param == static_cast<int>(p) &&
                      IsLastStore(s_.instrs[i]));
    if (!here) continue;
    const int item = ItemSize(s_.params[p].dtype);
    const int vector = active_lanes_ * item;
    const int64_t bytes = pairs_ ? 2 * vector : vector == 32 ? 64 : std::min(64, vector);
    Value* a = b_.CreatePtrToInt(b_.CreateGEP(MemType(s_.params[p].dtype), addr_[p], lo), i64_);
    Value* elements = b_.CreateUDiv(b_.CreateAnd(b_.CreateNeg(a), b_.getInt64(bytes - 1)), b_.getInt64(item));
    all = all ? b_.CreateAnd(all, nt_launch_[p]) : nt_launch_[p];
    if (*head) {
      all = b_.CreateAnd(all, b_.CreateICmpEQ(*head, elements));
    } else {
      *head = elements;
    }
  }
  if (!all) return;
  *use = all;
  *head = b_.CreateSelect(all, *head, b_.getInt64(0));
}

// The innermost of the dims has a loop of its own: values that do not depend on it are not computed again for each of
// its tiles.
void KernelEmitter::ForTiles(Value* end, const std::function<void(Value*)>& body, const std::function<void()>& begin) {
  const int last = (columns_ ? s_.parallel_rank - 1 : s_.parallel_rank) - 1;
  if (last < 0) return For(begin_, end, b_.getInt64(1), body);
  std::vector<AllocaInst*> index(last + 1);
  Value* rest = begin_;
  for (int d = last; d >= 0; --d) {
    index[d] = Variable(i64_);
    b_.CreateStore(d ? b_.CreateURem(rest, size_[d]) : rest, index[d]);
    if (d) rest = b_.CreateUDiv(rest, size_[d]);
  }
  AllocaInst* at = Variable(i64_);
  b_.CreateStore(begin_, at);
  const std::vector<Value*> addr = addr_;
  While([&] { return b_.CreateICmpSLT(Load(at), end); },
        [&] {
          addr_ = addr;
          for (int d = 0; d < last; ++d) AddIndex(d, Load(index[d]));
          const std::vector<Value*> outer = addr_;
          if (begin) begin();
          Value* tile = Load(at);
          Value* first = Load(index[last]);
          Value* tiles = b_.CreateSub(end, tile);
          if (last) tiles = Min(tiles, b_.CreateSub(size_[last], first));
          For(b_.getInt64(0), tiles, b_.getInt64(1), [&](Value* k) {
            addr_ = outer;
            AddIndex(last, b_.CreateAdd(first, k));
            body(b_.CreateAdd(tile, k));
          });
          b_.CreateStore(b_.CreateAdd(tile, tiles), at);
          b_.CreateStore(b_.getInt64(0), index[last]);
          Value* carry = b_.getInt64(1);
          for (int d = last - 1; d >= 0; --d) {
            Value* next = b_.CreateAdd(Load(index[d]), carry);
            Value* wraps = b_.CreateICmpSGE(next, size_[d]);
            carry = b_.CreateZExt(wraps, i64_);
            b_.CreateStore(b_.CreateSelect(wraps, b_.getInt64(0), next), index[d]);
          }
        });
  addr_ = addr;
}

void KernelEmitter::Nest(int from, int to, const std::function<void()>& body, const std::function<void()>& flush) {
  if (from == to) return body();
  const std::vector<Value*> addr = addr_;
  auto run = [&](Value* lo, Value* hi) {
    For(lo, hi, b_.getInt64(1), [&](Value* i) {
      addr_ = addr;
      AddIndex(from, i);
      Nest(from + 1, to, body, flush);
    });
    addr_ = addr;
  };
  if (!flush || from + 1 != to) return run(b_.getInt64(0), size_[from]);
  For(b_.getInt64(0), size_[from], b_.getInt64(kSumBlock), [&](Value* i) {
    run(i, Min(size_[from], b_.CreateAdd(i, b_.getInt64(kSumBlock))));
    flush();
  });
}

bool KernelEmitter::HasSums(const std::vector<int>& instrs) const {
  return std::any_of(instrs.begin(), instrs.end(), [&](int i) { return IsSumLike(s_.instrs[i]); });
}

bool KernelEmitter::HasStores(const std::vector<int>& instrs) const {
  return std::any_of(instrs.begin(), instrs.end(), [&](int i) { return s_.instrs[i].op == KernelOp::kStore; });
}

bool KernelEmitter::TakesLanes(const std::vector<int>& instrs) const {
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    const bool is_load = in.op == KernelOp::kLoad;
    if (!is_load && in.op != KernelOp::kStore) continue;
    if (is_load && !varying_[i]) continue;
    if (LoopClass(in.param) == StrideClass::kAny) return true;
    if (in.has_offset && varying_[in.operands[is_load ? 0 : 1]]) return true;
  }
  return false;
}

int KernelEmitter::Copies(const std::vector<int>& instrs, bool reduces) const {
  const auto [cost, path] = CostOf(instrs);
  // A vector that is made lane by lane is many independent instructions already. (The order of a row's sum depends on
  // the number of copies.)
  if ((!reduces || columns_) && TakesLanes(instrs)) return 1;
  const bool together = f_.IsAvx2Only() && std::any_of(instrs.begin(), instrs.end(), [&](int i) {
                          return varying_[i] && IsEmittedTogether(s_.instrs[i]);
                        });
  // (AVX-512 has registers for four.)
  const int four = f_.avx512 ? 40 : 12;
  if (reduces) return cost <= 4 ? 8 : cost <= four ? 4 : cost <= 120 ? 2 : 1;
  // A long chain, in which each instruction waits for the one before, leaves little to do for a machine that looks some
  // hundred instructions ahead.
  if (path > kLongPath && cost <= 400) return 4;
  if (together) return cost <= kFourTogether ? 4 : cost <= 400 ? 2 : 1;
  const bool one_body = columns_ && cost > kOneBody && !CanPair(instrs, 2);
  return cost <= 12 ? 4 : cost <= 400 && !one_body ? 2 : 1;
}

void KernelEmitter::EmitColumns() {
  active_lanes_ = lanes_;
  std::vector<int> outer, all;
  bool reduces = false;
  for (const KernelPhase& phase : s_.phases) {
    all.insert(all.end(), phase.instrs.begin(), phase.instrs.end());
    if (!phase.inner) outer.insert(outer.end(), phase.instrs.begin(), phase.instrs.end());
    reduces = reduces || phase.inner;
  }
  const int copies = lanes_ == 1 ? 1 : Copies(all, reduces);
  const std::vector<FarRows> far_rows = FindFarRows();
  if (!reduces && !has_tiles_ && lanes_ > 1) FindLinesAhead();
  // Values that are the same for all tiles that differ only in the last of their dims.
  std::vector<Value*> known(s_.instrs.size(), nullptr);
  std::vector<bool> ready(s_.instrs.size(), false);
  auto begin_tiles = [&] {
    vals_.assign(1, known);
    Hoist(StillOverTiles(outer), ready);
    known = vals_[0];
    ready = std::exchange(hoisted_, {});
  };
  auto chunks = [&](Value* lo, Value* hi) -> Value* {
    for (const FarRows& rows : far_rows) {
      If(rows.are_far, [&] {
        Prefetch(b_.CreateGEP(i8_, addr_[rows.param], rows.first));
        Prefetch(b_.CreateGEP(i8_, addr_[rows.param], rows.last));
      });
    }
    vals_.assign(copies, known);
    loop_instrs_ = all;
    Hoist(outer, ready);
    auto loop = [&] {
      ChunkLoop(
          lo, hi, copies,
          [&](int n) {
            PrefetchAhead(n);
            EmitColumnChunk(n);
          },
          nullptr, HasStores(all));
    };
    if (interior_) {
      EmitInterior(lo, hi, loop);
    } else {
      loop();
    }
    hoisted_.clear();
    return nullptr;
  };
  auto row = [&](Value* lo, Value* hi) {
    if (!streams_) {
      chunks(lo, hi);
      return;
    }
    auto stream = [&]() -> Value* {
      StreamColumns(lo, hi);
      return nullptr;
    };
    IfElse(HasManyRows(), stream, [&] { return chunks(lo, hi); });
  };
  auto past_cache = [&](Value* at, int n) {
    vals_.assign(n, known);
    loop_instrs_ = all;
    Hoist(outer, ready);
    pairs_ = CanPair(all, n);
    uses_non_temporal_ = true;
    past_cache_ = b_.getTrue();
    SetLoopIndex(at);
    EmitColumnChunk(n);
    past_cache_ = chunk_ = nullptr;
    pairs_ = false;
    hoisted_.clear();
  };
  const bool is_one = s_.parallel_rank == 1;
  Value* lo = is_one ? begin_ : b_.getInt64(0);
  Value* hi = is_one ? end_ : size_[loop_dim_];
  auto by_columns = [&]() -> Value* {
    if (is_one) {
      row(lo, hi);
    } else if (has_tiles_) {
      If(b_.CreateICmpSGT(hi, b_.getInt64(0)), [&] { EmitTiles(row, past_cache); });
    } else {
      If(b_.CreateICmpSGT(hi, b_.getInt64(0)), [&] { ForTiles(end_, [&](Value*) { row(lo, hi); }, begin_tiles); });
    }
    return nullptr;
  };
  auto folded = [&]() -> Value* {
    if (is_one) {
      // Tiles are columns, which one vector holds: all work belongs to the first one.
      If(b_.CreateICmpEQ(begin_, b_.getInt64(0)), [&] { EmitFolded(); });
    } else {
      ForTiles(end_, [&](Value*) { EmitFolded(); });
    }
    return nullptr;
  };
  if (can_fold_) {
    IfElse(b_.CreateNot(Folds()), by_columns, folded);
  } else {
    by_columns();
  }
}

// Short rows far from each other, where no prefetcher of the machine knows where the next ones are.
std::vector<KernelEmitter::FarRows> KernelEmitter::FindFarRows() {
  std::vector<FarRows> found;
  const int last = s_.parallel_rank - 2;
  if (last < 0 || s_.reduction_rank > 0 || lanes_ == 1 || has_tiles_) return found;
  for (size_t k = 0; k < s_.params.size(); ++k) {
    if (written_[k] || !stride_[k][last] || s_.params[k].strides[loop_dim_] != StrideClass::kUnit) continue;
    Value* bytes = b_.CreateMul(size_[loop_dim_], b_.getInt64(ItemSize(s_.params[k].dtype)));
    Value* are_far = b_.CreateICmpSGE(stride_[k][last], b_.getInt64(kFarRow));
    are_far = b_.CreateAnd(are_far, b_.CreateICmpSGT(size_[last], b_.getInt64(kRowsAhead)));
    Value* ahead = b_.CreateMul(stride_[k][last], b_.getInt64(kRowsAhead));
    found.push_back({k, b_.CreateAnd(are_far, b_.CreateICmpSLE(bytes, b_.getInt64(kShortRow))), ahead,
                     b_.CreateAdd(ahead, b_.CreateSub(bytes, b_.getInt64(1)))});
  }
  return found;
}

// Returns the instructions that do not vary with the last dim of tiles.
std::vector<int> KernelEmitter::StillOverTiles(const std::vector<int>& instrs) const {
  const int last = s_.parallel_rank - 2;
  std::vector<bool> varies(s_.instrs.size());
  std::vector<int> still;
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    varies[i] = in.op == KernelOp::kIndex && in.dim == last;
    if (in.op == KernelOp::kLoad) varies[i] = s_.params[in.param].strides[last] != StrideClass::kZero;
    for (int o : in.operands) varies[i] = varies[i] || varies[o];
    if (!varies[i]) still.push_back(i);
  }
  return still;
}

// A machine with AVX-512 prefetches by itself what a loop without reductions reads in one piece, and explicit
// prefetches get in its way. Intel's machines are an exception, because their prefetchers stop at the end of a page.
// (Where only a part is in one piece, a distance of 0 prefetches the bytes that are read next anyway: a branch for each
// operand would take LLVM longer than everything that the loop computes.)
void KernelEmitter::FindLinesAhead() {
  lines_ahead_.clear();
  in_one_piece_ = nullptr;
  const int row = s_.parallel_rank - 2;  // the dim that counts rows
  const bool by_machine = !f_.IsAvx2Only();
  Value* piece = b_.getInt64(by_machine ? kBytesAheadInOnePiece : kLineAhead);
  if (by_machine) piece = b_.CreateSelect(asks_ahead_, piece, b_.getInt64(0));
  for (size_t k = 0; k < s_.params.size(); ++k) {
    const int param = static_cast<int>(k);
    if (!IsReadInLines(param) || (row >= 0 && !stride_[k][row])) continue;
    if (row < 0 || !by_machine) {
      lines_ahead_.push_back({param, row < 0 ? piece : DistanceAhead(param, row)});
      continue;
    }
    Value* bytes = b_.CreateMul(size_[loop_dim_], b_.getInt64(ItemSize(s_.params[k].dtype) * LinesApart(param)));
    Value* is_piece = b_.CreateICmpEQ(stride_[k][row], bytes);
    in_one_piece_ = in_one_piece_ ? b_.CreateAnd(in_one_piece_, is_piece) : is_piece;
    lines_ahead_.push_back({param, b_.CreateSelect(is_piece, piece, DistanceAhead(param, row))});
  }
  if (by_machine && row < 0) in_one_piece_ = b_.getTrue();
  asks_for_lines_ = in_one_piece_ ? b_.CreateOr(asks_ahead_, b_.CreateNot(in_one_piece_)) : nullptr;
}

void KernelEmitter::PrefetchAhead(int copies) {
  if (!past_cache_ || (mask_ && !whole_) || lines_ahead_.empty()) return;
  const bool nearest = f_.IsAvx2Only() || CostOf(loop_instrs_).all > kComputeBound;
  auto ask = [&](bool into_nearest) -> Value* {
    for (const LinesAhead& lines : lines_ahead_) {
      PrefetchLines(lines.param, b_.CreateGEP(i8_, Address(lines.param, 0), lines.distance), copies, into_nearest);
    }
    return nullptr;
  };
  If(asks_for_lines_ ? b_.CreateAnd(past_cache_, asks_for_lines_) : past_cache_, [&] {
    if (nearest || !in_one_piece_) {
      ask(nearest);
    } else if (llvm::isa<llvm::ConstantInt>(in_one_piece_)) {
      ask(true);
    } else {
      IfElse(in_one_piece_, [&] { return ask(true); }, [&] { return ask(false); });
    }
  });
}

void KernelEmitter::EmitInterior(Value* lo, Value* hi, const std::function<void()>& otherwise) {
  auto max = [&](Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSGT(a, z), a, z); };
  Value *first = lo, *end = hi;
  for (const InteriorBound& bound : interior_->bounds) {
    bool known = hoisted_[bound.limit];
    Value* v = Get(bound.limit, 0);
    for (auto [term, added] : bound.terms) known = known && hoisted_[term];
    if (!known) return otherwise();
    for (auto [term, added] : bound.terms) {
      v = added ? b_.CreateAdd(v, Get(term, 0)) : b_.CreateSub(v, Get(term, 0));
    }
    v = b_.CreateAdd(v, b_.getInt64(bound.add));
    if (bound.is_lower) {
      first = max(first, v);
    } else {
      end = Min(end, v);
    }
  }
  Value* difference = b_.CreateSub(hi, end);
  Value* edges = b_.CreateAdd(b_.CreateSub(first, lo), difference);
  Value* is_at_most = b_.CreateICmpSLE(edges, b_.getInt64(2 * lanes_));
  Value* is_most = b_.CreateAnd(b_.CreateICmpSLT(first, end), is_at_most);
  auto parts = [&]() -> Value* {
    auto one_by_one = [&](Value* from, Value* to) {
      active_lanes_ = 1;
      ChunkLoop(from, to, 1, [&](int n) { EmitColumnChunk(n); }, nullptr, false);
      active_lanes_ = lanes_;
    };
    one_by_one(lo, first);
    std::swap(s_, interior_->spec);
    const std::vector<int> all = std::exchange(loop_instrs_, s_.phases[0].instrs);
    ChunkLoop(
        first, end, static_cast<int>(vals_.size()),
        [&](int n) {
          PrefetchAhead(n);
          EmitColumnChunk(n);
        },
        nullptr, /*stores=*/true);
    loop_instrs_ = all;
    std::swap(s_, interior_->spec);
    one_by_one(end, hi);
    return nullptr;
  };
  IfElse(is_most, parts, [&]() -> Value* {
    otherwise();
    return nullptr;
  });
}

void KernelEmitter::EmitColumnChunk(int copies) {
  for (const KernelPhase& phase : s_.phases) {
    if (!phase.inner) {
      EmitInstrs(phase.instrs, copies);
      continue;
    }
    StartReductions(phase.instrs, copies);
    std::function<void()> flush;
    if (HasSums(phase.instrs)) flush = [&, copies] { FlushSums(phase.instrs, copies); };
    Nest(s_.parallel_rank, s_.rank(), [&] { EmitInstrs(phase.instrs, copies); }, flush);
    FinishReductions(phase.instrs, copies);
  }
}

}  // namespace smelt
