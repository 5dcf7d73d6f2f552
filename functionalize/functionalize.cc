#include "smelt/functionalize/functionalize.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/argument_memories.h"
#include "smelt/functionalize/contents.h"
#include "smelt/functionalize/convention_builder.h"
#include "smelt/functionalize/erase_dead.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/operators.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

namespace {

absl::Status VerifyBlock(const Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) {
    const Node& node = g.node(n);
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema != nullptr && schema->IsMutable())
      return absl::InternalError(absl::StrCat("after functionalization ", node.op.full(), " still writes"));
    if (IsViewOp(node.op))
      return absl::InternalError(absl::StrCat("after functionalization ", node.op.full(), " still makes a view"));
    for (BlockId inner : node.blocks) SMELT_RETURN_IF_ERROR(VerifyBlock(g, inner));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FunctionalizeResult> Functionalize(Graph& g, const FunctionalizeOptions& options) {
  ProgramWalk walk(g, options);
  SMELT_RETURN_IF_ERROR(BindInputs(walk));
  FindAbsoluteAccess(walk);
  ShowWholeStates(walk);
  SMELT_RETURN_IF_ERROR(ProcessBlock(walk, g.top()));
  const auto read = [&](TensorId t) { return ReadTensor(walk, t, g.block(g.top()).return_node); };
  walk.result.assumes = walk.assertions.assumes();
  SMELT_RETURN_IF_ERROR(
      ConventionBuilder({g, walk.memories, walk.sharing, walk.tensors, walk.tensor_of, walk.inputs}, read, walk.result)
          .Build());
  EraseDead(g, g.top(), ReadersOfSizes(g));
  return std::move(walk.result);
}

absl::Status VerifyFunctional(const Graph& g) { return VerifyBlock(g, g.top()); }

namespace {

WrittenInputs FindWrittenInputs(const Graph& g, const Convention& c) {
  const auto is_written = [&](int memory) {
    return absl::c_any_of(c.mutations.memories, [&](const MutatedMemory& m) { return m.memory.value() == memory; });
  };
  WrittenInputs out;
  int distinct = 0;  // the number of inputs so far that are not weights
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const InputInfo& info = g.input_infos[i];
    const bool weight = info.kind == InputInfo::Kind::kWeight;
    const int memory = weight ? c.overlaps.num_argument_memories + g.weights[info.weight].storage
                              : c.overlaps.memory_of[distinct++].value();
    if (is_written(memory)) out.values.insert(g.inputs()[i]);
  }
  return out;
}

}  // namespace

Pass MergeDuplicatesPass() {
  return {.name = "merge-duplicates",
          .description = "arguments that are one tensor become one value",
          .prerequisites = {"infer-types"},
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            const DuplicatesLayer& duplicates = context.Get<FunctionalizeOptions>().duplicates;
            if (duplicates.inner_of_outer.empty()) return false;
            const EditCounter edits(g);
            MergeDuplicates(g, duplicates);
            return edits.count() > 0;
          }};
}

Pass FunctionalizePass() {
  return {.name = "functionalize",
          .description = "writes become values, and a convention says what a caller sees",
          .prerequisites = {"open-composites"},
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            FunctionalizeResult& result = context.Get<FunctionalizeResult>();
            SMELT_ASSIGN_OR_RETURN(result, Functionalize(g, context.Get<FunctionalizeOptions>()));
            SMELT_RETURN_IF_ERROR(VerifyFunctional(g));
            context.Put(FindWrittenInputs(g, result.convention));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
