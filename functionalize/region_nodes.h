// Inserts the nodes of the pure form that show or replace a part of a memory's contents.
//
//   RegionNodes regions(g, position);
//   const ValueId row = regions.View(anchor, contents, geometry);
//   const ValueId next = regions.Write(anchor, contents, value, geometry);
//
// Unrolled loops come back to the same regions, so attributes and types are made once and shared.
#ifndef SMELT_FUNCTIONALIZE_REGION_NODES_H_
#define SMELT_FUNCTIONALIZE_REGION_NODES_H_

#include <vector>

#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/walk_position.h"

namespace smelt {

class RegionNodes {
 public:
  // Both outlive this object.
  RegionNodes(Graph& g, const WalkPosition& at) : g_(g), at_(at) {}

  // `home`: for a memory that several arguments share, the argument that the geometry counts from; else -1.
  ValueId View(NodeId anchor, ValueId base, const SymbolicGeometry& geometry, int home = -1);
  // Returns contents that equal `base` except in the region, where they are `v`.
  ValueId Write(NodeId anchor, ValueId base, ValueId v, const SymbolicGeometry& geometry, int home = -1);

 private:
  const Attributes& AttributesOf(const SymbolicGeometry& geometry, int home);
  const Type& TypeOfView(const SymbolicGeometry& geometry);

  Graph& g_;
  const WalkPosition& at_;
  std::vector<Attributes> attributes_ = std::vector<Attributes>(256);  // the latest, by a hash of the offset
  Type last_type_;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_REGION_NODES_H_
