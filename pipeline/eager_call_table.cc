#include "smelt/pipeline/eager_call_table.h"

#include <memory>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/pipeline/passes.h"

namespace smelt {

absl::StatusOr<int> EagerCallTable::Add(CallGraph& call) {
  Graph& g = call.graph();
  auto [it, fresh] = numbers_.try_emplace(PrintGraph(g), static_cast<int>(program_.calls.size()));
  if (!fresh) return it->second;
  const std::unique_ptr<Graph> signature = g.Clone();
  PassContext context;
  PassRunOptions run;
  run.disabled = {"build-alias-db"};  // one operator's nodes depend on each other alone
  SMELT_RETURN_IF_ERROR(PassesOf({PassGroup::kPure, PassGroup::kExpand, PassGroup::kFuse}).Run(g, context, run));
  BundleBuilder builder(*signature, bundle_);
  SMELT_RETURN_IF_ERROR(builder.AddPlan(g, context.Get<FunctionalizeResult>().convention, {}).status());
  if (!builder.constants().empty()) return absl::UnimplementedError("a constant tensor inside an operator");
  SMELT_ASSIGN_OR_RETURN(fb::BundleT bundle, builder.Finish());
  program_.calls.push_back(std::make_unique<fb::BundleT>(std::move(bundle)));
  return it->second;
}

absl::StatusOr<int> EagerCallTable::Conversion(ValueId from, DType to) {
  CallGraph call(g_, /*flat=*/true);
  SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(from));
  SMELT_ASSIGN_OR_RETURN(ValueId y, call.Cast(x, to));
  call.graph().AddOutput(y);
  return Add(call);
}

}  // namespace smelt
