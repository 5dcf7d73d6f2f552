// Reductions over rows while the columns are vectorized. With few rows, one chunk of columns at a time runs through all
// phases, with accumulators in registers. With many rows, memory is read row after row in its order, and buffers keep
// the accumulators of a tile of columns and the values that phases pass to later ones.
#include <algorithm>

#include "smelt/codegen/kernel_emitter.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// The rows that are taken at once where instructions are cheap, and where they are dearer. Still dearer instructions
// take one row at a time.
constexpr int kRowsAtOnce = 8, kFewRowsAtOnce = 4;
constexpr int kCheap = 8, kDear = 24;
// The number of vectors of each row, if instructions only read and add: a row's lines are then read a few at a time.
constexpr int kVectorsAtOnce = 4, kVeryCheap = 4;
// From this number of rows (of the innermost reduced dim) on, memory is read row after row.
constexpr int64_t kManyRows = 128;
constexpr int64_t kBufferBytes = 40 << 10;
constexpr int64_t kMostColumns = 2048;

}  // namespace

// Finds the values that phases pass to later ones, and how many columns a tile has so that all buffers stay in the
// nearest cache.
void KernelEmitter::PlanStreams() {
  streams_ = columns_ && lanes_ > 1 && s_.reduction_rank > 0;
  kept_.assign(s_.instrs.size(), nullptr);
  if (!streams_) return;
  std::vector<bool> later(s_.instrs.size(), false);
  for (const KernelPhase& phase : s_.phases) {
    for (int i : phase.instrs) {
      for (int o : s_.instrs[i].operands) later[o] = later[o] || phase_of_[o] != phase_of_[i];
    }
  }
  // Values that are the same for all columns are computed before the loop over the columns, where that is possible.
  std::vector<bool> hoisted(s_.instrs.size(), false);
  for (const KernelPhase& phase : s_.phases) {
    if (phase.inner) continue;
    for (int i : phase.instrs) hoisted[i] = CanHoist(i, hoisted);
  }
  int64_t bytes = 0;
  std::vector<int> keep;
  for (size_t i = 0; i < s_.instrs.size(); ++i) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op == KernelOp::kScan) streams_ = false;
    if (in.op == KernelOp::kReduce) {
      const int item = ItemSize(s_.instrs[in.operands[0]].type);
      bytes += item * (IsSumLike(in) ? 3 : 1) + (IsArg(in.reduce) ? 8 : 0);
    }
    if (later[i] && !hoisted[i]) {
      keep.push_back(static_cast<int>(i));
      bytes += ItemSize(in.type);
    }
  }
  stream_columns_ = std::min(kMostColumns, kBufferBytes / std::max<int64_t>(bytes, 1) / 64 * 64);
  streams_ = streams_ && stream_columns_ >= 64;
  if (!streams_) return;
  for (int i : keep) kept_[i] = Buffer(MemType(s_.instrs[i].type));
}

AllocaInst* KernelEmitter::Buffer(Type* element) {
  return Temporary(llvm::ArrayType::get(element, stream_columns_ + lanes_));
}

// Returns the place in a buffer of the chunk that the loop is at. Buffers are longer than tiles, so masks do not
// matter.
Value* KernelEmitter::BufferPlace(AllocaInst* buffer, Value* at) {
  return b_.CreateGEP(buffer->getAllocatedType()->getArrayElementType(), buffer, b_.CreateSub(at, tile_begin_));
}
Value* KernelEmitter::LoadBuffer(AllocaInst* buffer, Value* at) {
  Type* element = buffer->getAllocatedType()->getArrayElementType();
  return b_.CreateAlignedLoad(Vec(element, lanes_), BufferPlace(buffer, at), AlignOf(element));
}
void KernelEmitter::StoreBuffer(AllocaInst* buffer, Value* at, Value* v) {
  Type* element = buffer->getAllocatedType()->getArrayElementType();
  b_.CreateAlignedStore(v, BufferPlace(buffer, at), AlignOf(element));
}
void KernelEmitter::Keep(const std::vector<int>& instrs) {
  for (int i : instrs) {
    if (!kept_[i] || s_.instrs[i].op == KernelOp::kReduce) continue;
    StoreBuffer(kept_[i], chunk_, ToMemory(s_.instrs[i].type, Splat(Get(i, 0))));
  }
}
bool KernelEmitter::TakesKept(const std::vector<int>& instrs) const {
  return std::any_of(instrs.begin(), instrs.end(), [&](int i) {
    const std::vector<int>& from = s_.instrs[i].operands;
    return std::any_of(from.begin(), from.end(), [&](int o) { return kept_[o] && phase_of_[o] != phase_of_[i]; });
  });
}
// Loads the values of earlier phases that `instrs` need.
void KernelEmitter::LoadKept(const std::vector<int>& instrs) {
  std::vector<bool> loaded(s_.instrs.size(), false);
  for (int i : instrs) {
    for (int o : s_.instrs[i].operands) {
      if (!kept_[o] || loaded[o] || phase_of_[o] == phase_of_[i]) continue;
      loaded[o] = true;
      SetAll(o, FromMemory(s_.instrs[o].type, LoadBuffer(kept_[o], chunk_)));
    }
  }
}

