// The phases of a row, if rows are vectorized: outer phases are scalar code, and the loop of an inner phase is emitted in
// separate parts, which may be in different blocks.
//
//   const RowLoop loop = row_loops.PlanLoop(phase);
//   row_loops.Start(ctx, loop);                     // makes the accumulators
//   row_loops.Run(ctx, loop, ahead, lo, hi, flush); // once or more often, for all elements of the row in order
//   row_loops.Finish(ctx, loop);                    // sets the values of its reductions
//
// Invariant: outside of Run there is one copy of the values, those of the row's outer phases and finished reductions.
#ifndef SMELT_CODEGEN_EMIT_ROW_LOOPS_H_
#define SMELT_CODEGEN_EMIT_ROW_LOOPS_H_

#include <functional>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

struct RowLoop {
  const KernelPhase* phase = nullptr;
  int copies = 1;
  bool prefetches = false;  // later rows
};

// The distance of the row to prefetch (null: the next), and whether later rows are prefetched (null: always).
struct RowsAhead {
  llvm::Value *rows = nullptr, *asks = nullptr;
};

class RowLoopEmitter {
  using Value = llvm::Value;

 public:
  RowLoopEmitter(KernelFunction& fn, const Schedule& plan, const RowPlan& rows, const LaunchWords& words,
                 Values& values, LoopParts& parts)
      : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec), rows_(rows), words_(words), values_(values), parts_(parts) {}

  // Emits the phases [from, to).
  void EmitPhases(const LoopContext& ctx, const RowsAhead& ahead, size_t from, size_t to);

  RowLoop PlanLoop(const KernelPhase& phase) const;
  void Start(const LoopContext& ctx, const RowLoop& loop);
  void Run(const LoopContext& ctx, const RowLoop& loop, const RowsAhead& ahead, Value* lo, Value* hi,
           const std::function<void()>& flush = nullptr);
  void Flush(const LoopContext& ctx, const RowLoop& loop);  // its sums
  void Finish(const LoopContext& ctx, const RowLoop& loop);
  // Returns the number of elements before the first non-temporal store.
  Value* HeadOf(const LoopContext& ctx, const RowLoop& loop);

 private:
  LoopContext InVectors(const LoopContext& ctx) const;
  void EmitPhase(const LoopContext& ctx, const RowsAhead& ahead, const KernelPhase& phase);
  // Emits the loop of phase `k`, whose sums are not needed if `known` is true.
  void EmitPhaseUnless(const LoopContext& ctx, const RowsAhead& ahead, size_t k, Value* known);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const RowPlan& rows_;
  const LaunchWords& words_;
  Values& values_;
  LoopParts& parts_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_ROW_LOOPS_H_
