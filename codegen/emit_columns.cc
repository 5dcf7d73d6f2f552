#include "smelt/codegen/emit_columns.h"

#include "smelt/codegen/emit_tiles.h"

namespace smelt {

using llvm::Value;

ColumnEmitter::ColumnEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values)
    : fn_(fn),
      b_(fn.b()),
      plan_(plan),
      s_(plan.spec),
      words_(words),
      values_(values),
      parts_(fn, plan, words, values),
      chunks_(plan, parts_),
      stream_plan_(plan.OfStreams()),
      stream_values_(fn, stream_plan_.spec.instrs.size()),
      stream_parts_(fn, stream_plan_, words, stream_values_),
      streams_(fn, stream_plan_, words, stream_values_, stream_parts_),
      folds_(fn, plan, words, values, parts_),
      known_(plan.spec.instrs.size(), nullptr),
      ready_(plan.spec.instrs.size(), false) {
  for (const KernelPhase& phase : s_.phases) {
    all_.insert(all_.end(), phase.instrs.begin(), phase.instrs.end());
    if (!phase.inner) outer_.insert(outer_.end(), phase.instrs.begin(), phase.instrs.end());
    reduces_ = reduces_ || phase.inner;
  }
  if (plan_.lanes > 1) copies_ = plan_.Copies(all_, reduces_);
}

void ColumnEmitter::Emit() {
  far_rows_ = parts_.prefetches.FindFarRows();
  if (!reduces_ && !plan_.tiles.some && plan_.lanes > 1) lines_ahead_ = parts_.prefetches.FindLinesAhead();
  LoopContext ctx = words_.Outermost();
  ctx.lanes = plan_.lanes;
  if (!plan_.folds.possible) return ByColumns(ctx);
  auto by_columns = [&]() -> Value* {
    ByColumns(ctx);
    return nullptr;
  };
  auto folded = [&]() -> Value* {
    Folded(ctx);
    return nullptr;
  };
  fn_.IfElse(b_.CreateNot(folds_.Folds()), by_columns, folded);
}

void ColumnEmitter::ByColumns(const LoopContext& ctx) {
  // If columns are the only parallel dim, tiles are columns.
  if (s_.parallel_rank == 1) return Row(ctx, fn_.begin(), fn_.end());
  Value* lo = b_.getInt64(0);
  Value* hi = words_.size(plan_.loop_dim);
  fn_.If(b_.CreateICmpSGT(hi, lo), [&] {
    if (plan_.tiles.some) {
      TileEmitter(fn_, plan_, words_)
          .EmitTiles(
              ctx, [&](const LoopContext& row, Value* from, Value* to) { Row(row, from, to); },
              [&](const LoopContext& row, Value* at, int n) { PastCache(row, at, n); });
      return;
    }
    parts_.nests.ForTiles(
        ctx, fn_.end(), [&](const LoopContext& row, Value*) { Row(row, lo, hi); },
        [&](const LoopContext& rows) { BeginTiles(rows); });
  });
}

void ColumnEmitter::Folded(const LoopContext& ctx) {
  if (s_.parallel_rank == 1) {
    // One vector holds all columns: all work belongs to the first one.
    fn_.If(b_.CreateICmpEQ(fn_.begin(), b_.getInt64(0)), [&] { folds_.EmitFolded(ctx); });
  } else {
    parts_.nests.ForTiles(ctx, fn_.end(), [&](const LoopContext& tile, Value*) { folds_.EmitFolded(tile); });
  }
}

void ColumnEmitter::BeginTiles(const LoopContext& ctx) {
  values_.Reset(1, known_);
  parts_.loops.Hoist(ctx, plan_.StillOverTiles(outer_), ready_);
  known_ = values_.First();
  ready_ = values_.TakeHoisted();
}

void ColumnEmitter::Row(const LoopContext& ctx, Value* lo, Value* hi) {
  if (!plan_.streams.possible) return Chunks(ctx, lo, hi);
  auto stream = [&]() -> Value* {
    streams_.StreamColumns(ctx, lo, hi);
    return nullptr;
  };
  auto chunks = [&]() -> Value* {
    Chunks(ctx, lo, hi);
    return nullptr;
  };
  fn_.IfElse(streams_.HasManyRows(), stream, chunks);
}

void ColumnEmitter::Chunks(const LoopContext& ctx, Value* lo, Value* hi) {
  parts_.prefetches.PrefetchFarRows(ctx, far_rows_);
  values_.Reset(copies_, known_);
  parts_.loops.Hoist(ctx, outer_, ready_);
  auto loop = [&] {
    parts_.loops.ChunkLoop(
        ctx, all_, {lo, hi, copies_, plan_.HasStores(all_)},
        [&](const LoopContext& inner, int n) {
          parts_.prefetches.PrefetchAhead(inner, lines_ahead_, all_, n);
          chunks_.EmitChunk(inner, n);
        },
        nullptr);
  };
  if (plan_.interior) {
    EmitInterior(ctx, lo, hi, loop);
  } else {
    loop();
  }
  values_.ClearHoisted();
}

