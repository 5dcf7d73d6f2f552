#include "smelt/pipeline/compile.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
#include "smelt/pipeline/unite_weights.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/pipeline/write_bundle.h"
#include "smelt/schema/bundle.h"
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

// The bundle of one graph, before kernels are compiled and segments are written.
absl::StatusOr<fb::BundleT> Finished(const Planned& planned, const CallStructure& structure, BundleBuilder& builder) {
  SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, builder.Finish());
  for (int arg : planned.strides_of_ones) bundle.args[arg]->strides_of_ones = true;
  for (int arg : planned.any_strides) bundle.args[arg]->any_strides = true;
  AddStructure(structure, bundle);
  bundle.graph_text = PrintGraph(*planned.pure);
  bundle.refused_patterns = absl::StrJoin(planned.refused, "; ");
  return bundle;
}

absl::StatusOr<CompileStats> Compile(const Graph& graph, const std::string& path, const CompileOptions& options) {
  CompileStats stats;
  PhaseTimer timer(options, stats);
  BundleBuilder builder(graph);
  SMELT_ASSIGN_OR_RETURN(const Planned planned, BuildPlans(graph, options, builder, stats, timer));
  SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, Finished(planned, options.structure, builder));
  bundle.method = options.method;
  SMELT_RETURN_IF_ERROR(WriteBundle(std::move(bundle), graph, builder, planned.main_uses, path, options, stats, timer));
  return stats;
}

// Adds the statistics of one method to those of the bundle.
void Add(const std::string& method, const CompileStats& of, CompileStats& sum) {
  sum.nodes += of.nodes;
  sum.mutations_removed += of.mutations_removed;
  sum.fusion_groups += of.fusion_groups;
  sum.library_calls += of.library_calls;
  if (!of.eager_order.empty()) {
    absl::StrAppend(&sum.eager_order, sum.eager_order.empty() ? "" : "; ", method, ": ", of.eager_order);
  }
  for (const std::string& variant : of.uncompiled_variants)
    sum.uncompiled_variants.push_back(absl::StrCat(method, ": ", variant));
  for (const std::string& note : of.notes) sum.notes.push_back(absl::StrCat(method, ": ", note));
}

// The names of the methods' models, each once.
std::string ModelNames(absl::Span<const MethodGraph> methods) {
  std::vector<std::string> names;
  for (const MethodGraph& m : methods) {
    if (std::find(names.begin(), names.end(), m.graph->name) == names.end()) names.push_back(m.graph->name);
  }
  return absl::StrJoin(names, "+");
}

absl::Status CheckMethods(absl::Span<const Method> methods) {
  std::vector<std::string> names;
  for (const Method& m : methods) names.push_back(m.name);
  SMELT_RETURN_IF_ERROR(CheckMethodNames(names));
  if (methods.empty()) return absl::InvalidArgumentError("a bundle has at least one method");
  return absl::OkStatus();
}

// The graphs of several methods, with one table of weights.
struct United {
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<MethodGraph> methods;
};
absl::StatusOr<United> Unite(absl::Span<const Method> methods) {
  United out;
  for (const Method& m : methods) {
    const std::string where = absl::StrCat("method \"", m.name, "\"");
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, Annotate(Checked(*m.graph), where));
    SMELT_RETURN_IF_ERROR(Annotate(CheckWeightsHaveData(*graph), where));
    out.methods.push_back({m.name, graph.get()});
    out.graphs.push_back(std::move(graph));
  }
  SMELT_RETURN_IF_ERROR(UniteWeights(out.methods));
  return out;
}

