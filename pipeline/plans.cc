#include "smelt/pipeline/plans.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/alias/alias_pass.h"
#include "smelt/codegen/target.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/pass/pass_pipeline.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/lay_rows.h"
#include "smelt/fuser/lowered_groups.h"
#include "smelt/pipeline/alias_agreement.h"
#include "smelt/pipeline/argument_layouts.h"
#include "smelt/pipeline/argument_strides.h"
#include "smelt/pipeline/call_effects.h"
#include "smelt/pipeline/eager_plan.h"
#include "smelt/pipeline/layout_inference.h"
#include "smelt/pipeline/passes.h"
#include "smelt/pipeline/size_one_calls.h"
#include "smelt/pipeline/specialization.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/pipeline/verify_passes.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

// Refuses branches on a truth value that is an argument, which no plan reads. To fuse such a program would take time
// for nothing.
absl::Status CheckConditions(const Graph& g) {
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (node.op != op::kPrimIf) continue;
    const Value& condition = g.value(node.inputs[0]);
    if (condition.type.kind() != TypeKind::kBool || condition.expr || !g.IsParam(condition.def)) continue;
    if (g.node(condition.def).parent != g.top()) continue;
    return Annotate(absl::UnimplementedError("a condition that is an argument"), OperatorAndSource(node));
  }
  return absl::OkStatus();
}

class PlanSet {
 public:
  PlanSet(const Graph& graph, const CompileOptions& options, BundleBuilder& builder, CompileStats& stats,
          PhaseTimer& timer)
      : graph_(graph), options_(options), builder_(builder), stats_(stats), timer_(timer), layouts_(graph) {}

  absl::StatusOr<Planned> Build();

 private:
  // A program whose composites are open: a fork of it is compiled for each specialization that it serves.
  struct Opened {
    const Graph* program = nullptr;  // as imported, or for sizes of 1
    std::unique_ptr<Graph> graph;
    OpenedComposites decided;
  };
  struct Compiled {
    PlanStats plan;
    fb::OtherStrides other_strides = fb::OtherStrides::Refused;
    bool takes_any_strides = false;  // of arguments, in every call that the guards let through
    FunctionalizeResult functional;
    std::unique_ptr<Graph> pure;
  };
  // How the program runs for distinct arguments.
  enum class MainPlan { kCompiled, kRefuses, kInOrder };

  absl::StatusOr<MainPlan> BuildMain();
  // Adds plans for other layouts of large arguments, if the program has few steps.
  absl::Status BuildDimOrders();
  // Adds plans for sizes of 1. Returns whether every such call has one.
  absl::StatusOr<bool> BuildUnitSizes();
  // Adds plans for arguments that share memory, and the plan in eager order.
  absl::Status BuildAliasPatterns();
  absl::Status AddEagerPlanForWritten() {
    const Convention& convention = main_.functional.convention;
    return AddEagerPlan(graph_, WrittenArgs(graph_, convention), WrittenStorages(graph_, convention), options_.fuse,
                        builder_);
  }

  // Returns the imported program with the specialization's unit symbols and dim orders in place.
  const Graph& ProgramFor(const Specialization& s) const;
  // Runs PassGroup::kOpen, which depends on that program and the duplicates alone, once for all specializations that
  // agree in them.
  absl::StatusOr<const Opened*> Open(const Specialization& s);
  // Compiles a plan and adds it. A null timer leaves the phases to the caller.
  absl::StatusOr<Compiled> Compile(Specialization s, PhaseTimer* timer);
  PassRunOptions RunOptionsFor(const Graph& program, const Specialization& s, PassContext& context) const;
  // Returns the rule of the results' layouts for arguments with other strides; null if there is none, or if the program
  // depends on strides otherwise.
  const std::vector<int64_t>* ResultRule(const Opened& opened, const Convention& convention);

