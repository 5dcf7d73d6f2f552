// smelt::view nodes: the memory of one value, in another geometry.
#ifndef SMELT_FUSER_VIEW_NODES_H_
#define SMELT_FUSER_VIEW_NODES_H_

#include <utility>

#include "smelt/core/convention/symbolic_geometry.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns the value whose memory holds the elements of `v`, and their geometry there.
std::pair<ValueId, SymbolicGeometry> ShownMemory(const Graph& g, ValueId v);

// Inserts a view of `base`, which must not be a view itself, before `anchor` and with its source.
NodeId InsertView(Graph& g, NodeId anchor, ValueId base, const SymbolicGeometry& shown);

}  // namespace smelt

#endif  // SMELT_FUSER_VIEW_NODES_H_
