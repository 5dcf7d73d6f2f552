// Reductions and scans: accumulators, how they combine, how sums stay accurate.
//
//   reductions.StartReductions(ctx, phase.instrs, copies);   // before the loop of an inner phase
//   reductions.Accumulate(ctx, i, u);                        // in its body
//   reductions.FlushSums(ctx, phase.instrs, copies);         // after every kSumBlock iterations
//   reductions.FinishReductions(ctx, phase.instrs, copies);  // after the loop: sets the results' values
//
// Invariants: between Start and Finish the accumulators of a phase are variables, so that loops may carry them; inactive
// lanes never change one. The lanes and copies of Start, Flush and Finish are the same.
#ifndef SMELT_CODEGEN_EMIT_REDUCTIONS_H_
#define SMELT_CODEGEN_EMIT_REDUCTIONS_H_

#include <functional>
#include <map>
#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/lane_folds.h"
#include "smelt/codegen/launch_words.h"
#include "smelt/codegen/schedule.h"
#include "smelt/codegen/values.h"

namespace smelt {

class ReductionEmitter {
  using AllocaInst = llvm::AllocaInst;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  struct State {
    // One per copy. `index`: of argmin and argmax. `wide` and `error`: of floating-point sums, the second level and, for
    // float64, the lost part; one for all copies if rows are vectorized.
    std::vector<AllocaInst*> acc, index, wide, error;
  };

  ReductionEmitter(KernelFunction& fn, const Schedule& plan, const LaunchWords& words, Values& values)
      : fn_(fn), b_(fn.b()), plan_(plan), s_(plan.spec), values_(values), lane_folds_(fn, plan, words) {}

  // Makes accumulators of the reductions and scans among `instrs`, `copies` of each.
  void StartReductions(const LoopContext& ctx, const std::vector<int>& instrs, int copies);
  void Accumulate(const LoopContext& ctx, int i, int u);
  // Accumulates all copies of a sum that belong to `ctx.row_copies` rows, an even number.
  void AccumulateRows(const LoopContext& ctx, int i);
  // Returns the running combination, this element included.
  Value* EmitScan(const LoopContext& ctx, int i, int u);
  // Adds the accumulators of floating-point sums to their second level.
  void FlushSums(const LoopContext& ctx, const std::vector<int>& instrs, int copies);
  // Computes the reductions' values, one per copy (columns) or one scalar (rows).
  void FinishReductions(const LoopContext& ctx, const std::vector<int>& instrs, int copies);

  // The variables of a reduction that has been started.
  const State& StateOf(int i) { return states_[i]; }

 private:
  Value* Identity(const KernelInstr& in, DType t, Type* type);
  int AccumulatorLanes(const LoopContext& ctx, const KernelInstr& in) const;
  Type* AccumulatorType(const LoopContext& ctx, const KernelInstr& in);
  // Returns a (op) v, on scalars or vectors. A maximum that may ignore NaN ignores it.
  Value* Combine(ReduceKind kind, DType t, Value* a, Value* v, bool ignores_nan = false);
  // Computes where (v, j) replaces (a, i) in an argmin or argmax.
  Value* ArgBetter(ReduceKind kind, DType t, Value* a, Value* i, Value* v, Value* j);
  Value* AddProduct(const LoopContext& ctx, int i, int u, Value* to);
  Value* EmitArgScan(const LoopContext& ctx, const KernelInstr& in, const State& state, Value* v, Value* j);
  void AddToSecondLevel(State& state, int u, Value* v);

  Value* Total(int i, int u);
  Value* Rounded(const KernelInstr& in, Value* v);
  // Return the index or value of all copies and lanes.
  Value* IndexOfAll(const LoopContext& ctx, int i, int copies);
  Value* ValueOfAll(const LoopContext& ctx, int i, int copies);
  Value* NoIndexIsZero(Value* index);
  Value* Tree(std::vector<Value*> parts, const std::function<Value*(Value*, Value*)>& combine);
  Value* HighHalf(Value* v, int lanes);
  Value* LowHalf(Value* v, int lanes);

  KernelFunction& fn_;
  llvm::IRBuilder<>& b_;
  const Schedule& plan_;
  const KernelSpec& s_;  // plan_.spec
  Values& values_;
  LaneFolds lane_folds_;
  std::map<int, State> states_;  // by instruction
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_REDUCTIONS_H_
