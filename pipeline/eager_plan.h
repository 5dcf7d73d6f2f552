// Makes the eager-order plan of a model: the mutating graph itself, as a program that the runtime executes one operator
// at a time on the caller's tensors (schema/bundle.fbs, EagerProgram). It is correct for any sharing of memory among
// arguments, states and views, for any strides, and for control flow that cannot be made pure. It is slow.
//
//   SMELT_RETURN_IF_ERROR(AddEagerPlan(graph, written_args, written_states, /*fuse=*/true, builder));
//
// Each operator that computes becomes a call: a pure graph of one operator, compiled like any graph, for contiguous
// operands. Equal calls are compiled once; pointwise calls do not depend on sizes and rank. With `fuse`, a group of
// operators (eager_groups.h) becomes one call as well, which runs where no operand lies in memory that the group writes.
#ifndef SMELT_PIPELINE_EAGER_PLAN_H_
#define SMELT_PIPELINE_EAGER_PLAN_H_

#include <vector>

#include "absl/status/status.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// `graph` is the graph as imported, with the user arguments (by position) and weight storages that it may write.
// Unimplemented names the operator that has no such form, and its source line; the builder is then as before except for
// unused kernels.
absl::Status AddEagerPlan(const Graph& graph, const std::vector<int>& written_args,
                          const std::vector<int>& written_states, bool fuse, BundleBuilder& builder);

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_PLAN_H_
