// The tensors that a node of a graph that writes reads.
#ifndef SMELT_PIPELINE_TENSOR_OPERANDS_H_
#define SMELT_PIPELINE_TENSOR_OPERANDS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Calls f(v) for each tensor among the operands, in lists too, in order.
template <typename F>
void ForTensorOperands(const Graph& g, NodeId n, const F& f) {
  for (ValueId v : g.node(n).inputs) {
    if (g.value(v).type.IsTensor()) {
      f(v);
    } else if (auto list = GetListElements(g, v)) {
      for (ValueId e : *list) {
        if (g.value(e).type.IsTensor()) f(e);
      }
    }
  }
}

}  // namespace smelt

#endif  // SMELT_PIPELINE_TENSOR_OPERANDS_H_
