#include "smelt/codegen/emit_loops.h"

#include <algorithm>
#include <utility>

#include "smelt/core/base/check.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::BasicBlock;
using llvm::Value;

LoopContext LoopEmitter::AtIndex(const LoopContext& ctx, Value* i) const {
  LoopContext inner = ctx;
  inner.chunk = i;
  inner.idx[plan_.loop_dim] = i;
  return inner;
}

void LoopEmitter::Hoist(const LoopContext& ctx, const std::vector<int>& instrs, const std::vector<bool>& ready) {
  std::vector<bool> done = ready;
  values_.ClearHoisted();
  LoopContext before = ctx;
  before.chunk = nullptr;
  before.lanes = 1;
  std::vector<bool> now(s_.instrs.size(), false);
  for (int i : instrs) {
    now[i] = ready[i];
    if (ready[i] || !plan_.CanHoist(i, done)) continue;
    if (ctx.row_copies > 0) {
      for (int u = 0; u < ctx.row_copies * ctx.row_vectors; ++u) values_.Set(i, u, instrs_.EmitInstr(before, i, u));
    } else {
      values_.SetAll(i, instrs_.EmitInstr(before, i, 0));
    }
    done[i] = now[i] = true;
  }
  values_.SetHoisted(std::move(now));
}

void LoopEmitter::MaskedVector(const LoopContext& ctx, Value* first, Value* count,
                               const std::function<void(const LoopContext&)>& body) {
  LoopContext inner = AtIndex(ctx, first);
  inner.count = count;
  inner.mask = fn_.MaskOf(count, ctx.lanes);
  body(inner);
}

void LoopEmitter::ChunkLoop(const LoopContext& ctx, const std::vector<int>& instrs, const ChunkRange& range,
                            const ChunkBody& body, const std::function<void()>& flush) {
  SMELT_CHECK(ctx.chunk == nullptr);
  if (ctx.lanes == 1) {
    auto all = [&](Value* from, Value* to) {
      fn_.For(from, to, b_.getInt64(1), [&](Value* i) { body(AtIndex(ctx, i), 1); });
    };
    return nests_.InBlocks(range.lo, range.hi, b_.getInt64(kSumBlock), all, flush);
  }
  if (!flush && plan_.HasOneBody(instrs, range.copies, ctx.lanes)) return OneBodyLoop(ctx, instrs, range, body);
  LoopContext inner = ctx;
  inner.pairs = ctx.row_copies == 0 && !ctx.folds && plan_.CanPair(instrs, range.copies);
  AllocaInst* at = fn_.Variable(b_.getInt64Ty());
  b_.CreateStore(range.lo, at);
  NonTemporalStart past_cache;
  if (range.stores) past_cache = NonTemporalHead(inner, instrs, range.lo);
  if (past_cache.use) {
    AlignedLoop(inner, range, at, past_cache, body, flush);
  } else {
    MainLoop(inner, range, at, body, flush);
    // Without cheap masks, the rest of a step runs vector by vector first. (No machine has masks for elements that are
    // not adjacent.)
    const bool by_vectors = range.copies > 1 && (!plan_.features.avx512 || plan_.HasStrides(instrs));
    RestLoop(inner, range, at, by_vectors, body);
  }
}

// Whole steps, as long as one fits.
void LoopEmitter::MainLoop(const LoopContext& ctx, const ChunkRange& range, AllocaInst* at, const ChunkBody& body,
                           const std::function<void()>& flush) {
  const int64_t step = static_cast<int64_t>(range.copies) * ctx.lanes;
  auto run = [&](Value* from, Value* to) {
    fn_.For(from, b_.CreateSub(to, b_.getInt64(step - 1)), b_.getInt64(step), [&](Value* i) {
      body(AtIndex(ctx, i), range.copies);
      b_.CreateStore(b_.CreateAdd(i, b_.getInt64(step)), at);
    });
  };
  if (!flush) return run(fn_.Load(at), range.hi);
  // Whole blocks of kSumBlock steps; the last may be short.
  Value* difference = b_.CreateSub(range.hi, b_.getInt64(step - 1));
  fn_.For(fn_.Load(at), difference, b_.getInt64(step * kSumBlock), [&](Value* i) {
    Value* end = b_.CreateAdd(i, b_.getInt64(step * kSumBlock));
    run(i, fn_.Min(range.hi, end));
    // The last block's sums are added at the end of the phase.
    fn_.If(b_.CreateICmpSLT(end, range.hi), flush);
  });
}

