// The copies of a plan: of one location to another, and of several at once.
//
// Invariant: after CopyAtOnce each target holds what its source held before, whichever of them share slots.
#ifndef SMELT_CODEGEN_PLAN_COPIES_H_
#define SMELT_CODEGEN_PLAN_COPIES_H_

#include <vector>

#include "smelt/codegen/plan_slots.h"
#include "smelt/codegen/plan_steps.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct LocatedCopy {
  PlanLocation from, to;
};

class PlanCopies {
 public:
  // Both must outlive it.
  PlanCopies(PlanSlots& slots, PlanSteps& steps) : slots_(slots), steps_(steps) {}

  void Copy(const PlanLocation& from, const PlanLocation& to, bool copy_back = false, NodeId source = NodeId());
  // Emits copies that happen at once: a source that another copy overwrites is copied first, or is saved if each waits
  // for the other.
  void CopyAtOnce(const std::vector<LocatedCopy>& copies, bool copy_back);
  // Copies the contents of `from`, until the end of the node that is being emitted.
  PlanLocation Save(const PlanLocation& from);

 private:
  PlanSlots& slots_;
  PlanSteps& steps_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_COPIES_H_
