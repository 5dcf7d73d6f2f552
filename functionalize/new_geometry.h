// After t_, resize_ or set_ every name of the tensor has the new geometry, while a value has only one type. Later nodes
// therefore use the name whose type is correct, the result of the operator.
//
//   %1 = aten::t_(%x); %2 = aten::select(%x, 0, 0)   ->   %2 = aten::select(%1, 0, 0)
#ifndef SMELT_FUNCTIONALIZE_NEW_GEOMETRY_H_
#define SMELT_FUNCTIONALIZE_NEW_GEOMETRY_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

bool ChangesGeometry(OpName op);  // of its first operand

// Returns whether the only result is the first operand itself, written or changed.
bool ReturnsItsOperand(const Graph& g, NodeId n);

// Gives the result of a node in the top block that changes a geometry its own value. Returns whether something uses the
// new name. Inside branches and loops the order of the text is not that of execution, so nothing is done there.
bool UseNewGeometry(Graph& g, NodeId n);

// Does so for all nodes of the top block.
void UseNewGeometries(Graph& g);

// Requires resolved lists. Afterwards every use in the top block names a value whose type is correct at that point.
Pass UseNewGeometriesPass();

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_NEW_GEOMETRY_H_
