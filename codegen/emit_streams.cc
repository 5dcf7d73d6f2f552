#include "smelt/codegen/emit_streams.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Type;
using llvm::Value;

namespace {

// The rows that are taken at once where instructions are cheap, and where they are dearer. Still dearer instructions
// take one row at a time. (AVX-512 has registers for more. The rows of variances on a Zen 4 take 3.0 ms eight at a time
// and 3.8 ms four at a time: each begins on a page of its own, where no prefetcher of the machine has been.)
constexpr int kRowsAtOnce = 8, kFewRowsAtOnce = 4;
constexpr int kCheap = 8, kCheapOfAvx512 = 12, kDear = 24;
// Rows that are stored are taken one at a time. The row that is this many further on is prefetched, if all rows lie in more
// memory than the caches of a core hold.
constexpr int64_t kRowsAhead = 3, kFarBytes = 4 << 20;
// The number of vectors of each row, if instructions only read and add: a row's lines are then read a few at a time.
constexpr int kVectorsAtOnce = 4, kVeryCheap = 4;
// From this number of rows (of the innermost reduced dim) on, memory is read row after row.
constexpr int64_t kManyRows = 128;

}  // namespace

StreamEmitter::StreamEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values,
                             LoopParts& parts)
    : fn_(fn),
      b_(fn.b()),
      plan_(plan),
      s_(plan.spec),
      words_(words),
      values_(values),
      parts_(parts),
      kept_(plan.spec.instrs.size(), nullptr) {
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (plan_.streams.is_kept[i]) kept_[i] = Buffer(fn_.MemType(s_.instrs[i].type));
  }
}

AllocaInst* StreamEmitter::Buffer(Type* element) {
  return fn_.Temporary(llvm::ArrayType::get(element, plan_.streams.columns + plan_.lanes));
}

AllocaInst* StreamEmitter::BufferLike(AllocaInst* variable) {
  Type* element = variable->getAllocatedType()->getScalarType();
  return Buffer(element->getScalarSizeInBits() == 1 ? b_.getInt8Ty() : element);
}

Value* StreamEmitter::BufferPlace(AllocaInst* buffer, Value* at) {
  return b_.CreateGEP(buffer->getAllocatedType()->getArrayElementType(), buffer, b_.CreateSub(at, tile_begin_));
}

Value* StreamEmitter::LoadBuffer(AllocaInst* buffer, Value* at) {
  Type* element = buffer->getAllocatedType()->getArrayElementType();
  return b_.CreateAlignedLoad(fn_.Vec(element, plan_.lanes), BufferPlace(buffer, at), AlignOf(element));
}

void StreamEmitter::StoreBuffer(AllocaInst* buffer, Value* at, Value* v) {
  Type* element = buffer->getAllocatedType()->getArrayElementType();
  b_.CreateAlignedStore(v, BufferPlace(buffer, at), AlignOf(element));
}

void StreamEmitter::ForBuffers(const std::function<void(Value*)>& body) {
  fn_.For(tile_begin_, tile_end_, b_.getInt64(plan_.lanes), body);
}

void StreamEmitter::Keep(const LoopContext& ctx, const std::vector<int>& instrs) {
  for (int i : instrs) {
    if (!kept_[i] || s_.instrs[i].op == KernelOp::kReduce) continue;
    StoreBuffer(kept_[i], ctx.chunk, fn_.ToMemory(s_.instrs[i].type, values_.GetVector(ctx, i, 0)));
  }
}

void StreamEmitter::LoadKept(const LoopContext& ctx, const std::vector<int>& instrs) {
  std::vector<bool> loaded(s_.instrs.size(), false);
  for (int i : instrs) {
    for (int o : s_.instrs[i].operands) {
      if (!kept_[o] || loaded[o] || plan_.phase_of[o] == plan_.phase_of[i]) continue;
      loaded[o] = true;
      values_.SetAll(o, fn_.FromMemory(s_.instrs[o].type, LoadBuffer(kept_[o], ctx.chunk)));
    }
  }
}

