// TorchScript's loops of a constant number of trips become straight code where that tells what they do:
// - those around an operator whose result's size the data decide (nonzero, a mask as an index): each of these sizes has
//   a name of its own then;
// - those that fill a list which is returned, whose length is asked for, or that holds numbers: it is known how long;
// - those that take tensors or words out of lists: it is known which;
// - those without tensors: what they count is known.
//
//   UnrollLoops(graph);   // for i in range(3): x[x > i] = 0
//
// A loop that may end early stays as it is, and one whose code would grow beyond some thousand nodes.
#ifndef SMELT_SCRIPT_UNROLL_LOOPS_H_
#define SMELT_SCRIPT_UNROLL_LOOPS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Whether there was one.
bool UnrollLoops(Graph& g);

}  // namespace smelt

#endif  // SMELT_SCRIPT_UNROLL_LOOPS_H_
