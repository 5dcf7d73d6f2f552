#include "smelt/functionalize/functionalize.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/data_refusals.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

absl::StatusOr<FunctionalizeResult> Functionalizer::Run() {
  SMELT_RETURN_IF_ERROR(BindInputs());
  FindAbsoluteAccess();
  ShowWholeStates();
  SMELT_RETURN_IF_ERROR(ProcessBlock(g_.top()));
  SMELT_RETURN_IF_ERROR(BuildConvention());
  EraseDead(g_.top(), ReadersOfSizes(g_));
  return std::move(result_);
}

absl::Status Functionalizer::At(OpName op, absl::Status s) const {
  std::string where = op.full();
  if (source_ != nullptr) absl::StrAppend(&where, " (", source_->ToString(), ")");
  return Annotate(s, where);
}

absl::Status Functionalizer::BuildConvention() {
  NoteMutations();
  SMELT_RETURN_IF_ERROR(NoteOutputs());
  // The graph's outputs are what the layers refer to.
  while (g_.outputs().size() > 0) g_.EraseResult(g_.top(), static_cast<int>(g_.outputs().size()) - 1);
  g_.output_names.clear();
  for (ValueId v : new_outputs_) g_.AddOutput(v);
  return absl::OkStatus();
}

bool Functionalizer::IsRemovable(NodeId n) const {
  const Node& node = g_.node(n);
  if (!node.blocks.empty()) return false;
  const std::string& name = node.op.name();
  if (absl::StartsWith(name, op::kPrimNamespace)) return name != op::kPrimPrint && name != op::kPrimRaiseException;
  if (absl::StartsWith(name, op::kPrivateAssertPrefix) || node.outputs.empty()) {
    // Writes were replaced. A remaining node without outputs is a check.
    const FunctionSchema* schema = FindSchema(node.op);
    return schema != nullptr && schema->IsMutable();
  }
  // A draw advances the generator. For one in place, the functional form does.
  if (GetOpInfo(node.op).kind != OpKind::kRandom) return true;
  const FunctionSchema* schema = FindSchema(node.op);
  return schema != nullptr && schema->IsMutable();
}

// A value that both branches return is known without the branch. A result that nothing reads would be copied for
// nothing.
void Functionalizer::EraseUnusedResults(NodeId n) {
  for (int k = static_cast<int>(g_.node(n).outputs.size()) - 1; k >= 0; --k) {
    if (!g_.value(g_.node(n).outputs[k]).uses.empty()) continue;
    g_.EraseNodeOutput(n, k);
    for (BlockId b : g_.node(n).blocks) g_.EraseResult(b, k);
  }
}

namespace {

// Returns whether the operator reads only the sizes of its first operand.
bool ReadsSizesAlone(const std::string& name) {
  return absl::EndsWith(name, "_like") || absl::StartsWith(name, op::kNewPrefix) || name == op::kZero ||
         name == op::kFill;
}

}  // namespace

// Returns whether readers need every element of one of the results. Views of parts are assumed to be disjoint.
bool Functionalizer::IsWhollyRead(NodeId n) const {
  for (ValueId v : g_.node(n).outputs) {
    const Type& t = g_.value(v).type;
    if (g_.value(v).uses.empty()) continue;
    if (!t.IsTensor() || !t.tensor().sizes) return true;
    const Expr all = Product(*t.tensor().sizes);
    Expr left = all;
    for (const Use& use : g_.value(v).uses) {
      const Node& user = g_.node(use.user);
      if (use.index == 0 && ReadsSizesAlone(user.op.name())) continue;
      const bool is_view = user.op == op::kSmeltView && g_.value(user.outputs[0]).type.tensor().sizes;
      left = left - (is_view ? Product(*g_.value(user.outputs[0]).type.tensor().sizes) : all);
    }
    if (!left.IsConstant() || *left.Constant() <= 0) return true;
  }
  return false;
}

// Nothing reads the results, or a part of them, but PyTorch may refuse to compute them.
void Functionalizer::KeepComputed(NodeId n) {
  static const OpName kComputed = OpName::Get(op::kSmeltAssertComputed);
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  for (ValueId v : outputs) {
    if (!g_.value(v).type.IsTensor()) continue;
    const NodeId kept = g_.InsertAfter(n, kComputed, {v}, {});
    g_.SetSource(kept, g_.node(n).source);
    return;  // all are made together
  }
}

void Functionalizer::EraseDead(BlockId b, const absl::flat_hash_set<NodeId>& kept) {
  for (NodeId n = g_.block(b).last, previous; n.valid(); n = previous) {
    const Node& node = g_.node(n);
    previous = node.prev;
    if (node.op == op::kPrimIf || node.op == op::kSmeltCond) EraseUnusedResults(n);
    for (BlockId inner : node.blocks) EraseDead(inner, kept);
    const bool used =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return !g_.value(v).uses.empty(); });
    if (!used && (!IsRemovable(n) || kept.contains(n))) continue;
    if (MayRefuseData(g_, n)) {
      if (!IsWhollyRead(n)) KeepComputed(n);
    } else if (!used) {
      g_.Erase(n);
    }
  }
}

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
  return Functionalizer(g, options).Run();
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
            MergeDuplicates(g, duplicates);
            return true;
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
