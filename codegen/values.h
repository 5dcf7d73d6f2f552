// The values of a kernel's instructions at the present position: one per copy of a loop's body, a scalar if all lanes
// are equal, else a vector.
//
//   Values values(fn, spec.instrs.size());
//   values.Reset(copies, known);       // before a loop: each copy starts from the values that are known there
//   values.Set(i, u, v);               // instruction i in copy u
//   values.GetVector(ctx, i, u);       // in all lanes
//
// Invariants: there is at least one copy, and a value that is null has not been computed. An instruction is hoisted only
// between Hoist (emit_loops.h) and ClearHoisted; loops skip it, and its value is the same in all copies of a row.
#ifndef SMELT_CODEGEN_VALUES_H_
#define SMELT_CODEGEN_VALUES_H_

#include <utility>
#include <vector>

#include "smelt/codegen/kernel_function.h"
#include "smelt/codegen/loop_context.h"

namespace smelt {

class Values {
  using Value = llvm::Value;

 public:
  Values(KernelFunction& fn, size_t instrs) : fn_(fn), copies_(1, std::vector<Value*>(instrs, nullptr)) {}
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  int copies() const { return static_cast<int>(copies_.size()); }
  std::vector<Value*> None() const { return std::vector<Value*>(copies_[0].size(), nullptr); }
  const std::vector<Value*>& First() const { return copies_[0]; }
  void Reset(int copies, std::vector<Value*> known);
  // Returns which instructions have a value.
  std::vector<bool> Ready() const;

  Value* Get(int i, int u) const { return copies_[u][i]; }
  Value* GetVector(const LoopContext& ctx, int i, int u) { return fn_.Splat(ctx.lanes, Get(i, u)); }
  void Set(int i, int u, Value* v) { copies_[u][i] = v; }
  void SetAll(int i, Value* v);

  bool IsHoisted(int i) const { return !hoisted_.empty() && hoisted_[i]; }
  void SetHoisted(std::vector<bool> hoisted) { hoisted_ = std::move(hoisted); }
  void ClearHoisted() { hoisted_.clear(); }
  std::vector<bool> TakeHoisted() { return std::exchange(hoisted_, {}); }

 private:
  KernelFunction& fn_;
  std::vector<std::vector<Value*>> copies_;
  std::vector<bool> hoisted_;  // empty: none
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_VALUES_H_