  const Graph& graph_;
  const CompileOptions& options_;
  BundleBuilder& builder_;
  CompileStats& stats_;
  PhaseTimer& timer_;
  const LayoutInference layouts_;
  SizeOneCalls of_one_;
  std::map<std::vector<bool>, absl::StatusOr<std::vector<int64_t>>> result_rules_;  // by which results are arguments
  std::map<DimOrders, std::unique_ptr<Graph>> ordered_;                             // programs
  // By unit symbols, dim orders and duplicates.
  std::map<std::tuple<std::set<std::string>, DimOrders, std::vector<int>>, Opened> opened_;
  Compiled main_;
  Planned out_;
};

const std::vector<int64_t>* PlanSet::ResultRule(const Opened& opened, const Convention& convention) {
  if (StridesAreSeen(*opened.graph) || !ReturnsNewMemoryOrArguments(convention)) return nullptr;
  std::vector<bool> are_arguments;
  for (const OutputInfo& o : convention.outputs.outputs) {
    are_arguments.push_back(o.kind == OutputInfo::Kind::kIsArgument || o.kind == OutputInfo::Kind::kIsState);
  }
  // Strides decide which memory is written, or whether a result is an argument.
  if ((HasWrites(*opened.graph) || absl::c_linear_search(are_arguments, true)) &&
      (opened.decided.strides_decide || !ArgumentsWithStridesOfOnes(graph_, layouts_).empty()))
    return nullptr;
  const auto [it, is_new] = result_rules_.try_emplace(are_arguments, absl::UnknownError(""));
  if (is_new) it->second = layouts_.RuleOfResults(are_arguments);
  return it->second.ok() ? &*it->second : nullptr;
}

const Graph& PlanSet::ProgramFor(const Specialization& s) const {
  if (const auto it = ordered_.find(s.dim_orders); it != ordered_.end()) return *it->second;
  for (const SizeOneProgram& program : of_one_.programs) {
    if (program.symbols == s.unit_symbols) return *program.graph;
  }
  return graph_;
}

absl::StatusOr<const PlanSet::Opened*> PlanSet::Open(const Specialization& s) {
  std::vector<int> duplicates;
  for (DistinctIndex d : s.alias.duplicates.inner_of_outer) duplicates.push_back(d.value());
  const auto key = std::make_tuple(s.unit_symbols, s.dim_orders, std::move(duplicates));
  if (const auto it = opened_.find(key); it != opened_.end()) return &it->second;
  Opened opened;
  opened.program = &ProgramFor(s);
  opened.graph = opened.program->Clone();
  PassContext context;
  context.Get<FunctionalizeOptions>().duplicates = s.alias.duplicates;
  PassRunOptions run;
  run.disabled = options_.disabled_passes;
  run.after_pass = [this](const Pass& pass, const Graph& after, const PassRecord&) {
    if (options_.on_pass) options_.on_pass(pass.name, after);
    return absl::OkStatus();
  };
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kOpen}).Run(*opened.graph, context, run));
  opened.decided = context.Get<OpenedComposites>();
  return &opened_.emplace(key, std::move(opened)).first->second;
}

// Dumps, and with `verify` the evaluator and the alias database, after each pass that may have changed the graph.
PassRunOptions PlanSet::RunOptionsFor(const Graph& program, const Specialization& s, PassContext& context) const {
  PassRunOptions run;
  run.disabled = options_.disabled_passes;
  // The evaluator can follow the plan for distinct and for duplicate arguments; shared memory is the runtime's own
  // test.
  const bool evaluate = options_.verify && !s.alias.arguments_overlap;
  run.after_pass = [this, &program, &context, evaluate](const Pass& pass, const Graph& g,
                                                        const PassRecord& record) -> absl::Status {
    if (options_.on_pass && !pass.is_analysis) options_.on_pass(pass.name, g);
    if (!record.changed && pass.is_optional) return absl::OkStatus();
    if (const AliasDb* alias = LiveAliasDb(context); options_.verify && alias != nullptr)
      SMELT_RETURN_IF_ERROR(Annotate(alias->Verify(), absl::StrCat("the alias database after ", pass.name)));
    if (!evaluate) return absl::OkStatus();
    return VerifyPass(program, g, context.Get<FunctionalizeResult>().convention, pass.name);
  };
  return run;
}

