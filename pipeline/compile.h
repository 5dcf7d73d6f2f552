// The passes in order, from an imported graph to a bundle file.
//
//   SMELT_ASSIGN_OR_RETURN(Pt2Model model, ReadPt2("model.pt2"));
//   CompileOptions options;
//   SMELT_ASSIGN_OR_RETURN(CompileStats stats, CompileToFile(*model.graph, "model.smb", options));
//
// The bundle is written whole or not at all. The same graph and options give the same bytes, whatever the number of
// threads, the cache and the machine. Errors: Unimplemented lists every unsupported operator with its count and source
// lines; Internal is a bug.
#ifndef SMELT_PIPELINE_COMPILE_H_
#define SMELT_PIPELINE_COMPILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/codegen/target.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Which alias patterns besides distinct arguments are compiled ahead.
enum class AliasVariants {
  kAuto,  // duplicates and overlapping arguments, where the model writes to an argument
  kNone,  // such calls are refused
  kAll,   // always
};

// What a program goes through, in order; the last three only where it is fused.
inline constexpr absl::string_view kPassNames[] = {"open-composites", "functionalize", "expand-composites", "fuse",
                                                   "choose-layouts",  "lay-rows"};

struct CompileOptions {
  std::vector<Target> targets = {Target::kX86_64_V3, Target::kX86_64_V4};
  AliasVariants variants = AliasVariants::kAuto;
  bool fuse = true;
  // Runs the graph through the evaluator before and after each pass, on random arguments; an Internal error names the
  // pass that changed the meaning.
  bool verify = false;
  int threads = 0;               // of kernel compilation; 0: one a core
  KernelCache* cache = nullptr;  // null: one for this call, in memory
  // Told of each phase as it ends.
  std::function<void(absl::string_view phase, double milliseconds)> on_phase;
  // Told the graph after each of kPassNames that the program goes through.
  std::function<void(absl::string_view pass, const Graph&)> on_pass;
};

struct CompileStats {
  int64_t nodes = 0;              // as imported, constants not counted
  int64_t mutations_removed = 0;  // in the plan for distinct arguments, as are the next three
  int64_t fusion_groups = 0;      // places where a generated kernel is launched
  int64_t distinct_kernels = 0;
  int64_t library_calls = 0;
  int64_t kernels_compiled = 0;  // over all plans and targets
  int64_t kernels_from_cache = 0;
  int64_t bundle_bytes = 0;
  std::vector<std::pair<std::string, double>> phase_ms;  // in order
  std::string eager_order;  // why the program runs in eager order, operator by operator; empty if it is compiled
  // Plans for other calls than the export's that could not be made, and why. What they were for runs in eager order.
  std::vector<std::string> uncompiled_variants;
  std::vector<std::string> notes;  // what was left out, and why: a sentence each
};

absl::StatusOr<CompileStats> CompileToFile(const Graph& graph, const std::string& path, const CompileOptions& options);

// The kernels that CompileToFile would ask the cache for, for each target, in that order; nothing is compiled.
absl::StatusOr<std::vector<KernelSpec>> PlanKernels(const Graph& graph, const CompileOptions& options);

// Completes the types of a graph that was written as text, its lists resolved first. InvalidArgument names every input
// without a complete type. What can be answered before the program runs (functionalize/simplify_script.h) is, unless
// `simplify` is false: then the program stays as it was written.
absl::Status CompleteTypes(Graph& graph, bool simplify = true);

}  // namespace smelt

#endif  // SMELT_PIPELINE_COMPILE_H_
