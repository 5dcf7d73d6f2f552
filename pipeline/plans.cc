#include "smelt/pipeline/plans.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_pass.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/pass/pass_pipeline.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/lowered_groups.h"
#include "smelt/pipeline/alias_agreement.h"
#include "smelt/pipeline/alias_variants.h"
#include "smelt/pipeline/argument_strides.h"
#include "smelt/pipeline/eager_plan.h"
#include "smelt/pipeline/layout_inference.h"
#include "smelt/pipeline/passes.h"
#include "smelt/pipeline/size_one_calls.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/pipeline/verify_passes.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

struct BuiltVariant {
  PlanStats plan;
  fb::OtherStrides other_strides = fb::OtherStrides::Copied;
  bool takes_any_strides = false;  // of arguments, in every call that the guards let through
  FunctionalizeResult functional;
  std::unique_ptr<Graph> pure;
};

// Runs PassGroup::kOpen. `duplicates` says which arguments are one tensor.
absl::StatusOr<OpenedComposites> Open(Graph& g, const DuplicatesLayer& duplicates, const CompileOptions& options) {
  PassContext context;
  context.Get<FunctionalizeOptions>().duplicates = duplicates;
  PassRunOptions run;
  run.disabled = options.disabled_passes;
  run.after_pass = [&options](const Pass& pass, const Graph& after, const PassRecord&) {
    if (options.on_pass) options.on_pass(pass.name, after);
    return absl::OkStatus();
  };
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kOpen}).Run(g, context, run));
  return context.Get<OpenedComposites>();
}

// Dumps, and with `verify` the evaluator and the alias database, after each pass that may have changed the graph.
PassRunOptions RunOptionsFor(const CompileOptions& options, const Graph& imported, const Variant& v,
                             PassContext& context) {
  PassRunOptions run;
  run.disabled = options.disabled_passes;
  // The evaluator can follow the plan for distinct and for duplicate arguments; shared memory is the runtime's own
  // test.
  const bool evaluate = options.verify && !v.functionalize.overlapping;
  run.after_pass = [&options, &imported, &context, evaluate](const Pass& pass, const Graph& g,
                                                             const PassRecord& record) -> absl::Status {
    if (options.on_pass && !pass.is_analysis) options.on_pass(pass.name, g);
    if (!record.changed && pass.is_optional) return absl::OkStatus();
    if (const AliasDb* alias = LiveAliasDb(context); options.verify && alias != nullptr)
      SMELT_RETURN_IF_ERROR(Annotate(alias->Verify(), absl::StrCat("the alias database after ", pass.name)));
    if (!evaluate) return absl::OkStatus();
    return VerifyPass(imported, g, context.Get<FunctionalizeResult>().convention, pass.name);
  };
  return run;
}

// Builds a plan from a graph whose composites are open. `decided` are the choices that opening them made.
absl::StatusOr<BuiltVariant> BuildVariant(const Graph& imported, const Graph& opened, const OpenedComposites& decided,
                                          const Variant& v, const CompileOptions& options, BundleBuilder& builder,
                                          PhaseTimer* timer) {
  BuiltVariant out;
  out.pure = opened.Clone();
  Graph& g = *out.pure;
  PassContext context;
  context.Get<AliasDb::Options>().distinct_inputs = !v.functionalize.overlapping;
  context.Get<FuseOptions>().verify = options.verify;
  FunctionalizeOptions& functionalize = context.Put(v.functionalize);
  std::unique_ptr<AliasAgreement> agreement;
  if (options.verify && v.kind == fb::VariantKind::Distinct) {
    agreement = std::make_unique<AliasAgreement>(opened);
    functionalize.on_operand = [&](ValueId tensor, int memory) { agreement->Add(tensor, memory); };
  }
  const PassRunOptions run = RunOptionsFor(options, imported, v, context);
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure}).Run(g, context, run));
  if (agreement != nullptr) SMELT_RETURN_IF_ERROR(agreement->status());
  if (timer != nullptr) timer->End("functionalize");
  const PassPipeline kernels = options.fuse ? PassesOf({PassGroup::kExpand, PassGroup::kFuse, PassGroup::kLayout})
                                            : PassesOf({PassGroup::kExpand});
  SMELT_RETURN_IF_ERROR(kernels.Run(g, context, run));
  if (timer != nullptr) timer->End("fuse");
  WorksOnPass("plan");
  out.functional = std::move(context.Get<FunctionalizeResult>());
  BundleBuilder::PlanOptions plan = v.plan;
  plan.lowered = &context.Get<LoweredGroups>();
  if (plan.exported_strides && !v.functionalize.overlapping)
    plan.other_strides = OtherStridesOf(opened, decided, out.functional.convention);
  if (plan.other_strides != fb::OtherStrides::Copied && v.result_rule && !StridesAreSeen(opened) &&
      ReturnsNewMemoryOnly(out.functional.convention)) {
    if (const std::vector<int64_t>* rule = v.result_rule(); rule != nullptr) {
      plan.result_rule = *rule;
      plan.other_strides = fb::OtherStrides::CopiedInOrder;
    }
  }
  out.takes_any_strides = plan.other_strides == fb::OtherStrides::Copied || !plan.result_rule.empty();
  if (plan.exported_strides) out.other_strides = plan.other_strides;
  for (const std::string& symbol : out.functional.at_least_two) {
    plan.guards.push_back({Expr(1), Expr::Symbol(symbol), fb::ExprOp::Lt,
                           absl::StrCat("the size ", symbol, " is 1, expected at least 2: PyTorch then shares memory ",
                                        "that otherwise is copied, and the program shows it")});
  }
  SMELT_ASSIGN_OR_RETURN(out.plan, builder.AddPlan(g, out.functional.convention, plan));
  if (timer != nullptr) timer->End("plan");
  return out;
}

}  // namespace

