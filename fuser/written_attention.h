// Attention that a model writes out becomes one operator of the library, which needs no memory for scores:
//
//   %s = aten::matmul(%q, %kt)
//   %t = aten::div.Tensor(%s, 8.)          # scaled, capped: c * tanh(s / c)
//   %m = aten::add.Tensor(%t, %mask, 1)    # or masked_fill and where with -inf
//   %p = aten::softmax.int(%m, -1, None)
//   %y = aten::matmul(%p, %v)
//
// becomes smelt::attention(%q, transposed %kt, %v, %mask, .125, ...). Products may be bmm and baddbmm on views of fewer
// dims. Keys and values that are repeated for several heads of queries are read once.
#ifndef SMELT_FUSER_WRITTEN_ATTENTION_H_
#define SMELT_FUSER_WRITTEN_ATTENTION_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The graph is pure. Attention of which something else reads the scores or the weights, and operands that something
// writes, stay as they are. Takes some steps for each product.
absl::Status UseAttention(Graph& g);

}  // namespace smelt

#endif  // SMELT_FUSER_WRITTEN_ATTENTION_H_
