// Regions written into what is no memory yet:
//
//   y = x * 2;  y[:, :8] = 0;  z = y + 1      ->  z = (column < 8 ? 0 : x * 2) + 1, in one kernel
//
// smelt::write_region takes its base's memory over: the base is stored, the region is stored into it, and both are read
// again. `smelt::overlay` of the same operands and attributes is an element by element choice, which fuses with what
// makes the base and with what reads the result. A region becomes one
//   - where a kernel makes the base, so that nothing needs to be stored before the region is, or where one kernel alone
//     reads the result, so that nothing needs to be stored at all;
//   - where it lies along dims of the base, in the innermost without gaps: whether an element lies in it is a few
//     comparisons. (Of rows, and with gaps, of at most four elements a kernel knows for each.)
//   - of a few that are written one after the other: each element asks for all of them.
// Linear in the number of nodes.
#ifndef SMELT_FUSER_OVERLAY_REGIONS_H_
#define SMELT_FUSER_OVERLAY_REGIONS_H_

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/core/pass/written_inputs.h"

namespace smelt {

// Of a graph after ExpandComposites. `written`: the inputs whose memory the call rewrites; what is made of it stays a
// region where it would be read at other indices than it is written at. Returns how many regions are chosen from by
// index now.
int OverlayRegions(Graph& g, const absl::flat_hash_set<ValueId>& written);

// Reads WrittenInputs.
Pass OverlayRegionsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_OVERLAY_REGIONS_H_
