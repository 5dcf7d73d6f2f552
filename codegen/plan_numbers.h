// The numbers of a plan that are known only when it runs: registers, which steps fill with sizes, arguments, elements
// of tensors, functions of numbers and conditions.
//
// Invariant: a value has at most one register, and the step that fills it comes before each step that reads it.
#ifndef SMELT_CODEGEN_PLAN_NUMBERS_H_
#define SMELT_CODEGEN_PLAN_NUMBERS_H_

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_slots.h"
#include "smelt/codegen/plan_steps.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanNumbers {
 public:
  // All must outlive it.
  PlanNumbers(BundleTables& b, const Graph& g, PlanSteps& steps, PlanSlots& slots)
      : b_(b), g_(g), steps_(steps), slots_(slots) {}

  bool Has(ValueId v) const { return registers_.contains(v); }
  // Returns the register of a value that has one, or null.
  const int* Find(ValueId v) const;

  // Emits the step that reads a tensor's one element.
  absl::Status Read(NodeId n);
  // Returns the function that computes a float from numbers, if the node is one.
  std::optional<fb::NumberFunction> FunctionOf(NodeId n) const;
  absl::Status Compute(NodeId n, fb::NumberFunction function);
  bool MayRefuse(NodeId n, fb::NumberFunction function) const;
  // Emits, before anything is written, the numbers that need only sizes, arguments and constants.
  absl::Status ComputeThoseOfSizes();
  // Returns the register that holds the number: a step is made if it is a size, an argument or a constant.
  absl::StatusOr<int> RegisterOf(ValueId number);

  // Returns the register that holds a boolean; the one element of a tensor is read first.
  absl::StatusOr<int> Predicate(ValueId v, NodeId source);
  // Returns whether it is a comparison of integers, or a combination of these.
  bool IsCondition(NodeId n) const;
  // For a condition on integers, returns whether it depends on one that a step has read.
  bool DependsOnData(ValueId v) const;

 private:
  // Returns the expression of a condition, which is 0 or 1.
  absl::StatusOr<int> ConditionExpr(ValueId v);

  BundleTables& b_;
  const Graph& g_;
  PlanSteps& steps_;
  PlanSlots& slots_;
  absl::flat_hash_map<ValueId, int> registers_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_NUMBERS_H_
