// The kernels of a plan's nodes, lowered for the layouts in which operands and results lie by now, and what a kernel
// reads before it writes.
#ifndef SMELT_CODEGEN_PLAN_LOWERING_H_
#define SMELT_CODEGEN_PLAN_LOWERING_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/codegen/plan_lives.h"
#include "smelt/codegen/plan_slots.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

class PlanLowering {
 public:
  // All must outlive it.
  PlanLowering(const Graph& g, const BundleBuilder::PlanOptions& options, const Lives& lives, PlanSlots& slots)
      : g_(g), options_(options), lives_(lives), slots_(slots) {}

  absl::StatusOr<LoweredKernel> Lower(NodeId n);

  // Returns whether node `n` reads `source` only at the index at which it writes `target`.
  bool ReadsSameIndexOnly(NodeId n, ValueId source, ValueId target);
  // Returns whether param `read` reads, in the memory that param `write` writes, only the element at the same index, or
  // nothing.
  bool ReadsSameIndex(const LoweredKernel& k, size_t read, size_t write) const;
  // Returns whether a row reads an element of param `read` for the last time before it writes that of param `write` at
  // the same index. (No other row accesses the elements that a row reads and writes at equal indices.)
  static bool ReadsFirst(const KernelSpec& spec, size_t read, size_t write);
  // Returns the params with guarded or indirect accesses, whose affine view is not what they access.
  static std::vector<bool> IrregularParams(const KernelSpec& spec);

 private:
  const Graph& g_;
  const BundleBuilder::PlanOptions& options_;
  const Lives& lives_;
  PlanSlots& slots_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_LOWERING_H_
