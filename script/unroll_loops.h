// Turns TorchScript's loops with a constant number of trips into straight code if that shows what they do:
// - loops around an operator whose result's size depends on data (nonzero, a mask as an index): each of these sizes
//   then has a name of its own;
// - loops that fill a list that is returned, whose length is needed, or that holds numbers: its length is known;
// - loops that take tensors or words out of lists: the elements are known;
// - loops without tensors: their counts are known.
//
//   UnrollLoops(graph);   // for i in range(3): x[x > i] = 0
//
// A loop that may end early stays as it is, and so does one whose code would grow beyond some thousand nodes.
#ifndef SMELT_SCRIPT_UNROLL_LOOPS_H_
#define SMELT_SCRIPT_UNROLL_LOOPS_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns whether a loop was unrolled.
bool UnrollLoops(Graph& g);

}  // namespace smelt

#endif  // SMELT_SCRIPT_UNROLL_LOOPS_H_
