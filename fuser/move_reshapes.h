// Moves reshapes past pointwise operators if they split loops that could be one.
//
//   a group norm's rows are [N, G, C/G * H * W], the operators after it run over [N, C, H, W]:
//     silu(reshape(y))                    ->  reshape(silu(y))
//   the rows of two means are [N, C, H * W], their operands run over [N, C, H, W]:
//     y = sigmoid(x), mean(reshape(y))    ->  y = sigmoid(reshape(x)), mean(y)
//
// Only reshapes that copy nothing in any call are moved: those of all operands, and of the result. If something else in
// the operator's own shape could share its loop, it stays. Linear in the number of nodes.
#ifndef SMELT_FUSER_MOVE_RESHAPES_H_
#define SMELT_FUSER_MOVE_RESHAPES_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Runs on a graph after ExpandComposites. Returns the number of operators that run over another shape than before.
int MoveReshapes(Graph& g);

// "move-reshapes".
Pass MoveReshapesPass();

}  // namespace smelt

#endif  // SMELT_FUSER_MOVE_RESHAPES_H_
