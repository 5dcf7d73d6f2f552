// How PyTorch lays out what an operator returns, where its operands may lie in any way: for the eager-order plan, whose
// calls compute on contiguous operands.
//
//   const ResultLayout layout = DescribeResultLayout(graph, node);   // flip: {Preserve, {self}}
#ifndef SMELT_PIPELINE_RESULT_LAYOUT_H_
#define SMELT_PIPELINE_RESULT_LAYOUT_H_

#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

struct ResultLayout {
  fb::EagerLayout kind = fb::EagerLayout::AsComputed;
  std::vector<ValueId> deciding;  // the operands on whose strides it hangs; one, but of Dense
};

// Found by asking InferNode about operands in several layouts. Dense: by a rule that is none of the others, so that
// only the result of contiguous operands is known.
ResultLayout DescribeResultLayout(const Graph& g, NodeId n);
// The same of an operator that the graph may not have, on values of the graph (or on None, where a value is not valid).
ResultLayout DescribeResultLayout(const Graph& g, OpName op, absl::Span<const ValueId> operands, size_t num_results);

}  // namespace smelt

#endif  // SMELT_PIPELINE_RESULT_LAYOUT_H_