void StreamEmitter::StreamColumns(const LoopContext& ctx, Value* lo, Value* hi) {
  values_.Reset(1, values_.None());
  ready_.assign(s_.instrs.size(), false);
  fn_.For(lo, hi, b_.getInt64(plan_.streams.columns), [&](Value* begin) {
    tile_begin_ = begin;
    tile_end_ = fn_.Min(hi, b_.CreateAdd(begin, b_.getInt64(plan_.streams.columns)));
    for (size_t k = 0; k < s_.phases.size(); ++k) {
      const KernelPhase& phase = s_.phases[k];
      if (phase.inner) {
        plan_.unless[k] < 0 ? StreamPhase(ctx, phase.instrs) : StreamPhaseUnless(ctx, phase.instrs, plan_.unless[k]);
        continue;
      }
      values_.Reset(1, values_.First());
      parts_.loops.Hoist(ctx, phase.instrs, ready_);
      for (int i : phase.instrs) ready_[i] = ready_[i] || values_.IsHoisted(i);
      parts_.loops.ChunkLoop(
          ctx, phase.instrs, {tile_begin_, tile_end_, 1, plan_.HasStores(phase.instrs)},
          [&](const LoopContext& inner, int) {
            LoadKept(inner, phase.instrs);
            parts_.instrs.EmitInstrs(inner, phase.instrs, 1);
            Keep(inner, phase.instrs);
          },
          nullptr);
      values_.ClearHoisted();
    }
  });
}

void StreamEmitter::MakeBuffers(const std::vector<int>& instrs) {
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kReduce) continue;
    const ReductionEmitter::State& state = parts_.reductions.StateOf(i);
    Buffers& buffers = buffers_[i];
    buffers = Buffers();
    buffers.acc = BufferLike(state.acc[0]);
    if (IsArg(in.reduce)) buffers.index = BufferLike(state.index[0]);
    if (IsSumLike(in)) {
      buffers.wide = BufferLike(state.wide[0]);
      if (plan_.IsCompensated(in)) buffers.error = BufferLike(state.error[0]);
    }
  }
}

void StreamEmitter::ForEach(const std::vector<int>& instrs, Value* at, int n, bool accs, bool sums,
                            const std::function<void(AllocaInst*, AllocaInst*, Value*)>& one) {
  for (int i : instrs) {
    if (s_.instrs[i].op != KernelOp::kReduce) continue;
    const ReductionEmitter::State& state = parts_.reductions.StateOf(i);
    const Buffers& buffers = buffers_[i];
    for (int w = 0; w < n; ++w) {
      Value* place = w ? b_.CreateAdd(at, b_.getInt64(static_cast<int64_t>(w) * plan_.lanes)) : at;
      if (accs) one(buffers.acc, state.acc[w], place);
      if (accs && buffers.index) one(buffers.index, state.index[w], place);
      if (sums && buffers.wide) one(buffers.wide, state.wide[w], place);
      if (sums && buffers.error) one(buffers.error, state.error[w], place);
    }
  }
}

void StreamEmitter::Save(const std::vector<int>& instrs, Value* at, int n, bool sums) {
  ForEach(instrs, at, n, true, sums, [&](AllocaInst* buffer, AllocaInst* variable, Value* place) {
    StoreBuffer(buffer, place, fn_.Widened(fn_.Load(variable)));
  });
}

void StreamEmitter::Restore(const std::vector<int>& instrs, Value* at, int n, bool accs, bool sums) {
  ForEach(instrs, at, n, accs, sums, [&](AllocaInst* buffer, AllocaInst* variable, Value* place) {
    Value* v = LoadBuffer(buffer, place);
    Type* type = variable->getAllocatedType();
    if (v->getType() != type) v = b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
    b_.CreateStore(v, variable);
  });
}

void StreamEmitter::FlushTile(const LoopContext& ctx, const std::vector<int>& instrs, Value* from) {
  if (!plan_.HasSums(instrs)) return;
  values_.Reset(1, known_);
  fn_.For(from, tile_end_, b_.getInt64(plan_.lanes), [&](Value* at) {
    Restore(instrs, at, 1, true, true);
    parts_.reductions.FlushSums(ctx, instrs, 1);
    Save(instrs, at, 1, true);
  });
}

void StreamEmitter::EmitGroup(const LoopContext& ctx, const std::vector<int>& instrs, const RowGroup& group,
                              const std::function<void(const LoopContext&, const Body&)>& loop) {
  LoopContext row = ctx;
  words_.AddIndex(row, s_.rank() - 1, group.first);
  row.row_copies = group.rows;
  row.row_vectors = group.vectors;
  const int n = group.vectors;
  values_.Reset(group.rows * n, known_);
  parts_.loops.Hoist(row, instrs, ready_);
  loop(row, [&](const LoopContext& inner) {
    Restore(instrs, inner.chunk, n, true, false);
    LoadKept(inner, instrs);
    parts_.instrs.EmitInstrs(inner, instrs, group.rows * n);
    auto add = [&]() -> Value* {
      Restore(instrs, inner.chunk, n, false, true);
      parts_.reductions.FlushSums(inner, instrs, n);
      Save(instrs, inner.chunk, n, true);
      return nullptr;
    };
    auto keep = [&]() -> Value* {
      Save(instrs, inner.chunk, n, false);
      return nullptr;
    };
    group.is_last ? fn_.IfElse(group.is_last, add, keep) : keep();
  });
  values_.ClearHoisted();
}