absl::StatusOr<PlanSet::Compiled> PlanSet::Compile(Specialization s, PhaseTimer* timer) {
  SMELT_ASSIGN_OR_RETURN(const Opened* opened, Open(s));
  if (timer != nullptr) timer->End("open");
  Compiled out;
  out.pure = opened->graph->Clone();
  Graph& g = *out.pure;
  const bool is_distinct = s.kind() == fb::VariantKind::Distinct;
  PassContext context;
  context.Get<AliasDb::Options>().distinct_inputs = !s.alias.arguments_overlap;
  context.Get<FuseOptions>().verify = options_.verify;
  context.Get<LayRowsOptions>().in_kernels = absl::c_none_of(options_.targets, IsCuda);
  FunctionalizeOptions& functionalize = context.Put(FunctionalizeOptionsFor(s));
  std::unique_ptr<AliasAgreement> agreement;
  if (options_.verify && is_distinct) {
    agreement = std::make_unique<AliasAgreement>(*opened->graph);
    functionalize.on_operand = [&](ValueId tensor, int memory) { agreement->Add(tensor, memory); };
  }
  const PassRunOptions run = RunOptionsFor(*opened->program, s, context);
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure}).Run(g, context, run));
  SMELT_RETURN_IF_ERROR(CheckConditions(g));
  if (timer != nullptr) timer->End("functionalize");
  const PassPipeline kernels = options_.fuse ? PassesOf({PassGroup::kExpand, PassGroup::kFuse, PassGroup::kLayout})
                                             : PassesOf({PassGroup::kExpand});
  SMELT_RETURN_IF_ERROR(kernels.Run(g, context, run));
  if (timer != nullptr) timer->End("fuse");
  WorksOnPass("plan");
  out.functional = std::move(context.Get<FunctionalizeResult>());
  const Convention& convention = out.functional.convention;
  AddSharingGuards(out.functional.at_least_two, s);
  BundleBuilder::PlanOptions plan = PlanOptionsFor(s);
  plan.lowered = &context.Get<LoweredGroups>();
  if (plan.exported_strides && !s.alias.arguments_overlap)
    plan.other_strides = OtherStridesOf(*opened->graph, opened->decided, convention);
  if (is_distinct && plan.other_strides != fb::OtherStrides::Copied) {
    if (const std::vector<int64_t>* rule = ResultRule(*opened, convention); rule != nullptr) {
      plan.result_rule = *rule;
      plan.other_strides = fb::OtherStrides::CopiedInOrder;
    }
  }
  if (s.layouts == Specialization::ArgumentLayouts::kOrdered) {
    const bool assumes = out.functional.assumes && !main_.functional.assumes;
    if (opened->decided.strides_decide || assumes || plan.result_rule.empty())
      return absl::UnimplementedError("the program depends on the strides of its arguments");
    plan.other_strides = main_.other_strides;  // of states
  }
  // An argument that is written or returned is not copied.
  out.takes_any_strides =
      plan.other_strides == fb::OtherStrides::Copied || (!plan.result_rule.empty() && ReturnsNewMemoryOnly(convention));
  out.other_strides = plan.other_strides;
  SMELT_ASSIGN_OR_RETURN(out.plan, builder_.AddPlan(g, convention, plan));
  // Functionalization knows nothing of the memory of operators that are not supported, which the plan has named by now.
  if (agreement != nullptr) SMELT_RETURN_IF_ERROR(agreement->status());
  if (timer != nullptr) timer->End("plan");
  return out;
}

