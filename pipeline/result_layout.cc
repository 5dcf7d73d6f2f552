#include "smelt/pipeline/result_layout.h"

#include <algorithm>
#include <array>

#include "absl/functional/function_ref.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/call_graph.h"
#include "smelt/pipeline/probe_layouts.h"

namespace smelt {
namespace {

using Exprs = std::vector<Expr>;
using probe_layouts::ChannelsLast;
using probe_layouts::Gapped;
using probe_layouts::Reversed;
using probe_layouts::ReversedRows;

// The tensors among the operands and in lists of them, as CallGraph meets them.
std::vector<ValueId> Tensors(const Graph& g, absl::Span<const ValueId> operands) {
  std::vector<ValueId> out;
  for (ValueId v : operands) {
    if (!v.valid()) continue;
    if (g.value(v).type.IsTensor()) {
      out.push_back(v);
    } else if (auto elements = GetListElements(g, v)) {
      for (ValueId e : *elements) {
        if (g.value(e).type.IsTensor()) out.push_back(e);
      }
    }
  }
  return out;
}

// An operator on values of a graph.
struct Question {
  const Graph& g;
  OpName op;
  absl::Span<const ValueId> operands;
  size_t num_results;
};

absl::StatusOr<std::vector<TensorType>> ResultTypes(const Question& q, const CallGraph::StridesOf& strides_of) {
  CallGraph call(q.g, /*flat=*/false, strides_of);
  std::vector<ValueId> operands;
  for (ValueId v : q.operands) {
    if (!v.valid()) {
      operands.push_back(call.Constant(std::monostate()));
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(v));
    operands.push_back(x);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> results, call.Apply(q.op, operands, q.num_results, nullptr));
  std::vector<TensorType> types;
  for (ValueId v : results) {
    const Type& type = call.graph().value(v).type;
    if (!type.IsTensor()) continue;
    if (!type.tensor().sizes || !type.tensor().strides) return absl::UnimplementedError("a result of unknown layout");
    types.push_back(type.tensor());
  }
  return types;
}

// What the results do when some operands lie otherwise than contiguously.
struct Answer {
  bool decides = false;  // some result is laid out otherwise
  bool preserve = true;  // as empty_like lays it out
  bool keep = true;      // with the operand's very strides
  bool format = true;    // channels-last where the operand is, of three to five dims both
  bool order = true;     // dense, of as many dims as the operand and in the order that its dims have
};

Answer Ask(const Question& q, const std::vector<TensorType>& plain, absl::FunctionRef<bool(int)> asked) {
  Answer answer;
  struct Probe {
    Exprs (*lay)(const Exprs&);
    bool gaps, last;
  };
  for (const Probe& probe :
       {Probe{Reversed, false, false}, Probe{ChannelsLast, false, true}, Probe{Gapped, true, false}}) {
    Exprs given, sizes_of;
    const auto got = ResultTypes(q, [&](int index, const Exprs& sizes) {
      if (!asked(index)) return ContiguousStrides(sizes);
      sizes_of = sizes;
      return given = probe.lay(sizes);
    });
    if (!got.ok() || got->size() != plain.size()) return {true, false, false, false, false};
    for (size_t r = 0; r < got->size(); ++r) {
      const TensorType& type = (*got)[r];
      const bool same = type.strides == plain[r].strides, follows = type.sizes == sizes_of && type.strides == given;
      const bool has_format = probe.last && type.rank() >= 3 && type.rank() <= 5 && sizes_of.size() == type.rank();
      answer.format = answer.format && (has_format ? *type.strides == ChannelsLast(*type.sizes) : same);
      answer.order = answer.order && type.rank() == static_cast<int>(sizes_of.size()) &&
                     (probe.gaps ? same : *type.strides == probe.lay(*type.sizes));
      // A result of another shape has no part in what is said of those that have the operand's.
      if (same && (follows || type.sizes != sizes_of)) continue;
      answer.decides = answer.decides || !same;
      answer.keep = answer.keep && follows;
      answer.preserve = answer.preserve && (probe.gaps ? same : follows);
    }
  }
  return answer;
}

// Whether a size that another call may change is 0 or 1 in the example: what is asked of such shows little.
bool IsDegenerate(const Graph& g, ValueId v) {
  const TensorType& t = g.value(v).type.tensor();
  return t.sizes && std::any_of(t.sizes->begin(), t.sizes->end(), [&](const Expr& size) {
           if (size.IsConstant()) return false;
           const absl::StatusOr<int64_t> n = size.Evaluate(g.symbol_hints);
           return n.ok() && *n <= 1;
         });
}

// Whether the one result lies as the first operand, which keeps its rows and lies otherwise in front of them.
bool LiesAsRows(const Question& q) {
  Exprs given;
  const auto got = ResultTypes(q, [&](int index, const Exprs& sizes) {
    return index == 0 ? given = ReversedRows(sizes) : ContiguousStrides(sizes);
  });
  return got.ok() && got->size() == 1 && got->front().strides == given &&
         given != ContiguousStrides(*got->front().sizes);
}

}  // namespace

ResultLayout DescribeResultLayout(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const std::vector<ValueId> operands(node.inputs.begin(), node.inputs.end());
  return DescribeResultLayout(g, node.op, operands, node.outputs.size());
}

ResultLayout DescribeResultLayout(const Graph& g, OpName op, absl::Span<const ValueId> operands, size_t num_results) {
  const Question q{g, op, operands, num_results};
  ResultLayout out;
  const std::vector<ValueId> tensors = Tensors(g, operands);
  const auto plain = ResultTypes(q, nullptr);
  if (!plain.ok()) return {fb::EagerLayout::Dense, tensors};
  Answer last;
  bool format = true;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Answer answer = Ask(q, *plain, [&](int index) { return index == static_cast<int>(k); });
    if (!answer.decides) continue;
    out.deciding.push_back(tensors[k]);
    last = answer;
    format = format && answer.format;
  }
  if (out.deciding.empty()) {  // none alone, as those of cat
    const Answer answer = Ask(q, *plain, [](int) { return true; });
    if (answer.decides) {
      out = {answer.format ? fb::EagerLayout::FormatOfAll : fb::EagerLayout::Dense, tensors};
    } else if (LiesAsRows(q)) {
      out = {fb::EagerLayout::Rows, tensors};
    }
    return out;
  }
  const bool one = out.deciding.size() == 1;
  out.kind = format                 ? fb::EagerLayout::Format
             : one && last.keep     ? fb::EagerLayout::Keep
             : one && last.preserve ? fb::EagerLayout::Preserve
             : one && last.order    ? fb::EagerLayout::Order
                                    : fb::EagerLayout::Dense;
  const bool is_degenerate = std::any_of(tensors.begin(), tensors.end(), [&](ValueId v) { return IsDegenerate(g, v); });
  if (is_degenerate && out.kind != fb::EagerLayout::Format) out.kind = fb::EagerLayout::Dense;
  return out;
}

}  // namespace smelt