void StreamEmitter::PrefetchRow(const LoopContext& ctx, const std::vector<int>& instrs) {
  std::vector<bool> asked(s_.params.size(), false);
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    if (in.op != KernelOp::kLoad || in.has_offset || asked[in.param]) continue;
    asked[in.param] = true;
    Value* stride = words_.stride(in.param, s_.rank() - 1);
    if (stride == nullptr || plan_.LoopClass(in.param) != StrideClass::kUnit) continue;
    Value* distance = b_.CreateMul(stride, b_.getInt64(kRowsAhead));
    Value* address = words_.Address(ctx, in.param, 0);
    fn_.Prefetch(b_.CreateGEP(b_.getInt8Ty(), address, distance), /*nearest=*/false);
  }
}

Value* StreamEmitter::AreFar(const std::vector<int>& instrs) {
  Value* far = b_.getFalse();
  for (int i : instrs) {
    const KernelInstr& in = s_.instrs[i];
    Value* stride = in.op == KernelOp::kLoad ? words_.stride(in.param, s_.rank() - 1) : nullptr;
    if (stride == nullptr) continue;
    Value* bytes = b_.CreateMul(stride, words_.size(s_.rank() - 1));
    far = b_.CreateOr(far, b_.CreateICmpSGE(bytes, b_.getInt64(kFarBytes)));
  }
  return far;
}

void StreamEmitter::EmitSingleRows(const LoopContext& ctx, const std::vector<int>& instrs, Value* begin, Value* end,
                                   bool stores) {
  auto near = [&]() -> Value* {
    EmitSingleRows(ctx, instrs, begin, end, {stores, /*prefetches=*/false});
    return nullptr;
  };
  auto far = [&]() -> Value* {
    EmitSingleRows(ctx, instrs, begin, end, {stores, /*prefetches=*/true});
    return nullptr;
  };
  stores ? fn_.IfElse(AreFar(instrs), far, near) : near();
  FlushTile(ctx, instrs, tile_begin_);
}

void StreamEmitter::EmitSingleRows(const LoopContext& ctx, const std::vector<int>& instrs, Value* begin, Value* end,
                                   const SingleRows& rows) {
  fn_.For(begin, end, b_.getInt64(1), [&](Value* q) {
    EmitGroup(ctx, instrs, {1, 1, q, nullptr}, [&](const LoopContext& row, const Body& body) {
      parts_.loops.ChunkLoop(
          row, instrs, {tile_begin_, tile_end_, 1, rows.stores},
          [&](const LoopContext& inner, int) {
            if (rows.prefetches) PrefetchRow(inner, instrs);
            body(inner);
          },
          nullptr);
    });
  });
}

void StreamEmitter::EmitRowGroups(const LoopContext& ctx, const std::vector<int>& instrs, Value* begin, Value* end,
                                  int rows, int vectors) {
  const int64_t step = static_cast<int64_t>(vectors) * plan_.lanes;
  Value* columns = b_.CreateSub(tile_end_, tile_begin_);
  Value* edge = b_.CreateAdd(tile_begin_, b_.CreateAnd(columns, b_.getInt64(-step)));
  Value* whole = b_.CreateAdd(begin, b_.CreateAnd(b_.CreateSub(end, begin), b_.getInt64(-rows)));
  Value* all_whole = b_.CreateICmpEQ(whole, end);
  auto masked = [&](const LoopContext& row, const Body& body, Value* from) {
    fn_.For(from, tile_end_, b_.getInt64(plan_.lanes), [&](Value* i) {
      Value* count = fn_.Min(b_.CreateSub(tile_end_, i), b_.getInt64(plan_.lanes));
      parts_.loops.MaskedVector(row, i, count, body);
    });
  };
  fn_.For(begin, whole, b_.getInt64(rows), [&](Value* q) {
    Value* is_last = plan_.HasSums(instrs) ? b_.CreateICmpEQ(b_.CreateAdd(q, b_.getInt64(rows)), end) : nullptr;
    EmitGroup(ctx, instrs, {rows, vectors, q, is_last}, [&](const LoopContext& row, const Body& body) {
      fn_.For(tile_begin_, edge, b_.getInt64(step), [&](Value* i) { body(parts_.loops.AtIndex(row, i)); });
    });
    EmitGroup(ctx, instrs, {rows, 1, q, nullptr},
              [&](const LoopContext& row, const Body& body) { masked(row, body, edge); });
  });
  fn_.For(whole, end, b_.getInt64(1), [&](Value* q) {
    EmitGroup(ctx, instrs, {1, 1, q, nullptr},
              [&](const LoopContext& row, const Body& body) { masked(row, body, tile_begin_); });
  });
  if (plan_.HasSums(instrs)) FlushTile(ctx, instrs, b_.CreateSelect(all_whole, edge, tile_begin_));
}

