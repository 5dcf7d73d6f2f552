// Reductions over rows of columns that fill less than half a vector. The rows follow each other in memory, and a vector
// takes several of them: each of its lanes is a part of a column's result, and the parts are put together when a phase
// ends.
//
// Invariant: which kernels are folded is decided by sizes alone, so that results do not depend on which tiles are
// computed together.
#ifndef SMELT_CODEGEN_EMIT_FOLDS_H_
#define SMELT_CODEGEN_EMIT_FOLDS_H_

#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/lane_folds.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/loop_parts.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

class FoldEmitter {
  using Value = llvm::Value;

 public:
  FoldEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values, LoopParts& parts)
      : fn_(fn),
        b_(fn.b()),
        plan_(plan),
        s_(plan.spec),
        words_(words),
        values_(values),
        parts_(parts),
        lane_folds_(fn, plan, words) {}

  // Computes whether there are few columns, and many rows without gaps.
  Value* Folds();
  // Emits all phases of all columns.
  void EmitFolded(const LoopContext& ctx);

 private:
  // Emits `instrs` for one vector of all columns.
  void OnColumns(const LoopContext& ctx, const std::vector<int>& instrs);
  void FoldPhase(const LoopContext& ctx, const std::vector<int>& instrs);
  // Sets the values that `rows` take from outside of the rows, for the lanes of several rows.
  void SpreadOperands(const std::vector<int>& rows);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  const LaunchWords& words_;
  Values& values_;
  LoopParts& parts_;
  LaneFolds lane_folds_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_FOLDS_H_