void LoopEmitter::MaskedPart(const LoopContext& ctx, AllocaInst* at, Value* count, const ChunkBody& body) {
  Value* i = fn_.Load(at);
  MaskedVector(ctx, i, count, [&](const LoopContext& inner) { body(inner, 1); });
  b_.CreateStore(b_.CreateAdd(i, count), at);
}

void LoopEmitter::RestLoop(const LoopContext& ctx, const ChunkRange& range, AllocaInst* at, bool by_vectors,
                           const ChunkBody& body) {
  Value* lanes = b_.getInt64(ctx.lanes);
  if (by_vectors) {
    Value* difference = b_.CreateSub(range.hi, b_.getInt64(ctx.lanes - 1));
    fn_.For(fn_.Load(at), difference, lanes, [&](Value* i) {
      body(AtIndex(ctx, i), 1);
      b_.CreateStore(b_.CreateAdd(i, lanes), at);
    });
  }
  BasicBlock* check = fn_.Block("rest");
  BasicBlock* part = fn_.Block("part");
  BasicBlock* done = fn_.Block("done");
  b_.CreateBr(check);
  b_.SetInsertPoint(check);
  Value* left = b_.CreateSub(range.hi, fn_.Load(at));
  b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), part, done);
  b_.SetInsertPoint(part);
  MaskedPart(ctx, at, fn_.Min(left, lanes), body);
  b_.CreateBr(check);
  b_.SetInsertPoint(done);
}

// A few elements run first, until stores are aligned; then the main loop; then the rest. One masked body serves both
// ends. The main loop's stores choose between the two kinds: two loops would take LLVM twice as long, and a branch that
// always goes one way costs nothing beside memory. Pairs of bfloat16 are different: they are bound by arithmetic.
void LoopEmitter::AlignedLoop(const LoopContext& ctx, const ChunkRange& range, AllocaInst* at,
                              const NonTemporalStart& past_cache, const ChunkBody& body,
                              const std::function<void()>& flush) {
  Value* lanes = b_.getInt64(ctx.lanes);
  const int64_t step = static_cast<int64_t>(range.copies) * ctx.lanes;
  fn_.FenceAtEnd();
  AllocaInst* skip = fn_.Variable(b_.getInt64Ty());
  b_.CreateStore(fn_.Min(past_cache.head, b_.CreateSub(range.hi, range.lo)), skip);
  BasicBlock* check = fn_.Block("check");
  BasicBlock* part = fn_.Block("part");
  BasicBlock* whole = fn_.Block("whole");
  BasicBlock* some = fn_.Block("some");
  BasicBlock* done = fn_.Block("done");
  b_.CreateBr(check);
  b_.SetInsertPoint(check);
  Value* left = b_.CreateSub(range.hi, fn_.Load(at));
  Value* first = fn_.Load(skip);
  Value* is_head = b_.CreateICmpSGT(first, b_.getInt64(0));
  Value* some_first = fn_.Min(first, lanes);
  BasicBlock* not_head = fn_.Block("aligned");
  llvm::PHINode* count = llvm::PHINode::Create(b_.getInt64Ty(), 2, "", part);
  count->addIncoming(some_first, check);
  b_.CreateCondBr(is_head, part, not_head);
  b_.SetInsertPoint(not_head);
  b_.CreateCondBr(b_.CreateICmpSGE(left, b_.getInt64(step)), whole, some);
  b_.SetInsertPoint(some);
  count->addIncoming(fn_.Min(left, lanes), some);
  b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), part, done);
  b_.SetInsertPoint(part);
  b_.CreateStore(b_.CreateSub(fn_.Load(skip), count), skip);
  MaskedPart(ctx, at, count, body);
  b_.CreateBr(check);
  b_.SetInsertPoint(whole);
  auto run = [&](Value* is_past_cache) -> Value* {
    LoopContext inner = ctx;
    inner.past_cache = is_past_cache;
    MainLoop(inner, range, at, body, flush);
    return nullptr;
  };
  if (ctx.pairs) {
    fn_.IfElse(past_cache.use, [&] { return run(b_.getTrue()); }, [&] { return run(nullptr); });
  } else {
    run(past_cache.use);
  }
  b_.CreateBr(check);
  b_.SetInsertPoint(done);
}

