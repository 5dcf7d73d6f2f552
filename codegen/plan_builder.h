// The plan of one pure, grouped graph: the order of work, control flow, assertions.
//
//   SMELT_ASSIGN_OR_RETURN(PlanStats stats, PlanBuilder(tables, graph, convention, options).Build());
//
// Each part of a plan has a class of its own, which stands on those before it:
//
//   plan_steps.h          where the next step goes
//   plan_regions.h        which memory a value shows or rewrites, by the graph alone
//   plan_slots.h          slots, and where each value lies
//   plan_copies.h         copies, also of several at once
//   plan_lowering.h       the kernel of a node
//   plan_destinations.h   which values are made right where the caller will look for them
//   plan_numbers.h        registers, conditions
//   plan_kernels.h        launches, library calls, random draws
//   plan_epilogue.h       the end of a call, the convention
#ifndef SMELT_CODEGEN_PLAN_BUILDER_H_
#define SMELT_CODEGEN_PLAN_BUILDER_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_copies.h"
#include "smelt/codegen/plan_destinations.h"
#include "smelt/codegen/plan_kernels.h"
#include "smelt/codegen/plan_lives.h"
#include "smelt/codegen/plan_lowering.h"
#include "smelt/codegen/plan_numbers.h"
#include "smelt/codegen/plan_regions.h"
#include "smelt/codegen/plan_slots.h"
#include "smelt/codegen/plan_steps.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanBuilder {
 public:
  PlanBuilder(BundleTables& b, const Graph& g, const Convention& c, const BundleBuilder::PlanOptions& options);
  PlanBuilder(const PlanBuilder&) = delete;
  PlanBuilder& operator=(const PlanBuilder&) = delete;

  // Appends the plan to the tables'.
  absl::StatusOr<PlanStats> Build();

 private:
  absl::Status EmitBlock(BlockId b);
  absl::Status EmitNode(NodeId n);
  absl::Status EmitAssert(NodeId n);
  // Adds the check of a smelt::assert_ node: before anything is done, or after the data that it depends on has been
  // read.
  absl::Status AddAssertion(NodeId n);

  // ---- control flow ----

  absl::Status EmitIf(NodeId n);
  // Returns the location of `v` if it is memory of arguments that is rewritten in place.
  std::optional<PlanLocation> RewrittenArgument(ValueId v) const;
  // Chooses for each value that a loop carries one place for all iterations. Their initial values are the node's inputs
  // from `first_input` on; `first` counts them among the parameters and among the results of the body.
  absl::StatusOr<std::vector<PlanLocation>> PlaceCarried(NodeId n, int first_input, int first);
  absl::Status EmitLoop(NodeId n);
  // Returns whether a loop may carry a value in the place of its initial contents: they are not needed afterwards.
  bool EndsInLoop(NodeId n, ValueId initial, const PlanLocation& at, ValueId carried,
                  const std::vector<PlanLocation>& places);
  // Returns whether the loop's body may compute the next carried value, the first of `chain` (PlanRegions::ChainOf), in
  // the place of the last one: that is not needed by then, or the kernel reads it only at the index that it writes.
  bool ReplacesCarried(BlockId body, ValueId param, const std::vector<ValueId>& chain, const PlanLocation& place);

  BundleTables& b_;
  const Graph& g_;
  const Convention& c_;
  const BundleBuilder::PlanOptions& options_;
  std::unique_ptr<fb::PlanT> plan_;
  Lives lives_;
  PlanRegions regions_;
  PlanSteps steps_;
  PlanSlots slots_;
  PlanCopies copies_;
  PlanLowering lowering_;
  PlanDestinations::Parts parts_;
  PlanDestinations destinations_;
  PlanNumbers numbers_;
  PlanKernels kernels_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_BUILDER_H_