absl::StatusOr<PlanSet::MainPlan> PlanSet::BuildMain() {
  const auto add_eager_plan = [&] {
    const EagerWrites writes = FindEagerWrites(graph_);
    return AddEagerPlan(graph_, writes.args, writes.storages, options_.fuse, builder_);
  };
  if (options_.only_eager_order) {
    SMELT_RETURN_IF_ERROR(add_eager_plan());
    return MainPlan::kInOrder;
  }
  Specialization s = DistinctArguments();
  AddSizeGuards(of_one_, s);
  absl::StatusOr<Compiled> main = Compile(std::move(s), &timer_);
  if (main.ok()) {
    main_ = *std::move(main);
    return MainPlan::kCompiled;
  }
  const absl::Status& built = main.status();
  // PyTorch itself refuses the program (a write to expanded memory, say), so the bundle refuses each call. In a branch
  // or a loop PyTorch refuses it only when it gets there, which eager order shows.
  if (absl::IsFailedPrecondition(built)) {
    const bool has_blocks = absl::c_any_of(graph_.AllNodes(), [&](NodeId n) { return !graph_.node(n).blocks.empty(); });
    const bool when_run = has_blocks && add_eager_plan().ok();
    if (!when_run) builder_.AddRefusal(std::string(built.message()), "");
    return MainPlan::kRefuses;
  }
  // A program that cannot be made pure runs in eager order.
  const bool depends_on_order = absl::IsUnimplemented(built) && CauseOf(built) == Cause::kDependsOnOrder;
  if (depends_on_order || (!absl::IsUnimplemented(built) && !absl::IsInvalidArgument(built))) return built;
  const absl::Status eager = add_eager_plan();
  // An obstacle to both plans is reported once.
  if (!eager.ok() && (eager.message() == built.message() || IsListOfUnsupported(built))) return built;
  if (!eager.ok())
    return absl::UnimplementedError(absl::StrCat(built.message(), "; in eager order: ", eager.message()));
  stats_.eager_order = std::string(built.message());
  return MainPlan::kInOrder;
}

