#include "smelt/pipeline/eager_call_table.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/fuser/fuse.h"
#include "smelt/pipeline/call_function.h"
#include "smelt/pipeline/passes.h"

namespace smelt {
namespace {

// Returns whether a launch takes longer than the work on the call's tensors, in the example that the hints describe.
bool IsSmall(const Graph& g) {
  constexpr int64_t kFewElements = 1 << 14;
  int64_t elements = 0;
  const auto add = [&](ValueId v) {
    const Type& type = g.value(v).type;
    if (!type.IsTensor()) return true;
    if (!type.tensor().sizes) return false;
    int64_t here = 1;
    for (const Expr& e : *type.tensor().sizes) {
      const absl::StatusOr<int64_t> size = e.Evaluate(g.symbol_hints);
      if (!size.ok() || __builtin_mul_overflow(here, *size, &here)) return false;
    }
    return !__builtin_add_overflow(elements, here, &elements) && elements <= kFewElements;
  };
  return absl::c_all_of(g.inputs(), add) && absl::c_all_of(g.outputs(), add);
}

}  // namespace

absl::StatusOr<EagerCallTable::Compiled> EagerCallTable::Compile(Graph& g, bool with_alias_db) {
  const std::unique_ptr<Graph> signature = g.Clone();
  PassContext context;
  context.Get<FuseOptions>().few_launches = IsSmall(g);
  PassRunOptions run;
  if (!with_alias_db) run.disabled = {"build-alias-db"};
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure, PassGroup::kExpand, PassGroup::kFuse}).Run(g, context, run));
  const auto& functional = context.Get<FunctionalizeResult>();
  BundleBuilder builder(*signature, bundle_);
  SMELT_ASSIGN_OR_RETURN(const PlanStats stats, builder.AddPlan(g, functional.convention, {}));
  if (!builder.constants().empty()) return absl::UnimplementedError("a constant tensor inside an operator");
  SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, builder.Finish());
  return Compiled{std::move(bundle), stats.launches + stats.library_calls,
                  functional.assumes || !functional.at_least_two.empty()};
}

absl::StatusOr<int> EagerCallTable::Add(CallGraph& call) {
  auto [it, fresh] = numbers_.try_emplace(PrintGraph(call.graph()), static_cast<int>(program_.calls.size()));
  if (!fresh) return it->second;
  const std::optional<ScalarFn> function =
      call.graph().outputs().size() == 1 ? FunctionOfCall(call.graph()) : std::nullopt;
  // One operator's nodes depend on each other alone.
  SMELT_ASSIGN_OR_RETURN(Compiled compiled, Compile(call.graph(), /*with_alias_db=*/false));
  program_.calls.push_back(std::make_unique<fb::BundleT>(std::move(compiled.bundle)));
  functions_.push_back(function ? function->ToString() : "");
  steps_.push_back(compiled.steps);
  return it->second;
}

absl::StatusOr<int> EagerCallTable::AddGroup(CallGraph& call, int steps) {
  const std::string text = PrintGraph(call.graph());
  if (const auto it = numbers_.find(text); it != numbers_.end()) return it->second;
  SMELT_ASSIGN_OR_RETURN(Compiled compiled, Compile(call.graph(), /*with_alias_db=*/true));
  if (compiled.steps >= steps) return absl::UnimplementedError("as many kernels as operators");
  if (compiled.assumes) return absl::UnimplementedError("an assumption on sizes");
  const int number = static_cast<int>(program_.calls.size());
  program_.calls.push_back(std::make_unique<fb::BundleT>(std::move(compiled.bundle)));
  functions_.emplace_back();
  steps_.push_back(compiled.steps);
  numbers_.emplace(text, number);
  return number;
}

absl::StatusOr<int> EagerCallTable::Conversion(ValueId from, DType to) {
  CallGraph call(g_, /*flat=*/true);
  SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(from));
  SMELT_ASSIGN_OR_RETURN(ValueId y, call.Cast(x, to));
  call.graph().AddOutput(y);
  return Add(call);
}

}  // namespace smelt
