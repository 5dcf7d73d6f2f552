#include "smelt/pipeline/compile.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/pipeline/phase_timer.h"
#include "smelt/pipeline/plans.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/pipeline/write_bundle.h"
#include "smelt/schema/bundle_signature.h"
#include "smelt/script/flatten_outputs.h"

namespace smelt {
namespace {

// A graph that was read from text knows the sizes of weights, not their contents.
absl::Status CheckWeightsHaveData(const Graph& g) {
  std::vector<std::string> missing;
  for (const Weight& w : g.weights) {
    const std::shared_ptr<Storage>& s = g.weight_storages[w.storage];
    if (s == nullptr || (s->bytes() > 0 && s->data() == nullptr)) missing.push_back(absl::StrCat("\"", w.name, "\""));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("weights without data, which a .pt2 or .smg holds: ", absl::StrJoin(missing, ", ")));
}

// Results whose place has a name in the caller's structure are called by it.
void AddStructure(const CallStructure& structure, fb::BundleT& bundle) {
  if (CheckStructure(structure.arguments, bundle.args.size()).ok())
    bundle.argument_structure = StructureTables(structure.arguments);
  if (structure.results.empty() || !CheckStructure(structure.results, bundle.outputs.size()).ok()) return;
  bundle.result_structure = StructureTables(structure.results);
  const std::vector<LeafPath> paths = LeafPaths(structure.results);
  for (size_t i = 0; i < paths.size(); ++i) {
    fb::OutputDefT& o = *bundle.outputs[i];
    if (!paths[i].has_names || paths[i].text == o.name) continue;
    o.node = std::move(o.name);
    o.name = paths[i].text;
  }
}

// The graph that is compiled, whoever made `imported`: checked as readers check one, with its results flat.
absl::StatusOr<std::unique_ptr<Graph>> Checked(const Graph& imported) {
  std::unique_ptr<Graph> flat = FlattenOutputs(imported);
  if (flat == nullptr) flat = imported.Clone();
  SMELT_RETURN_IF_ERROR(CheckModel(*flat));
  return flat;
}

absl::StatusOr<CompileStats> Compile(const Graph& graph, const std::string& path, const CompileOptions& options) {
  CompileStats stats;
  PhaseTimer timer(options, stats);
  BundleBuilder builder(graph);
  SMELT_ASSIGN_OR_RETURN(const Planned planned, BuildPlans(graph, options, builder, stats, timer));
  SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, builder.Finish());
  for (int arg : planned.strides_of_ones) bundle.args[arg]->strides_of_ones = true;
  for (int arg : planned.any_strides) bundle.args[arg]->any_strides = true;
  AddStructure(options.structure, bundle);
  bundle.graph_text = PrintGraph(*planned.pure);
  bundle.refused_patterns = absl::StrJoin(planned.refused, "; ");
  SMELT_RETURN_IF_ERROR(WriteBundle(std::move(bundle), graph, builder, planned.main_uses, path, options, stats, timer));
  return stats;
}

}  // namespace

absl::StatusOr<std::vector<KernelSpec>> PlanKernels(const Graph& imported, const CompileOptions& options) {
  return Recovered<std::vector<KernelSpec>>("plan", [&]() -> absl::StatusOr<std::vector<KernelSpec>> {
    CompileStats stats;
    SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, Checked(imported));
    PhaseTimer timer(options, stats);
    BundleBuilder builder(*graph);
    auto planned = BuildPlans(*graph, options, builder, stats, timer);
    if (!planned.ok()) return WithAllUnsupported(*graph, planned.status());
    return builder.kernels();
  });
}

absl::StatusOr<CompileStats> CompileToFile(const Graph& imported, const std::string& path,
                                           const CompileOptions& options) {
  return Recovered<CompileStats>("compile", [&]() -> absl::StatusOr<CompileStats> {
    SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, Checked(imported));
    SMELT_RETURN_IF_ERROR(CheckWeightsHaveData(*graph));
    auto stats = Compile(*graph, path, options);
    if (!stats.ok()) return WithAllUnsupported(*graph, stats.status());
    return stats;
  });
}

}  // namespace smelt
