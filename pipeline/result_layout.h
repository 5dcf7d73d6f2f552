// Describes PyTorch's layout of an operator's results for operands with any layout, for the eager-order plan, whose
// calls compute on contiguous operands. The rule is that of inference (core/op), written as data.
//
//   ResultLayout layout = DescribeResultLayout(graph, op, operands, {0});   // flip: as empty_like of its operand
//   EvaluateLayoutRule(layout.rule, ...);                                   // core/tensor/layout_rule.h
#ifndef SMELT_PIPELINE_RESULT_LAYOUT_H_
#define SMELT_PIPELINE_RESULT_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct ResultLayout {
  std::vector<int64_t> rule;      // empty: the results are contiguous, or have sizes that are known only in the call
  std::vector<ValueId> operands;  // the rule's inputs
};

// Describes the layout of the results with these numbers. An invalid operand stands for None; one of unknown sizes may
// have any. If inference does not decide, the rule covers contiguous operands only.
ResultLayout DescribeResultLayout(const Graph& g, OpName op, absl::Span<const ValueId> operands,
                                  absl::Span<const size_t> results, const Graph::Attributes& attributes = {});

}  // namespace smelt

#endif  // SMELT_PIPELINE_RESULT_LAYOUT_H_
