// Reads of what was written into a region:
//
//   i, j = y.chunk(2, 1);  i.sigmoid_();  j.tanh_();  return i * j      ->  sigmoid(y[:, :n]) * tanh(y[:, n:])
//
// A view of a smelt::write_region's result that shows the region is the value that was written; one that shows nothing
// of it is a view of the base. Where a memory that is written region by region is read through such views alone, it is
// no memory at all. Where it is needed, pointwise operators still take the value: they are part of the loop that makes
// it, instead of waiting for it to be stored.
#ifndef SMELT_FUSER_FORWARD_REGIONS_H_
#define SMELT_FUSER_FORWARD_REGIONS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Of a graph after ExpandComposites. Returns how many views are gone, or show another value. Linear in the number of
// nodes but for regions of one memory, of which each view is compared with at most 16.
int ForwardRegions(Graph& g);

// "forward-regions".
Pass ForwardRegionsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_FORWARD_REGIONS_H_