void ColumnEmitter::PastCache(const LoopContext& ctx, Value* at, int n) {
  values_.Reset(n, known_);
  parts_.loops.Hoist(ctx, outer_, ready_);
  fn_.FenceAtEnd();
  LoopContext inner = parts_.loops.AtIndex(ctx, at);
  inner.pairs = plan_.CanPair(all_, n);
  inner.past_cache = b_.getTrue();
  chunks_.EmitChunk(inner, n);
  values_.ClearHoisted();
}

void ColumnEmitter::EmitInterior(const LoopContext& ctx, Value* lo, Value* hi, const std::function<void()>& otherwise) {
  auto max = [&](Value* a, Value* z) { return b_.CreateSelect(b_.CreateICmpSGT(a, z), a, z); };
  Value *first = lo, *end = hi;
  for (const InteriorBound& bound : plan_.interior->bounds) {
    bool known = values_.IsHoisted(bound.limit);
    Value* v = values_.Get(bound.limit, 0);
    for (auto [term, added] : bound.terms) known = known && values_.IsHoisted(term);
    if (!known) return otherwise();
    for (auto [term, added] : bound.terms) {
      v = added ? b_.CreateAdd(v, values_.Get(term, 0)) : b_.CreateSub(v, values_.Get(term, 0));
    }
    v = b_.CreateAdd(v, b_.getInt64(bound.add));
    if (bound.is_lower) {
      first = max(first, v);
    } else {
      end = fn_.Min(end, v);
    }
  }
  Value* difference = b_.CreateSub(hi, end);
  Value* edges = b_.CreateAdd(b_.CreateSub(first, lo), difference);
  Value* is_at_most = b_.CreateICmpSLE(edges, b_.getInt64(2 * plan_.lanes));
  Value* is_most = b_.CreateAnd(b_.CreateICmpSLT(first, end), is_at_most);
  auto parts = [&]() -> Value* {
    EmitAround(ctx, lo, first, end, hi);
    return nullptr;
  };
  auto rest = [&]() -> Value* {
    otherwise();
    return nullptr;
  };
  fn_.IfElse(is_most, parts, [&]() -> Value* {
    if (!plan_.interior->outside) return rest();
    Value* begin = fn_.Min(first, hi);
    Value* stop = max(fn_.Min(end, hi), begin);
    Value* is_little = b_.CreateICmpSLE(b_.CreateSub(stop, begin), b_.getInt64(2 * plan_.lanes));
    auto beside = [&]() -> Value* {
      EmitBeside(ctx, lo, begin, stop, hi);
      return nullptr;
    };
    return fn_.IfElse(is_little, beside, rest);
  });
}

void ColumnEmitter::EmitAround(const LoopContext& ctx, Value* lo, Value* first, Value* end, Value* hi) {
  OneByOne(ctx, lo, first);
  InVectors(ctx, plan_.OfInterior(), first, end);
  OneByOne(ctx, end, hi);
}

void ColumnEmitter::EmitBeside(const LoopContext& ctx, Value* lo, Value* first, Value* end, Value* hi) {
  OneByOne(ctx, first, end);
  const Schedule outside = plan_.OfOutside();
  fn_.For(b_.getInt64(0), b_.getInt64(2), b_.getInt64(1), [&](Value* part) {
    Value* is_first = b_.CreateIsNull(part);
    Value* from = b_.CreateSelect(is_first, lo, end);
    Value* to = b_.CreateSelect(is_first, first, hi);
    InVectors(ctx, outside, from, to);
  });
}

void ColumnEmitter::OneByOne(const LoopContext& ctx, Value* from, Value* to) {
  LoopContext single = ctx;
  single.lanes = 1;
  parts_.loops.ChunkLoop(
      single, all_, {from, to, 1, /*stores=*/false},
      [&](const LoopContext& inner, int n) { chunks_.EmitChunk(inner, n); }, nullptr);
}

void ColumnEmitter::InVectors(const LoopContext& ctx, const Schedule& part, Value* from, Value* to) {
  LoopParts parts(fn_, part, words_, values_);
  ChunkEmitter chunks(part, parts);
  const std::vector<int>& instrs = part.spec.phases[0].instrs;
  parts.loops.ChunkLoop(
      ctx, instrs, {from, to, values_.copies(), /*stores=*/true},
      [&](const LoopContext& inner, int n) {
        parts.prefetches.PrefetchAhead(inner, lines_ahead_, instrs, n);
        chunks.EmitChunk(inner, n);
      },
      nullptr);
}

}  // namespace smelt
