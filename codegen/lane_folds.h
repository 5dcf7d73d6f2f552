// Vectors whose lanes are parts of several rows of few columns, see emit_folds.h: lane k belongs to column k modulo the
// number of columns.
//
// Invariants: there are at least two rows in a vector, and the lanes that are left after whole rows are unused.
#ifndef SMELT_CODEGEN_LANE_FOLDS_H_
#define SMELT_CODEGEN_LANE_FOLDS_H_

#include <functional>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"

namespace smelt {

class LaneFolds {
  using Value = llvm::Value;

 public:
  LaneFolds(KernelFunction& fn, const Schedule& plan, const LaunchWords& words)
      : fn_(fn), b_(fn.b()), plan_(plan), words_(words) {}

  // Returns the number of lanes of the rows that a vector takes.
  Value* FoldedLanes();
  // Returns a vector of columns, repeated for each row.
  Value* Spread(Value* v);
  // Returns in the first lanes what `combine` makes of each and of those of the same column.
  Value* FoldLanes(Value* v, const std::function<Value*(Value*, Value*)>& combine);

 private:
  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const LaunchWords& words_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_LANE_FOLDS_H_
