// The last step of a compilation: kernels become machine code, and a bundle becomes a file.
#ifndef SMELT_PIPELINE_WRITE_BUNDLE_H_
#define SMELT_PIPELINE_WRITE_BUNDLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/compile_options.h"
#include "smelt/pipeline/phase_timer.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// Compiles the builder's kernels for all targets of the options, each once, and writes `bundle` with their code and
// with the contents of the graph's weights to `path`, as a whole or not at all. `main_uses` are the numbers of launches
// of each kernel in the plan for distinct arguments.
absl::Status WriteBundle(fb::BundleT bundle, const Graph& graph, const BundleBuilder& builder,
                         const std::vector<int>& main_uses, const std::string& path, const CompileOptions& options,
                         CompileStats& stats, PhaseTimer& timer);

}  // namespace smelt

#endif  // SMELT_PIPELINE_WRITE_BUNDLE_H_