absl::Status PlanSet::BuildDimOrders() {
  // Beside more steps, a copy of an argument takes little time. A smaller argument is copied in a few microseconds.
  constexpr int kMostSteps = 6;
  constexpr int64_t kMinBytes = 1 << 18;
  if (options_.variants == AliasVariants::kNone || main_.plan.launches + main_.plan.library_calls > kMostSteps)
    return absl::OkStatus();
  // Kernels read repeated elements as any others. Library calls may ask that rows do not overlap.
  std::vector<int> may_repeat;
  if (main_.plan.library_calls == 0) {
    const std::vector<int> written = WrittenArgs(graph_, main_.functional.convention);
    for (const UserArg& a : UserArgs(graph_)) {
      if (!absl::c_linear_search(written, a.position)) may_repeat.push_back(a.position);
    }
  }
  // Beside a library call, a copy of every other element takes little time.
  for (DimOrders& orders : OrdersWithPlans(graph_, kMinBytes, /*steps=*/main_.plan.library_calls == 0)) {
    std::unique_ptr<Graph> program = AtDimOrders(graph_, layouts_, orders);
    if (program == nullptr) continue;
    ordered_[orders] = std::move(program);
    Specialization s = OrderedArguments(graph_, std::move(orders), may_repeat);
    AddSizeGuards(of_one_, s);
    // The arguments are copied then.
    const absl::Status ordered = Compile(std::move(s), nullptr).status();
    if (absl::IsInternal(ordered) && options_.verify) return ordered;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PlanSet::BuildUnitSizes() {
  const std::set<std::string>& at_least_two = main_.functional.at_least_two;
  const bool more = absl::c_any_of(at_least_two, [&](const std::string& s) { return of_one_.symbols.count(s) == 0; });
  if (more) of_one_ = FindSizeOneCalls(graph_, layouts_, at_least_two);
  bool all = of_one_.IsNone();
  for (const SizeOneProgram& program : of_one_.programs) {
    Specialization s = DistinctArguments();
    s.unit_symbols = program.symbols;
    AddSizeGuards(of_one_, s);
    const absl::Status one = Compile(std::move(s), nullptr).status();
    if (absl::IsInternal(one) && options_.verify) return one;
    all = all || (one.ok() && of_one_.symbols.size() == 1 && of_one_.few.empty() && of_one_.never_empty.empty());
  }
  return all;
}

absl::Status PlanSet::BuildAliasPatterns() {
  const Convention& convention = main_.functional.convention;
  SMELT_ASSIGN_OR_RETURN(const Opened* opened, Open(DistinctArguments()));
  std::vector<Specialization> specializations;
  if (graph_.written_at_the_end) {
    out_.refused.push_back(
        "after run_decompositions() the archive does not say what is read before and what after a write");
  } else {
    specializations = DuplicateArguments(graph_, convention);
    specializations.push_back(OverlappingArguments(graph_, opened->decided, convention, out_.strides_of_ones));
  }
  const auto compile = [&](Specialization s) {
    AddSizeGuards(of_one_, s);
    return Compile(std::move(s), nullptr).status();
  };
  for (const Specialization& s : specializations) {
    absl::Status built = compile(s);
    // The plan does not hold for any strides, but perhaps for those of the export.
    if (!built.ok() && s.layouts == Specialization::ArgumentLayouts::kAny) {
      OpenedComposites fixed = opened->decided;
      fixed.strides_decide = true;
      built = compile(OverlappingArguments(graph_, fixed, convention, out_.strides_of_ones));
    }
    if (built.ok()) continue;
    if (absl::IsInternal(built) && options_.verify) return built;
    // Such a call is refused when it comes, with the reason.
    out_.refused.push_back(std::string(built.message()));
    stats_.uncompiled_variants.push_back(
        absl::StrCat(s.alias.arguments_overlap ? "overlap" : "duplicate", ": ", built.message()));
  }
  // Behind them comes the plan that is right for every pattern.
  const absl::Status eager = AddEagerPlanForWritten();
  if (eager.ok()) {
    if (!graph_.written_at_the_end) out_.refused.clear();
  } else {
    out_.refused.push_back(std::string(eager.message()));
    stats_.uncompiled_variants.push_back(absl::StrCat("eager-order: ", eager.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Planned> PlanSet::Build() {
  const std::vector<int> uses_before = builder_.kernel_uses();  // in other methods
  stats_.nodes = absl::c_count_if(graph_.AllNodes(), [&](NodeId n) { return graph_.node(n).op != op::kPrimConstant; });
  of_one_ = FindSizeOneCalls(graph_, layouts_, {});
  SMELT_ASSIGN_OR_RETURN(const MainPlan kind, BuildMain());
  stats_.mutations_removed = main_.functional.mutations_removed;
  stats_.fusion_groups = main_.plan.launches;
  stats_.distinct_kernels = main_.plan.distinct_kernels;
  stats_.library_calls = main_.plan.library_calls;
  out_.main_uses = builder_.kernel_uses();
  for (size_t k = 0; k < uses_before.size(); ++k) out_.main_uses[k] -= uses_before[k];
  if (options_.variants == AliasVariants::kNone) out_.refused.push_back("compiled with --alias-variants=none");
  if (kind != MainPlan::kCompiled) {
    out_.pure = graph_.Clone();
    return std::move(out_);
  }
  SMELT_RETURN_IF_ERROR(BuildDimOrders());
  SMELT_ASSIGN_OR_RETURN(const bool all_unit_sizes, BuildUnitSizes());
  out_.strides_of_ones = ArgumentsWithStridesOfOnes(graph_, layouts_);
  if (!main_.takes_any_strides) out_.any_strides = ArgumentsOfAnyStrides(graph_, layouts_);
  const size_t num_tensors = TensorArgs(graph_).size();

  const Convention& convention = main_.functional.convention;
  const bool sharing_shows =
      options_.variants == AliasVariants::kAll ||
      (options_.variants == AliasVariants::kAuto && (Mutates(convention) || ReturnsViews(convention)));
  if (sharing_shows && num_tensors > 0) {
    SMELT_RETURN_IF_ERROR(BuildAliasPatterns());
    timer_.End("variants");
  } else if (options_.variants != AliasVariants::kNone) {
    const bool may_lie_otherwise = !main_.takes_any_strides && out_.any_strides.size() < num_tensors;
    // If such a call cannot run in eager order, the guard refuses it.
    if (!all_unit_sizes || !out_.strides_of_ones.empty() || main_.functional.assumes || may_lie_otherwise)
      AddEagerPlanForWritten().IgnoreError();
  }
  out_.pure = std::move(main_.pure);
  return std::move(out_);
}

}  // namespace

absl::StatusOr<Planned> BuildPlans(const Graph& graph, const CompileOptions& options, BundleBuilder& builder,
                                   CompileStats& stats, PhaseTimer& timer) {
  return PlanSet(graph, options, builder, stats, timer).Build();
}

}  // namespace smelt
