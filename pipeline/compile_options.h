// The options of a compilation, and its statistics and notes.
#ifndef SMELT_PIPELINE_COMPILE_OPTIONS_H_
#define SMELT_PIPELINE_COMPILE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/codegen/target.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/declare.h"

namespace smelt {

// The alias patterns besides distinct arguments for which plans are compiled.
enum class AliasVariants {
  kAuto,  // duplicates and overlapping arguments, where the model writes to an argument
  kNone,  // such calls are refused
  kAll,   // always
};

struct CompileOptions {
  std::vector<Target> targets = DefaultTargets();
  AliasVariants variants = AliasVariants::kAuto;
  bool fuse = true;
  bool only_eager_order = false;  // for tests: no other plan than the one in eager order, which fits every call
  // Runs the graph through the evaluator before and after each pass, on random arguments; an Internal error names the
  // pass that changed the meaning.
  bool verify = false;
  int threads = 0;               // of kernel compilation; 0: one per core
  KernelCache* cache = nullptr;  // null: one for this call, in memory
  // Called for each phase as it ends.
  std::function<void(absl::string_view phase, double milliseconds)> on_phase;
  // Called with the graph after each pass that may have changed it.
  std::function<void(absl::string_view pass, const Graph&)> on_pass;
  // Called before kernels are requested of the cache, with their number over all targets.
  std::function<void(int64_t kernels)> on_kernels;
  // Optional passes that are left out, by name (pipeline/passes.h); the bundle is correct without them, but slower.
  absl::flat_hash_set<std::string> disabled_passes;
  // How a caller nests the arguments and results, as the archive says it; empty: not known.
  CallStructure structure;
  std::string method;  // the name of the bundle's only method; empty: "forward"
  // The operators of the user's own, for whoever reads the model: its graph holds what it needs of them.
  OperatorDeclarations operators;
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
  // the reason why the program runs in eager order, operator by operator; empty if it is compiled
  std::string eager_order;
  // Plans for other calls than the export's that could not be made, with the reasons. Such calls run in eager order.
  std::vector<std::string> uncompiled_variants;
  std::vector<std::string> notes;  // what was left out, and why: one sentence each
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_COMPILE_OPTIONS_H_
