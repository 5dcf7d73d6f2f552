// The layout rules of operators, evaluated on the layouts of operands for which PyTorch's results are recorded.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/recorded_layouts.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/pipeline/result_layout.h"

namespace smelt {
namespace {

// A rule, for calls that differ in the layouts of operands only.
struct RuleOfCall {
  std::string arguments;
  OpName op;
  std::unique_ptr<Graph> graph;
  ResultLayout layout;
  bool has_lists = false;  // among the results
};

RuleOfCall Describe(const RecordedLayout& call) {
  RuleOfCall out = {call.arguments, call.op, std::make_unique<Graph>(), {}};
  Graph& g = *out.graph;
  const NodeId n = AddCall(g, call);
  std::vector<size_t> results;
  for (size_t k = 0; k < g.node(n).outputs.size(); ++k) {
    results.push_back(k);
    out.has_lists = out.has_lists || !g.value(g.node(n).outputs[k]).type.IsTensor();
  }
  const std::vector<ValueId> operands(g.node(n).inputs.begin(), g.node(n).inputs.end());
  if (!out.has_lists) out.layout = DescribeResultLayout(g, call.op, operands, results);
  return out;
}

void AddTensors(const OpArg& a, std::vector<const TensorType*>& out) {
  if (a.IsTensor()) out.push_back(&a.tensor);
  for (const OpArg& e : a.elements) AddTensors(e, out);
}

absl::StatusOr<std::vector<EvaluatedLayout>> Evaluate(const RuleOfCall& rule, const RecordedLayout& call) {
  if (rule.layout.rule.empty()) return std::vector<EvaluatedLayout>(call.sizes.size());
  std::vector<const TensorType*> tensors;
  for (const OpArg& a : call.args) AddTensors(a, tensors);
  absl::flat_hash_map<ValueId, const TensorType*> type_of;
  for (size_t k = 0; k < tensors.size(); ++k) type_of[rule.graph->inputs()[k]] = tensors[k];
  std::vector<LayoutInput> inputs;
  for (ValueId v : rule.layout.operands) {
    const TensorType& t = *type_of.at(v);
    inputs.push_back({{Numbers(*t.sizes), Numbers(*t.strides), 0}});
  }
  return EvaluateLayoutRule(rule.layout.rule, inputs);
}

// Returns where the layouts differ from PyTorch's; "" if they do not.
std::string Difference(const std::vector<EvaluatedLayout>& layouts, const RecordedLayout& call) {
  for (size_t k = 0; k < call.sizes.size() && k < layouts.size(); ++k) {
    const std::vector<int64_t>& sizes = call.sizes[k];
    const std::optional<std::vector<int64_t>> expected = ExpectedStrides(call.strides[k], sizes);
    if (!expected || layouts[k].kind == LayoutResult::kUnknown) continue;
    const std::vector<int64_t> strides =
        layouts[k].kind == LayoutResult::kContiguous ? Geometry::Contiguous(sizes).strides : layouts[k].strides;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != 1 && (strides.size() != sizes.size() || strides[d] != (*expected)[d])) {
        return absl::StrCat(call.op.full(), " ", call.arguments, " in ", call.layout, ": strides [",
                            absl::StrJoin(strides, ", "), "] instead of [", absl::StrJoin(*expected, ", "), "]");
      }
    }
  }
  return "";
}

TEST(RecordedResultLayoutsTest, RulesOfOperatorsGivePyTorchsStrides) {
  int calls = 0;
  std::map<std::string, std::string> refused;  // by operator: a call that inference covers and the rule does not
  RuleOfCall rule;
  ForEachRecordedLayout([&](const RecordedLayout& call) {
    const OpKind kind = GetOpInfo(call.op).kind;
    // A write is described by its functional form.
    if (kind == OpKind::kOut || kind == OpKind::kInplace || kind == OpKind::kInplaceView) return;
    const absl::StatusOr<std::vector<InferredOutput>> inferred = InferCall(OpCall(call.op, call.args), {});
    if (!inferred.ok()) return;
    for (const InferredOutput& o : *inferred) {
      if (!o.type.IsTensor() || !o.type.tensor().IsComplete()) return;
    }
    if (rule.op != call.op || rule.arguments != call.arguments) rule = Describe(call);
    if (rule.has_lists) return;
    const absl::StatusOr<std::vector<EvaluatedLayout>> layouts = Evaluate(rule, call);
    if (!layouts.ok()) {
      refused.try_emplace(call.op.full(),
                          absl::StrCat(call.arguments, " in ", call.layout, ": ", layouts.status().message()));
      return;
    }
    ++calls;
    EXPECT_EQ(Difference(*layouts, call), "");
  });
  for (const auto& [op, example] : refused) std::printf("refused: %s %s\n", op.c_str(), example.c_str());
  EXPECT_GT(calls, 50000);
  EXPECT_LE(refused.size(), 10u);
}

}  // namespace
}  // namespace smelt
