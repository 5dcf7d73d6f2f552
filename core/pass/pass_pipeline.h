// Passes in order, and the runner that takes a graph through them.
//
//   PassPipeline pipeline;
//   pipeline.Add(ExpandCompositesPass());   // each operator becomes kernels and library calls
//   pipeline.Add(MergeMatmulsPass());       // before groups form: a group would hide the matmul's operands
//   PassRunOptions options;
//   options.after_pass = [](const Pass& pass, const Graph& g, const PassRecord&) { return Dump(pass.name, g); };
//   PassContext context;
//   SMELT_RETURN_IF_ERROR(pipeline.Run(graph, context, options));
#ifndef SMELT_CORE_PASS_PASS_PIPELINE_H_
#define SMELT_CORE_PASS_PASS_PIPELINE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// The effect of one pass on the graph.
struct PassRecord {
  std::string name;
  double milliseconds = 0;
  bool changed = false;
};

struct PassRunOptions {
  // Optional passes that are left out, by name. Naming a pass that is not optional is InvalidArgument.
  absl::flat_hash_set<std::string> disabled;
  // Called after each pass that ran, for dumps and verification. An error ends the run.
  std::function<absl::Status(const Pass& pass, const Graph& graph, const PassRecord& record)> after_pass;
};

class PassPipeline {
 public:
  // Appends a pass. Its prerequisites, if they are in the pipeline, must come before it: otherwise a check fails.
  void Add(Pass pass);
  // Appends all passes of another pipeline.
  void Append(PassPipeline other);

  const std::vector<Pass>& passes() const& { return passes_; }
  const std::vector<Pass>& passes() && = delete;  // would outlive the pipeline in a range-based for
  // Returns the pass of this name, or null.
  const Pass* Find(absl::string_view name) const;

  // Returns all prerequisites of `name`, in the order of the pipeline, and the pass itself at the end. Empty if there
  // is no such pass.
  std::vector<const Pass*> WithPrerequisites(absl::string_view name) const;

  // Runs the passes in order. The first error ends the run; FailedPass returns the pass that it comes from. Records are
  // appended to `records` if it is not null.
  absl::Status Run(Graph& graph, PassContext& context, const PassRunOptions& options = {},
                   std::vector<PassRecord>* records = nullptr) const;

 private:
  std::vector<Pass> passes_;
};

// Runs one pass as the pipeline does.
absl::Status RunPass(const Pass& pass, Graph& graph, PassContext& context, const PassRunOptions& options = {},
                     std::vector<PassRecord>* records = nullptr);

// Returns the name of the pass that an error of the runner comes from; "" for other errors. Messages do not name the
// pass, since users of a model read them.
std::string FailedPass(const absl::Status& error);

}  // namespace smelt

#endif  // SMELT_CORE_PASS_PASS_PIPELINE_H_
