#include "smelt/pipeline/result_layout.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/layout_rule_builder.h"
#include "smelt/core/tensor/layout_trace.h"
#include "smelt/pipeline/call_graph.h"

namespace smelt {
namespace {

// An operand of unknown sizes is represented by one with this many dims; the rule must then not depend on the number.
constexpr int kRankOfUnknown = 3;

Expr StrideSymbol(int tensor, size_t dim) { return Expr::Symbol(absl::StrCat("a", tensor, ".stride", dim)); }

std::vector<Expr> StrideSymbols(int tensor, const std::vector<Expr>& sizes) {
  std::vector<Expr> strides;
  for (size_t d = 0; d < sizes.size(); ++d) strides.push_back(StrideSymbol(tensor, d));
  return strides;
}

// The operator on operands whose strides are symbols.
struct Question {
  CallGraph call;
  OpCall op_call;
  SymbolRanges ranges;
  absl::flat_hash_map<std::string, int64_t> hints;
  std::vector<LayoutRuleOperand> operands;
};

absl::Status Ask(const Graph& g, OpName op, absl::Span<const ValueId> operands, size_t num_results,
                 const Graph::Attributes& attributes, Question& q) {
  std::vector<ValueId> args;
  for (ValueId v : operands) {
    if (!v.valid()) {
      args.push_back(q.call.Constant(std::monostate()));
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(const ValueId x, q.call.Operand(v));
    args.push_back(x);
  }
  Graph& graph = q.call.graph();
  const NodeId n = graph.Append(graph.top(), op, args, std::vector<Type>(num_results, Type::Tensor()),
                                Graph::Attributes(attributes));
  SMELT_ASSIGN_OR_RETURN(q.op_call, OpCall::Of(graph, n));
  q.hints = graph.symbol_hints;
  for (ValueId v : graph.inputs()) {
    LayoutRuleOperand& operand = q.operands.emplace_back();
    const Value& value = graph.value(v);
    if (!value.type.IsTensor()) {
      if (value.expr && value.expr->IsSymbol()) operand.number = value.expr->SymbolName();
      continue;
    }
    const TensorType& t = value.type.tensor();
    operand.geometry = {*t.sizes, *t.strides, Expr(0)};
    int64_t stride = 1;  // a contiguous operand is the usual one
    for (size_t d = t.sizes->size(); d-- > 0;) {
      q.hints[(*t.strides)[d].SymbolName()] = stride;
      const absl::StatusOr<int64_t> size = (*t.sizes)[d].Evaluate(q.hints);
      stride *= size.ok() && *size > 0 && *size < 1 << 10 ? *size : 4;
    }
  }
  q.ranges = WithHints(graph.symbols.Accepted(), q.hints);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<InferredLayout>> Infer(const Question& q, absl::Span<const size_t> results) {
  SMELT_ASSIGN_OR_RETURN(const std::vector<InferredOutput> out, InferCall(q.op_call, q.ranges));
  std::vector<InferredLayout> layouts;
  for (size_t k : results) {
    if (k >= out.size()) return absl::UnimplementedError("a result that inference does not give");
    InferredLayout& layout = layouts.emplace_back();
    if (!out[k].type.IsTensor()) continue;
    const TensorType& t = out[k].type.tensor();
    if (t.sizes && t.strides) layout = ExprGeometry{*t.sizes, *t.strides, Expr(0)};
  }
  return layouts;
}

// Returns whether inference has a layout for the results of contiguous operands.
bool IsInferredAtAll(const Graph& g, OpName op, absl::Span<const ValueId> operands, size_t num_results,
                     const Graph::Attributes& attributes) {
  CallGraph call(g, /*flat=*/false, nullptr, kRankOfUnknown);
  std::vector<ValueId> args;
  for (ValueId v : operands) {
    absl::StatusOr<ValueId> x = v.valid() ? call.Operand(v) : call.Constant(std::monostate());
    if (!x.ok()) return true;
    args.push_back(*x);
  }
  return call.Apply(op, args, num_results, nullptr, Graph::Attributes(attributes)).ok();
}

// Refuses operands that are not contiguous.
std::vector<int64_t> RuleOfContiguous(const Graph& g, absl::Span<const ValueId> operands, size_t results) {
  std::vector<int64_t> rule = {static_cast<int64_t>(operands.size()), 0};
  const auto tensors =
      std::count_if(operands.begin(), operands.end(), [&](ValueId v) { return g.value(v).type.IsTensor(); });
  const int64_t refusal = 2 + 5 * tensors + 2 + static_cast<int64_t>(results);
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!g.value(operands[k]).type.IsTensor()) continue;
    const int64_t next = static_cast<int64_t>(rule.size()) + 5;
    rule.insert(rule.end(),
                {static_cast<int64_t>(LayoutStep::kTest), static_cast<int64_t>(LayoutTrace::Predicate::kIsContiguous),
                 -1 - static_cast<int64_t>(k), next, refusal});
  }
  rule.insert(rule.end(), {static_cast<int64_t>(LayoutStep::kDone), static_cast<int64_t>(results)});
  rule.insert(rule.end(), results, static_cast<int64_t>(LayoutResult::kUnknown));
  rule.push_back(static_cast<int64_t>(LayoutStep::kRefuse));
  return rule;
}

// Returns whether every result is contiguous or of unknown sizes, whatever the operands are.
bool IsPlain(const std::vector<int64_t>& rule) {
  const size_t first = 2 + 3 * static_cast<size_t>(rule[1]);
  if (rule[first] != static_cast<int64_t>(LayoutStep::kDone)) return false;
  return std::all_of(rule.begin() + static_cast<std::ptrdiff_t>(first) + 2, rule.end(), [](int64_t word) {
    return word == static_cast<int64_t>(LayoutResult::kContiguous) ||
           word == static_cast<int64_t>(LayoutResult::kUnknown);
  });
}

}  // namespace

ResultLayout DescribeResultLayout(const Graph& g, OpName op, absl::Span<const ValueId> operands,
                                  absl::Span<const size_t> results, const Graph::Attributes& attributes) {
  // smelt's own operators have one layout of results, whatever their operands' strides are.
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) return {};
  // Inference gives a type to every result, also to those that nobody reads.
  size_t num_results = schema->returns.size();
  for (size_t k : results) num_results = std::max(num_results, k + 1);
  Question q{CallGraph(g, /*flat=*/false, StrideSymbols, kRankOfUnknown), {}, {}, {}, {}};
  const auto rule = [&]() -> absl::StatusOr<std::vector<int64_t>> {
    SMELT_RETURN_IF_ERROR(Ask(g, op, operands, num_results, attributes, q));
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> rule,
                           BuildLayoutRule(q.operands, q.ranges, q.hints, [&] { return Infer(q, results); }));
    if (q.call.has_unknown_rank() && rule[1] != 0) return absl::UnimplementedError("operands of unknown rank");
    return rule;
  }();
  if (rule.ok() && IsPlain(*rule)) return {};
  // Inference knows nothing of a size that depends on data: the kernel chooses the layout of such a result.
  if (!rule.ok() && !IsInferredAtAll(g, op, operands, num_results, attributes)) return {};
  ResultLayout out;
  out.operands = q.call.operands();
  out.rule = rule.ok() ? *rule : RuleOfContiguous(g, out.operands, results.size());
  return out;
}

}  // namespace smelt