// Calls body(place) for each vector of the tile's buffers.
void KernelEmitter::ForBuffers(const std::function<void(Value*)>& body) {
  For(tile_begin_, tile_end_, b_.getInt64(lanes_), body);
}

void KernelEmitter::StreamColumns(Value* lo, Value* hi) {
  const std::vector<Value*> addr = addr_, idx = idx_;
  vals_.assign(1, std::vector<Value*>(s_.instrs.size(), nullptr));
  ready_.assign(s_.instrs.size(), false);
  For(lo, hi, b_.getInt64(stream_columns_), [&](Value* begin) {
    tile_begin_ = begin;
    tile_end_ = Min(hi, b_.CreateAdd(begin, b_.getInt64(stream_columns_)));
    for (const KernelPhase& phase : s_.phases) {
      addr_ = addr;
      idx_ = idx;
      loop_instrs_ = phase.instrs;
      if (phase.inner) {
        StreamPhase(phase);
        continue;
      }
      vals_.assign(1, vals_[0]);
      Hoist(phase.instrs, ready_);
      for (int i : phase.instrs) ready_[i] = ready_[i] || hoisted_[i];
      ChunkLoop(
          tile_begin_, tile_end_, 1,
          [&](int) {
            LoadKept(phase.instrs);
            EmitInstrs(phase.instrs, 1);
            Keep(phase.instrs);
          },
          nullptr, HasStores(phase.instrs));
      hoisted_.clear();
    }
  });
  addr_ = addr;
  idx_ = idx;
}

