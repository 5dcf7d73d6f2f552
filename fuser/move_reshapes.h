// Reshapes that part loops which could be one, moved past pointwise operators.
//
//   a group norm's rows are [N, G, C/G * H * W], what follows it runs over [N, C, H, W]:
//     silu(reshape(y))                    ->  reshape(silu(y))
//   the rows of two means are [N, C, H * W], what feeds them runs over [N, C, H, W]:
//     y = sigmoid(x), mean(reshape(y))    ->  y = sigmoid(reshape(x)), mean(y)
//
// Only reshapes that copy nothing, in any call: of all that an operator reads, and of its result. Where something else
// in the operator's own shape could share its loop, it stays. Linear in the number of nodes.
#ifndef SMELT_FUSER_MOVE_RESHAPES_H_
#define SMELT_FUSER_MOVE_RESHAPES_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Of a graph after ExpandComposites. Returns how many operators run over another shape than before.
int MoveReshapes(Graph& g);

// "move-reshapes".
Pass MoveReshapesPass();

}  // namespace smelt

#endif  // SMELT_FUSER_MOVE_RESHAPES_H_
