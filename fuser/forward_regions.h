// Replaces reads of a written region by the written value:
//
//   i, j = y.chunk(2, 1);  i.sigmoid_();  j.tanh_();  return i * j      ->  sigmoid(y[:, :n]) * tanh(y[:, n:])
//
// A view of a smelt::write_region's result that shows exactly the region is the written value. A view that shows
// nothing of it is a view of the base. If only such views read a memory that is written region by region, the memory
// disappears. If it is needed, pointwise operators still take the value: they join the loop that makes it, instead of
// waiting for it to be stored.
#ifndef SMELT_FUSER_FORWARD_REGIONS_H_
#define SMELT_FUSER_FORWARD_REGIONS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Runs on a graph after ExpandComposites. Returns the number of views that are erased, or show another value. Linear in
// the number of nodes, except for the regions of one memory: each view is compared with at most 16 of them.
int ForwardRegions(Graph& g);

// "forward-regions".
Pass ForwardRegionsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_FORWARD_REGIONS_H_
