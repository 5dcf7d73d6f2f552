#include "smelt/codegen/emit_folds.h"

#include <algorithm>
#include <functional>

namespace smelt {

using llvm::Value;

namespace {

// Vectors of rows from which on it is worth it to put parts together: of cheap instructions and of dearer ones.
constexpr int64_t kManyVectors = 8, kFewVectors = 4;
constexpr int kCheap = 12;
// Vectors at a time: more take LLVM longer than the machine.
constexpr int kCopies = 2;

}  // namespace

Value* FoldEmitter::Folds() {
  const int rows = s_.rank() - 1;
  Value* columns = words_.size(plan_.loop_dim);
  auto both = [&](Value* a, Value* z) { return b_.CreateAnd(a, z); };
  Value* all = b_.CreateICmpSLE(columns, b_.getInt64(plan_.lanes / 2));
  std::vector<int> inner;
  for (const KernelPhase& phase : s_.phases) {
    if (phase.inner) inner.insert(inner.end(), phase.instrs.begin(), phase.instrs.end());
  }
  const int64_t vectors = plan_.CostOf(inner).all <= kCheap ? kManyVectors : kFewVectors;
  all = both(all, b_.CreateICmpSGE(b_.CreateMul(columns, words_.size(rows)), b_.getInt64(vectors * plan_.lanes)));
  for (size_t p = 0; p < s_.params.size(); ++p) {
    if (s_.params[p].strides[rows] == StrideClass::kZero) continue;
    Value* row = b_.CreateMul(columns, b_.getInt64(ItemSize(s_.params[p].dtype)));
    all = both(all, b_.CreateICmpEQ(words_.stride(p, rows), row));
  }
  return all;
}

void FoldEmitter::EmitFolded(const LoopContext& ctx) {
  values_.Reset(1, values_.None());
  for (const KernelPhase& phase : s_.phases) {
    if (phase.inner) {
      FoldPhase(ctx, phase.instrs);
    } else {
      OnColumns(ctx, phase.instrs);
    }
  }
}

void FoldEmitter::OnColumns(const LoopContext& ctx, const std::vector<int>& instrs) {
  parts_.loops.MaskedVector(ctx, b_.getInt64(0), words_.size(plan_.loop_dim),
                            [&](const LoopContext& inner) { parts_.instrs.EmitInstrs(inner, instrs, 1); });
}

void FoldEmitter::SpreadOperands(const std::vector<int>& rows) {
  std::vector<bool> spread(s_.instrs.size(), false);
  for (int i : rows) {
    for (int o : s_.instrs[i].operands) {
      const bool in_rows = plan_.folds.in_rows[o] && plan_.phase_of[o] == plan_.phase_of[i];
      Value* v = in_rows ? nullptr : values_.Get(o, 0);
      if (!v || spread[o] || !v->getType()->isVectorTy()) continue;
      values_.SetAll(o, lane_folds_.Spread(v));
      spread[o] = true;
    }
  }
}

void FoldEmitter::FoldPhase(const LoopContext& ctx, const std::vector<int>& instrs) {
  const std::vector<Value*> known = values_.First();
  std::vector<int> once, rows;
  for (int i : instrs) (plan_.folds.in_rows[i] ? rows : once).push_back(i);
  LoopContext folded = ctx;
  folded.folds = true;
  const int copies = std::min(kCopies, plan_.Copies(rows, /*reduces=*/true));
  parts_.reductions.StartReductions(folded, rows, copies);
  std::function<void()> flush;
  if (plan_.HasSums(rows)) flush = [&] { parts_.reductions.FlushSums(folded, rows, copies); };
  Value* n = b_.CreateMul(words_.size(plan_.loop_dim), words_.size(s_.rank() - 1));
  auto body = [&](const LoopContext& inner, int k) { parts_.instrs.EmitInstrs(inner, rows, k); };
  auto whole = [&](const LoopContext& matrix) -> Value* {
    parts_.loops.ChunkLoop(matrix, rows, {b_.getInt64(0), n, copies, plan_.HasStores(rows)}, body, flush);
    return nullptr;
  };
  auto part = [&](const LoopContext& matrix) -> Value* {
    Value* taken = lane_folds_.FoldedLanes();
    auto run = [&](Value* from, Value* to) {
      fn_.For(from, to, taken, [&](Value* i) {
        parts_.loops.MaskedVector(matrix, i, fn_.Min(b_.CreateSub(to, i), taken),
                                  [&](const LoopContext& inner) { body(inner, 1); });
      });
    };
    parts_.nests.InBlocks(b_.getInt64(0), n, b_.CreateMul(taken, b_.getInt64(kSumBlock)), run, flush);
    return nullptr;
  };
  parts_.nests.Nest(
      folded, s_.parallel_rank, s_.rank() - 1,
      [&](const LoopContext& matrix) {
        values_.Reset(1, known);
        OnColumns(matrix, once);
        values_.Reset(copies, values_.First());
        SpreadOperands(rows);
        Value* fills = b_.CreateICmpEQ(lane_folds_.FoldedLanes(), b_.getInt64(plan_.lanes));
        fn_.IfElse(fills, [&] { return whole(matrix); }, [&] { return part(matrix); });
      },
      flush);
  values_.Reset(copies, known);
  parts_.reductions.FinishReductions(folded, rows, copies);
  values_.Reset(1, values_.First());
}

}  // namespace smelt
