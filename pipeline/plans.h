// All plans of a bundle: for distinct arguments, for other alias patterns, for sizes of 1, and in eager order.
#ifndef SMELT_PIPELINE_PLANS_H_
#define SMELT_PIPELINE_PLANS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/compile_options.h"
#include "smelt/pipeline/phase_timer.h"

namespace smelt {

struct Planned {
  std::unique_ptr<Graph> pure;       // the graph of the plan for distinct arguments
  std::vector<int> main_uses;        // the number of launches of each kernel in that plan
  std::vector<std::string> refused;  // the reasons why calls with other alias patterns are refused
  // User arguments whose dims of one element must have the exported strides, and those that may have any strides.
  std::vector<int> strides_of_ones, any_strides;
};

// Adds every plan to the builder, which then knows all kernels. Unimplemented: the program has neither a pure form nor
// one in eager order.
absl::StatusOr<Planned> BuildPlans(const Graph& graph, const CompileOptions& options, BundleBuilder& builder,
                                   CompileStats& stats, PhaseTimer& timer);

}  // namespace smelt

#endif  // SMELT_PIPELINE_PLANS_H_