absl::StatusOr<Planned> BuildPlans(const Graph& graph, const CompileOptions& options, BundleBuilder& builder,
                                   CompileStats& stats, PhaseTimer& timer) {
  Planned out;
  const std::vector<NodeId> nodes = graph.AllNodes();
  for (NodeId n : nodes) stats.nodes += graph.node(n).op != op::kPrimConstant;

  BuiltVariant main;
  OpenedComposites decided;
  const std::unique_ptr<Graph> opened = graph.Clone();
  const LayoutInference layouts(graph);
  SizeOneCalls of_one = FindSizeOneCalls(graph, layouts, {});
  const auto others = [&](Variant v) {
    AddSizeGuards(of_one, {}, v);
    return v;
  };
  std::optional<absl::StatusOr<std::vector<int64_t>>> rule;
  const auto result_rule = [&]() -> const std::vector<int64_t>* {
    if (!rule) rule = layouts.RuleOfResults();
    return rule->ok() ? &**rule : nullptr;
  };
  auto build_main = [&]() -> absl::Status {
    SMELT_ASSIGN_OR_RETURN(decided, Open(*opened, {}, options));
    timer.End("open");
    Variant v;
    v.result_rule = result_rule;
    SMELT_ASSIGN_OR_RETURN(main, BuildVariant(graph, *opened, decided, others(v), options, builder, &timer));
    return absl::OkStatus();
  };
  const absl::Status built = build_main();
  // PyTorch itself refuses the program (a write to expanded memory, say), so the bundle refuses each call.
  const bool refuses = absl::IsFailedPrecondition(built);
  // A program that cannot be made pure runs in eager order.
  const bool unordered = absl::IsUnimplemented(built) && CauseOf(built) == Cause::kDependsOnOrder;
  const bool impure = !unordered && (absl::IsUnimplemented(built) || absl::IsInvalidArgument(built));
  // In a branch or a loop PyTorch refuses it only when it gets there, which eager order shows.
  const auto has_blocks = [&](NodeId n) { return !graph.node(n).blocks.empty(); };
  const bool perhaps = refuses && std::any_of(nodes.begin(), nodes.end(), has_blocks);
  if (refuses) {
    const EagerWrites writes = FindEagerWrites(graph);
    const bool when_run = perhaps && AddEagerPlan(graph, writes.args, writes.storages, builder).ok();
    if (!when_run) builder.AddRefusal(std::string(built.message()), "");
  } else if (impure) {
    const EagerWrites writes = FindEagerWrites(graph);
    const absl::Status eager = AddEagerPlan(graph, writes.args, writes.storages, builder);
    // An obstacle to both plans is reported once.
    if (!eager.ok() && (eager.message() == built.message() || IsListOfUnsupported(built))) return built;
    if (!eager.ok())
      return absl::UnimplementedError(absl::StrCat(built.message(), "; in eager order: ", eager.message()));
    stats.eager_order = std::string(built.message());
  } else {
    SMELT_RETURN_IF_ERROR(built);
  }
  if (refuses || impure) main.pure = graph.Clone();
  stats.mutations_removed = main.functional.mutations_removed;
  stats.fusion_groups = main.plan.launches;
  stats.distinct_kernels = main.plan.distinct_kernels;
  stats.library_calls = main.plan.library_calls;
  out.main_uses = builder.kernel_uses();

  // Calls with a size of 1 that need another program.
  bool all_of_one = true;  // have a plan
  if (!refuses && !impure) {
    const std::set<std::string>& at_least_two = main.functional.at_least_two;
    const bool more = std::any_of(at_least_two.begin(), at_least_two.end(),
                                  [&](const std::string& s) { return of_one.symbols.count(s) == 0; });
    if (more) of_one = FindSizeOneCalls(graph, layouts, at_least_two);
    all_of_one = of_one.IsNone();
    for (const SizeOneProgram& program : of_one.programs) {
      auto build = [&]() -> absl::Status {
        const std::unique_ptr<Graph> copy = program.graph->Clone();
        SMELT_ASSIGN_OR_RETURN(const OpenedComposites of_copy, Open(*copy, {}, options));
        Variant v;
        v.result_rule = result_rule;
        AddSizeGuards(of_one, program.symbols, v);
        return BuildVariant(*program.graph, *copy, of_copy, v, options, builder, nullptr).status();
      };
      const absl::Status one = build();
      if (absl::IsInternal(one) && options.verify) return one;
      all_of_one =
          all_of_one || (one.ok() && of_one.symbols.size() == 1 && of_one.few.empty() && of_one.never_empty.empty());
    }
  }

  bool may_lie_otherwise = false;  // than any plan so far takes
  if (!refuses && !impure) {
    out.strides_of_ones = ArgumentsWithStridesOfOnes(graph, layouts);
    if (!main.takes_any_strides) out.any_strides = ArgumentsOfAnyStrides(graph, layouts);
    may_lie_otherwise = !main.takes_any_strides && out.any_strides.size() < TensorArgs(graph).size();
  }

  // Other alias patterns. One that cannot be compiled is refused at run time, with the reason.
  const Convention& convention = main.functional.convention;
  const bool wanted = !refuses && !impure &&
                      (options.variants == AliasVariants::kAll ||
                       (options.variants == AliasVariants::kAuto && (Mutates(convention) || ReturnsViews(convention))));
  if (options.variants == AliasVariants::kNone) out.refused.push_back("compiled with --alias-variants=none");
  if (wanted && !TensorArgs(graph).empty()) {
    std::vector<Variant> variants;
    if (graph.written_at_the_end) {
      out.refused.push_back(
          "after run_decompositions() the archive does not say what is read before and what after a write");
    } else {
      variants = DuplicateVariants(graph, convention);
      variants.push_back(OverlapVariant(graph, decided, convention, out.strides_of_ones));
    }
    for (const Variant& v : variants) {
      auto build = [&]() -> absl::StatusOr<BuiltVariant> {
        if (v.kind != fb::VariantKind::Duplicate)
          return BuildVariant(graph, *opened, decided, others(v), options, builder, nullptr);
        const std::unique_ptr<Graph> merged = graph.Clone();
        SMELT_ASSIGN_OR_RETURN(const OpenedComposites of_merged, Open(*merged, v.functionalize.duplicates, options));
        return BuildVariant(graph, *merged, of_merged, others(v), options, builder, nullptr);
      };
      auto variant = build();
      if (!variant.ok() && v.functionalize.symbolic_strides) {
        // The plan does not hold for any strides, but perhaps for those of the export.
        OpenedComposites fixed = decided;
        fixed.strides_decide = true;
        variant =
            BuildVariant(graph, *opened, fixed, others(OverlapVariant(graph, fixed, convention, out.strides_of_ones)),
                         options, builder, nullptr);
      }
      if (variant.ok()) continue;
      if (absl::IsInternal(variant.status()) && options.verify) return variant.status();
      out.refused.push_back(std::string(variant.status().message()));
      stats.uncompiled_variants.push_back(absl::StrCat(v.kind == fb::VariantKind::Duplicate ? "duplicate" : "overlap",
                                                       ": ", variant.status().message()));
    }
    // Behind them comes the plan that is right for every pattern.
    const absl::Status eager =
        AddEagerPlan(graph, WrittenArgs(graph, convention), WrittenStorages(graph, convention), builder);
    if (eager.ok()) {
      if (!graph.written_at_the_end) out.refused.clear();
    } else {
      out.refused.push_back(std::string(eager.message()));
      stats.uncompiled_variants.push_back(absl::StrCat("eager-order: ", eager.message()));
    }
    timer.End("variants");
  } else if ((!all_of_one || !out.strides_of_ones.empty() || main.functional.assumes || may_lie_otherwise) &&
             options.variants != AliasVariants::kNone) {
    // If such a call cannot run in eager order, the guard refuses it.
    AddEagerPlan(graph, WrittenArgs(graph, convention), WrittenStorages(graph, convention), builder).IgnoreError();
  }
  out.pure = std::move(main.pure);
  return out;
}

}  // namespace smelt