struct MethodPlans {
  std::vector<std::unique_ptr<BundleBuilder>> builders;  // the first has the kernels of all
  std::vector<Planned> planned;
  std::vector<int> main_uses;
};
absl::StatusOr<MethodPlans> PlanMethods(absl::Span<const MethodGraph> methods, const CompileOptions& options,
                                        CompileStats& stats, PhaseTimer& timer) {
  MethodPlans out;
  for (const MethodGraph& m : methods) {
    out.builders.push_back(out.builders.empty() ? std::make_unique<BundleBuilder>(*m.graph)
                                                : std::make_unique<BundleBuilder>(*m.graph, *out.builders[0],
                                                                                  BundleBuilder::kOtherMethod));
    CompileStats of_method;
    auto plans = BuildPlans(*m.graph, options, *out.builders.back(), of_method, timer);
    if (!plans.ok())
      return Annotate(WithAllUnsupported(*m.graph, plans.status()), absl::StrCat("method \"", m.name, "\""));
    Add(m.name, of_method, stats);
    out.main_uses.resize(std::max(out.main_uses.size(), plans->main_uses.size()));
    for (size_t k = 0; k < plans->main_uses.size(); ++k) out.main_uses[k] += plans->main_uses[k];
    out.planned.push_back(*std::move(plans));
  }
  return out;
}

// `methods` are several, with one table of weights.
absl::StatusOr<CompileStats> CompileMethods(absl::Span<const MethodGraph> methods, absl::Span<const Method> given,
                                            const std::string& path, const CompileOptions& options) {
  CompileStats stats;
  PhaseTimer timer(options, stats);
  SMELT_ASSIGN_OR_RETURN(const MethodPlans plans, PlanMethods(methods, options, stats, timer));
  stats.distinct_kernels =
      std::count_if(plans.main_uses.begin(), plans.main_uses.end(), [](int uses) { return uses > 0; });
  fb::BundleT bundle;
  bundle.format = kMethodsFormat;
  bundle.abi = kKernelAbi;
  bundle.model_name = ModelNames(methods);
  for (size_t i = 0; i < methods.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(fb::BundleT method, Finished(plans.planned[i], given[i].structure, *plans.builders[i]));
    if (i == 0) {
      bundle.storages = std::move(method.storages);
      bundle.states = std::move(method.states);
    }
    method.storages.clear();
    method.states.clear();
    method.method = methods[i].name;
    bundle.methods.push_back(std::make_unique<fb::BundleT>(std::move(method)));
  }
  SMELT_RETURN_IF_ERROR(WriteBundle(std::move(bundle), *methods[0].graph, *plans.builders[0], plans.main_uses, path,
                                    options, stats, timer));
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

absl::StatusOr<CompileStats> CompileMethodsToFile(absl::Span<const Method> methods, const std::string& path,
                                                  const CompileOptions& options) {
  SMELT_RETURN_IF_ERROR(CheckMethods(methods));
  if (methods.size() == 1) {
    CompileOptions of_one = options;
    of_one.structure = methods[0].structure;
    of_one.method = methods[0].name == kDefaultMethod ? "" : methods[0].name;
    return CompileToFile(*methods[0].graph, path, of_one);
  }
  return Recovered<CompileStats>("compile", [&]() -> absl::StatusOr<CompileStats> {
    SMELT_ASSIGN_OR_RETURN(const United united, Unite(methods));
    return CompileMethods(united.methods, methods, path, options);
  });
}

absl::StatusOr<std::vector<KernelSpec>> PlanMethodKernels(absl::Span<const Method> methods,
                                                          const CompileOptions& options) {
  SMELT_RETURN_IF_ERROR(CheckMethods(methods));
  if (methods.size() == 1) return PlanKernels(*methods[0].graph, options);
  return Recovered<std::vector<KernelSpec>>("plan", [&]() -> absl::StatusOr<std::vector<KernelSpec>> {
    SMELT_ASSIGN_OR_RETURN(const United united, Unite(methods));
    CompileStats stats;
    PhaseTimer timer(options, stats);
    SMELT_ASSIGN_OR_RETURN(const MethodPlans plans, PlanMethods(united.methods, options, stats, timer));
    return plans.builders[0]->kernels();
  });
}

}  // namespace smelt
