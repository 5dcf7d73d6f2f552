// TorchScript's loops of a constant number of trips around an operator whose result's size the data decide (nonzero, a
// mask as an index) become straight code: there each of these sizes has a name of its own. So do those that fill a list
// which is returned or whose length is asked for: there it is known how long it is. And those that take
// tensors out of lists: it is known which. And those that fill a list of numbers or have no tensors at all: what they
// count is known then.
//
//   UnrollLoops(graph);   // for i in range(3): x[x > i] = 0
//
// A loop that may end early stays as it is, and one whose code would grow beyond some thousand nodes.
#ifndef SMELT_FUNCTIONALIZE_UNROLL_LOOPS_H_
#define SMELT_FUNCTIONALIZE_UNROLL_LOOPS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Whether there was one.
bool UnrollLoops(Graph& g);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_UNROLL_LOOPS_H_
