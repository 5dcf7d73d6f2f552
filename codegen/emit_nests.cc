#include "smelt/codegen/emit_nests.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Value;

// The innermost of the dims has a loop of its own: values that do not depend on it are not computed again for each of
// its tiles.
void NestEmitter::ForTiles(const LoopContext& ctx, Value* end,
                           const std::function<void(const LoopContext&, Value*)>& body,
                           const std::function<void(const LoopContext&)>& begin) {
  const int last = (plan_.columns ? s_.parallel_rank - 1 : s_.parallel_rank) - 1;
  if (last < 0) return fn_.For(fn_.begin(), end, b_.getInt64(1), [&](Value* tile) { body(ctx, tile); });
  std::vector<AllocaInst*> index(last + 1);
  Value* rest = fn_.begin();
  for (int d = last; d >= 0; --d) {
    index[d] = fn_.Variable(b_.getInt64Ty());
    b_.CreateStore(d ? b_.CreateURem(rest, words_.size(d)) : rest, index[d]);
    if (d) rest = b_.CreateUDiv(rest, words_.size(d));
  }
  AllocaInst* at = fn_.Variable(b_.getInt64Ty());
  b_.CreateStore(fn_.begin(), at);
  fn_.While([&] { return b_.CreateICmpSLT(fn_.Load(at), end); },
            [&] {
              LoopContext outer = ctx;
              for (int d = 0; d < last; ++d) words_.AddIndex(outer, d, fn_.Load(index[d]));
              if (begin) begin(outer);
              Value* tile = fn_.Load(at);
              Value* first = fn_.Load(index[last]);
              Value* tiles = b_.CreateSub(end, tile);
              if (last) tiles = fn_.Min(tiles, b_.CreateSub(words_.size(last), first));
              fn_.For(b_.getInt64(0), tiles, b_.getInt64(1), [&](Value* k) {
                LoopContext inner = outer;
                words_.AddIndex(inner, last, b_.CreateAdd(first, k));
                body(inner, b_.CreateAdd(tile, k));
              });
              b_.CreateStore(b_.CreateAdd(tile, tiles), at);
              b_.CreateStore(b_.getInt64(0), index[last]);
              Value* carry = b_.getInt64(1);
              for (int d = last - 1; d >= 0; --d) {
                Value* next = b_.CreateAdd(fn_.Load(index[d]), carry);
                Value* wraps = b_.CreateICmpSGE(next, words_.size(d));
                carry = b_.CreateZExt(wraps, b_.getInt64Ty());
                b_.CreateStore(b_.CreateSelect(wraps, b_.getInt64(0), next), index[d]);
              }
            });
}

void NestEmitter::Nest(const LoopContext& ctx, int from, int to, const std::function<void(const LoopContext&)>& body,
                       const std::function<void()>& flush) {
  if (from == to) return body(ctx);
  auto run = [&](Value* lo, Value* hi) {
    fn_.For(lo, hi, b_.getInt64(1), [&](Value* i) {
      LoopContext inner = ctx;
      words_.AddIndex(inner, from, i);
      Nest(inner, from + 1, to, body, flush);
    });
  };
  if (!flush || from + 1 != to) return run(b_.getInt64(0), words_.size(from));
  fn_.For(b_.getInt64(0), words_.size(from), b_.getInt64(kSumBlock), [&](Value* i) {
    run(i, fn_.Min(words_.size(from), b_.CreateAdd(i, b_.getInt64(kSumBlock))));
    flush();
  });
}

void NestEmitter::InBlocks(Value* lo, Value* hi, Value* block, const std::function<void(Value*, Value*)>& run,
                           const std::function<void()>& flush) {
  if (!flush) return run(lo, hi);
  fn_.For(lo, hi, block, [&](Value* i) {
    Value* end = b_.CreateAdd(i, block);
    run(i, fn_.Min(hi, end));
    // The last block's sums are added at the end of the phase.
    fn_.If(b_.CreateICmpSLT(end, hi), flush);
  });
}

}  // namespace smelt