void StreamEmitter::StreamPhase(const LoopContext& ctx, const std::vector<int>& instrs) {
  const int cost = plan_.CostOf(instrs).all;
  const int cheap = plan_.features.avx512 ? kCheapOfAvx512 : kCheap;
  const int rows = cost <= cheap ? kRowsAtOnce : cost <= kDear ? kFewRowsAtOnce : 1;
  const int vectors = cost <= kVeryCheap && !plan_.TakesKept(instrs) ? kVectorsAtOnce : 1;
  parts_.reductions.StartReductions(ctx, instrs, vectors);
  MakeBuffers(instrs);
  ForBuffers([&](Value* at) { Save(instrs, at, 1, true); });
  known_ = values_.First();
  // If rows are stored, too, they are taken one at a time: each has its own first aligned place.
  const bool stores = plan_.HasStores(instrs);
  const bool is_single = rows == 1 || stores;
  // Where rows are added in pairs first, a block's sum rounds no more often than one of kSumBlock single rows.
  const int64_t block_rows = is_single ? kSumBlock : rows * kSumBlock / 2;
  parts_.nests.Nest(
      ctx, s_.parallel_rank, s_.rank() - 1,
      [&](const LoopContext& matrix) {
        Value* n = words_.size(s_.rank() - 1);
        fn_.For(b_.getInt64(0), n, b_.getInt64(block_rows), [&](Value* block) {
          Value* end = fn_.Min(n, b_.CreateAdd(block, b_.getInt64(block_rows)));
          if (is_single) {
            EmitSingleRows(matrix, instrs, block, end, stores);
          } else {
            EmitRowGroups(matrix, instrs, block, end, rows, vectors);
          }
        });
      },
      nullptr);
  values_.Reset(1, known_);
  ForBuffers([&](Value* at) {
    Restore(instrs, at, 1, true, true);
    parts_.reductions.FinishReductions(ctx, instrs, 1);
    for (int i : instrs) {
      if (s_.instrs[i].op != KernelOp::kReduce || !kept_[i]) continue;
      StoreBuffer(kept_[i], at, fn_.ToMemory(s_.instrs[i].type, values_.Get(i, 0)));
    }
  });
  values_.Reset(1, known_);
}

void StreamEmitter::StreamPhaseUnless(const LoopContext& ctx, const std::vector<int>& instrs, int known) {
  AllocaInst* all = fn_.Variable(b_.getInt1Ty());
  b_.CreateStore(b_.getTrue(), all);
  ForBuffers([&](Value* at) {
    Value* count = fn_.Min(b_.CreateSub(tile_end_, at), b_.getInt64(plan_.lanes));
    Value* unused = b_.CreateNot(fn_.MaskOf(count, plan_.lanes));
    Value* is_known = fn_.FromMemory(DType::kBool, LoadBuffer(kept_[known], at));
    Value* are_known = fn_.All(b_.CreateOr(is_known, unused));
    b_.CreateStore(b_.CreateAnd(are_known, fn_.Load(all)), all);
    for (int i : instrs) {
      if (!kept_[i]) continue;
      Type* element = kept_[i]->getAllocatedType()->getArrayElementType();
      StoreBuffer(kept_[i], at, llvm::Constant::getNullValue(fn_.Vec(element, plan_.lanes)));
    }
  });
  fn_.If(b_.CreateNot(fn_.Load(all)), [&] { StreamPhase(ctx, instrs); });
}

Value* StreamEmitter::HasManyRows() { return b_.CreateICmpSGE(words_.size(s_.rank() - 1), b_.getInt64(kManyRows)); }

}  // namespace smelt
