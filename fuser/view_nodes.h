// smelt::view nodes: the memory of one value, in another geometry.
#ifndef SMELT_FUSER_VIEW_NODES_H_
#define SMELT_FUSER_VIEW_NODES_H_

#include <utility>

#include "smelt/core/convention/symbolic_geometry.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The value whose memory holds what `v` shows, and how it lies there.
std::pair<ValueId, SymbolicGeometry> ShownMemory(const Graph& g, ValueId v);

// A view of `base`, which is no view itself, before `anchor` and with its source.
NodeId InsertView(Graph& g, NodeId anchor, ValueId base, const SymbolicGeometry& shown);

}  // namespace smelt

#endif  // SMELT_FUSER_VIEW_NODES_H_
