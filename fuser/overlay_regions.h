// Turns regions that are written into values that are not in memory yet into selections by index:
//
//   y = x * 2;  y[:, :8] = 0;  z = y + 1      ->  z = (column < 8 ? 0 : x * 2) + 1, in one kernel
//
// smelt::write_region takes over its base's memory: the base is stored, the region is stored into it, and both are read
// again. `smelt::overlay` with the same operands and attributes selects each element, and fuses with the base's node
// and with the readers of the result.
//
// A region becomes an overlay
// - if a kernel makes the base, so that nothing needs to be stored before the region is, or if only one kernel reads
//   the result, so that nothing needs to be stored at all;
// - if it runs along dims of the base, without gaps in the innermost: a few comparisons decide whether an element is in
//   it. (For rows of at most four elements, also with gaps, a kernel knows it for each element.)
// - if it is one of few that are written one after the other: each element checks all of them.
//
// Linear in the number of nodes.
#ifndef SMELT_FUSER_OVERLAY_REGIONS_H_
#define SMELT_FUSER_OVERLAY_REGIONS_H_

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/core/pass/written_inputs.h"

namespace smelt {

// Runs on a graph after ExpandComposites. `written` are the inputs whose memory the call rewrites. A value made of such
// an input stays a region if it would be read at other indices than it is written at. Returns the number of regions
// that are now chosen by index.
//
// With `few_launches` every region that a kernel can choose by index is an overlay, whatever is stored more often.
int OverlayRegions(Graph& g, const absl::flat_hash_set<ValueId>& written, bool few_launches = false);

// Reads WrittenInputs, and FuseOptions::few_launches.
Pass OverlayRegionsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_OVERLAY_REGIONS_H_