void KernelEmitter::StreamPhase(const KernelPhase& phase) {
  const std::vector<int>& instrs = phase.instrs;
  const int cost = CostOf(instrs).all;
  const int at_once = cost <= kCheap ? kRowsAtOnce : cost <= kDear ? kFewRowsAtOnce : 1;
  const int vectors = cost <= kVeryCheap && !TakesKept(instrs) ? kVectorsAtOnce : 1;
  StartReductions(instrs, vectors);
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    State& state = states_[i];
    auto make = [&](AllocaInst* variable) { return Buffer(BufferElement(variable)); };
    state.acc_buffer = make(state.acc[0]);
    if (IsArg(in.reduce)) state.index_buffer = make(state.index[0]);
    if (IsSumLike(in)) {
      state.wide_buffer = make(state.wide[0]);
      if (IsCompensated(in)) state.error_buffer = make(state.error[0]);
    }
  }
  // Copies between the buffers of `n` vectors from `at` on and their variables: accumulators, and the second level of
  // sums.
  const auto each = [&](Value* at, int n, bool accs, bool sums, auto one) {
    for (int i : instrs) {
      if (s_.instrs[i].op != KernelOp::kReduce) continue;
      State& state = states_[i];
      for (int w = 0; w < n; ++w) {
        Value* place = w ? b_.CreateAdd(at, b_.getInt64(static_cast<int64_t>(w) * lanes_)) : at;
        if (accs) one(state.acc_buffer, state.acc[w], place);
        if (accs && state.index_buffer) one(state.index_buffer, state.index[w], place);
        if (sums && state.wide_buffer) one(state.wide_buffer, state.wide[w], place);
        if (sums && state.error_buffer) one(state.error_buffer, state.error[w], place);
      }
    }
  };
  auto save = [&](Value* at, int n, bool sums) {
    each(at, n, true, sums, [&](AllocaInst* buffer, AllocaInst* variable, Value* place) {
      StoreBuffer(buffer, place, Widened(Load(variable)));
    });
  };
  auto restore = [&](Value* at, int n, bool accs, bool sums) {
    each(at, n, accs, sums, [&](AllocaInst* buffer, AllocaInst* variable, Value* place) {
      Value* v = LoadBuffer(buffer, place);
      Type* type = variable->getAllocatedType();
      if (v->getType() != type) v = b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
      b_.CreateStore(v, variable);
    });
  };
  ForBuffers([&](Value* at) { save(at, 1, true); });
  const bool sums = HasSums(instrs);
  const std::vector<Value*> known = vals_[0];
  const std::vector<bool> ready = ready_;
  auto flush = [&](Value* from) {
    vals_.assign(1, known);
    For(from, tile_end_, b_.getInt64(lanes_), [&](Value* at) {
      restore(at, 1, true, true);
      FlushSums(instrs, 1);
      save(at, 1, true);
    });
  };
  // Emits `count` rows from row q on of the innermost reduced dim, `n` vectors of each at a time, in the given loop
  // over columns. Where `is_last`, sums go on to their second level.
  auto rows = [&](int count, int n, Value* q, Value* is_last,
                  const std::function<void(const std::function<void()>&)>& loop) {
    const std::vector<Value*> addr = addr_;
    AddIndex(s_.rank() - 1, q);
    vals_.assign(count * n, known);
    row_copies_ = count;
    row_vectors_ = n;
    Hoist(instrs, ready);
    loop([&, count, n, is_last] {
      restore(chunk_, n, true, false);
      LoadKept(instrs);
      EmitInstrs(instrs, count * n);
      auto add = [&]() -> Value* {
        restore(chunk_, n, false, true);
        FlushSums(instrs, n);
        save(chunk_, n, true);
        return nullptr;
      };
      auto keep = [&]() -> Value* {
        save(chunk_, n, false);
        return nullptr;
      };
      is_last ? IfElse(is_last, add, keep) : keep();
    });
    chunk_ = nullptr;
    hoisted_.clear();
    row_copies_ = 0;
    row_vectors_ = 1;
    addr_ = addr;
  };
  // If rows are stored, too, they are taken one at a time: each has its own first aligned place.
  auto stored_rows = [&](Value* begin, Value* end) {
    For(begin, end, b_.getInt64(1), [&](Value* q) {
      rows(1, 1, q, nullptr, [&](const std::function<void()>& body) {
        ChunkLoop(tile_begin_, tile_end_, 1, [&](int) { body(); }, nullptr, true);
      });
    });
    if (sums) flush(tile_begin_);
  };
  // Reads several rows over whole vectors of columns and, under masks, the columns that are left; then the rows that
  // are left.
  auto read_rows = [&](Value* begin, Value* end) {
    if (at_once == 1) {
      For(begin, end, b_.getInt64(1), [&](Value* q) {
        rows(1, 1, q, nullptr, [&](const std::function<void()>& body) {
          ChunkLoop(tile_begin_, tile_end_, 1, [&](int) { body(); }, nullptr, false);
        });
      });
      if (sums) flush(tile_begin_);
      return;
    }
    const int64_t step = static_cast<int64_t>(vectors) * lanes_;
    Value* columns = b_.CreateSub(tile_end_, tile_begin_);
    Value* edge = b_.CreateAdd(tile_begin_, b_.CreateAnd(columns, b_.getInt64(-step)));
    Value* whole = b_.CreateAdd(begin, b_.CreateAnd(b_.CreateSub(end, begin), b_.getInt64(-at_once)));
    Value* all_whole = b_.CreateICmpEQ(whole, end);
    auto masked = [&](const std::function<void()>& body, Value* from) {
      For(from, tile_end_, b_.getInt64(lanes_),
          [&](Value* i) { MaskedVector(i, Min(b_.CreateSub(tile_end_, i), b_.getInt64(lanes_)), body); });
    };
    For(begin, whole, b_.getInt64(at_once), [&](Value* q) {
      Value* is_last = sums ? b_.CreateICmpEQ(b_.CreateAdd(q, b_.getInt64(at_once)), end) : nullptr;
      rows(at_once, vectors, q, is_last, [&](const std::function<void()>& body) {
        For(tile_begin_, edge, b_.getInt64(step), [&](Value* i) {
          SetLoopIndex(i);
          body();
        });
      });
      rows(at_once, 1, q, nullptr, [&](const std::function<void()>& body) { masked(body, edge); });
    });
    For(whole, end, b_.getInt64(1), [&](Value* q) {
      rows(1, 1, q, nullptr, [&](const std::function<void()>& body) { masked(body, tile_begin_); });
    });
    if (sums) flush(b_.CreateSelect(all_whole, edge, tile_begin_));
  };
  // Where rows are added in pairs first, a block's sum rounds no more often than one of kSumBlock single rows.
  const int64_t block_rows = at_once == 1 || HasStores(instrs) ? kSumBlock : at_once * kSumBlock / 2;
  Nest(
      s_.parallel_rank, s_.rank() - 1,
      [&] {
        Value* n = size_[s_.rank() - 1];
        For(b_.getInt64(0), n, b_.getInt64(block_rows), [&](Value* block) {
          Value* end = Min(n, b_.CreateAdd(block, b_.getInt64(block_rows)));
          HasStores(instrs) ? stored_rows(block, end) : read_rows(block, end);
        });
      },
      nullptr);
  vals_.assign(1, known);
  ForBuffers([&](Value* at) {
    restore(at, 1, true, true);
    FinishReductions(instrs, 1);
    for (int i : instrs) {
      if (s_.instrs[i].op == KernelOp::kReduce && kept_[i])
        StoreBuffer(kept_[i], at, ToMemory(s_.instrs[i].type, Get(i, 0)));
    }
  });
  vals_.assign(1, known);
}

// Bools are kept as bytes.
Value* KernelEmitter::Widened(Value* v) {
  return v->getType()->getScalarSizeInBits() == 1 ? b_.CreateZExt(v, v->getType()->getWithNewType(i8_)) : v;
}
Type* KernelEmitter::BufferElement(AllocaInst* variable) {
  Type* element = variable->getAllocatedType()->getScalarType();
  return element->getScalarSizeInBits() == 1 ? i8_ : element;
}

Value* KernelEmitter::HasManyRows() { return b_.CreateICmpSGE(size_[s_.rank() - 1], b_.getInt64(kManyRows)); }

}  // namespace smelt