void LoopEmitter::OneBodyLoop(const LoopContext& ctx, const std::vector<int>& instrs, const ChunkRange& range,
                              const ChunkBody& body) {
  AllocaInst* at = fn_.Variable(b_.getInt64Ty());
  b_.CreateStore(range.lo, at);
  Value* lanes = b_.getInt64(ctx.lanes);
  NonTemporalStart past_cache;
  if (range.stores) past_cache = NonTemporalHead(ctx, instrs, range.lo);
  AllocaInst* skip = nullptr;  // of the elements before the first aligned place, those that are left
  if (past_cache.use) {
    fn_.FenceAtEnd();
    skip = fn_.Variable(b_.getInt64Ty());
    b_.CreateStore(past_cache.head, skip);
  }
  auto left = [&] { return b_.CreateSub(range.hi, fn_.Load(at)); };
  fn_.While([&] { return b_.CreateICmpSGT(left(), b_.getInt64(0)); },
            [&] {
              Value* i = fn_.Load(at);
              LoopContext inner = AtIndex(ctx, i);
              inner.count = fn_.Min(left(), lanes);
              if (skip) {
                Value* first = fn_.Load(skip);
                Value* is_head = b_.CreateICmpSGT(first, b_.getInt64(0));
                inner.count = b_.CreateSelect(is_head, fn_.Min(first, inner.count), inner.count);
                b_.CreateStore(b_.CreateSelect(is_head, b_.CreateSub(first, inner.count), first), skip);
                inner.past_cache = b_.CreateAnd(past_cache.use, b_.CreateNot(is_head));
              }
              inner.mask = fn_.MaskOf(inner.count, ctx.lanes);
              inner.whole = b_.CreateICmpEQ(inner.count, lanes);
              body(inner, 1);
              b_.CreateStore(b_.CreateAdd(i, inner.count), at);
            });
}

NonTemporalStart LoopEmitter::NonTemporalHead(const LoopContext& ctx, const std::vector<int>& instrs, Value* lo) {
  NonTemporalStart start;
  for (int p = 0; p < static_cast<int>(s_.params.size()); ++p) {
    Value* passes = words_.passes_cache(p);
    const bool here = passes && std::any_of(instrs.begin(), instrs.end(), [&](int i) {
                        const KernelInstr& in = s_.instrs[i];
                        return in.op == KernelOp::kStore && in.param == p && plan_.IsLastStore(in);
                      });
    if (!here) continue;
    const int item = ItemSize(s_.params[p].dtype);
    const int vector = ctx.lanes * item;
    const int64_t bytes = ctx.pairs ? 2 * vector : vector == 32 ? 64 : std::min(64, vector);
    Value* a = b_.CreatePtrToInt(b_.CreateGEP(fn_.MemType(s_.params[p].dtype), ctx.addr[p], lo), b_.getInt64Ty());
    Value* elements = b_.CreateUDiv(b_.CreateAnd(b_.CreateNeg(a), b_.getInt64(bytes - 1)), b_.getInt64(item));
    start.use = start.use ? b_.CreateAnd(start.use, passes) : passes;
    if (start.head) {
      start.use = b_.CreateAnd(start.use, b_.CreateICmpEQ(start.head, elements));
    } else {
      start.head = elements;
    }
  }
  if (start.use) start.head = b_.CreateSelect(start.use, start.head, b_.getInt64(0));
  return start;
}

}  // namespace smelt
