#include "smelt/codegen/emit_rows.h"

#include <vector>

#include "smelt/codegen/emit_row_loops.h"
#include "smelt/codegen/emit_turns.h"
#include "smelt/codegen/loop_parts.h"

namespace smelt {

using llvm::AllocaInst;
using llvm::Value;

namespace {

// The distance at which the following rows are prefetched. A Zen 3 was measured for machines without AVX-512, a Zen 4
// for those with it.
constexpr int64_t kBytesAhead = 4 << 10, kBytesAheadOfAvx2 = 8 << 10;

}  // namespace

void EmitRows(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values) {
  llvm::IRBuilder<>& b = fn.b();
  const KernelSpec& spec = plan.spec;
  const RowPlan rows = plan.PlanRows();
  RowsAhead ahead;
  if (rows.bytes_read > 0 && !rows.prefetches_late) {
    Value* bytes = b.CreateMul(words.size(plan.loop_dim), b.getInt64(rows.bytes_read));
    bytes = b.CreateSelect(b.CreateICmpSGT(bytes, b.getInt64(0)), bytes, b.getInt64(1));
    const int64_t distance = plan.features.IsAvx2Only() ? kBytesAheadOfAvx2 : kBytesAhead;
    ahead.rows = b.CreateAdd(b.getInt64(1), b.CreateUDiv(b.getInt64(distance), bytes));
  }
  Value* fits = nullptr;
  std::vector<AllocaInst*> scratch(spec.params.size(), nullptr);
  for (size_t p = 0; p < scratch.size(); ++p) {
    if (!plan.has_scratch[p]) continue;
    llvm::Type* element = fn.MemType(spec.params[p].dtype);
    scratch[p] = fn.Temporary(llvm::ArrayType::get(element, (rows.in_turns ? 2 : 1) * kScratchElements));
    fits = b.CreateICmpSLE(words.size(plan.loop_dim), b.getInt64(kScratchElements));
  }
  // Starts a row without values; adjacent rows have different buffers if they are in turns.
  auto start = [&](const LoopContext& ctx, Value* tile) {
    LoopContext row = ctx;
    for (size_t p = 0; p < scratch.size(); ++p) {
      if (!scratch[p]) continue;
      Value* place = scratch[p];
      if (rows.in_turns) {
        Value* half = b.CreateMul(b.CreateAnd(tile, b.getInt64(1)), b.getInt64(kScratchElements));
        place = b.CreateGEP(fn.MemType(spec.params[p].dtype), place, half);
      }
      row.scratch[p] = b.CreateSelect(fits, place, row.addr[p]);
    }
    values.Reset(1, values.None());
    return row;
  };
  LoopParts parts(fn, plan, words, values);
  if (rows.in_turns) return TurnEmitter(fn, plan, rows, words, values, parts).Emit(words.Outermost(), ahead, start);
  RowLoopEmitter row_loops(fn, plan, rows, words, values, parts);
  parts.nests.ForTiles(words.Outermost(), fn.end(), [&](const LoopContext& ctx, Value* tile) {
    row_loops.EmitPhases(start(ctx, tile), ahead, 0, spec.phases.size());
  });
}

}  // namespace smelt
