// Finds the value in whose storage another value lies.
//
// In the pure form, and in the plan made of it, smelt::view is the only operator whose result lies in its operand's
// storage: write_region makes new contents.
//
//   StorageOf(g, v)        // smelt::view(smelt::view(x)): x
//
// In a graph that writes, the effects of an operator say in which operand's storage a result lies.
//
//   StorageStep(g, v)      // x.select(0, 1): {kOperand, x}    x.add_(1): {kOperand, x, same_tensor}    x + 1: {kOwn}
//   SameTensor(g, v)       // x.add_(1).mul_(2): x
//
// Only operands are followed, from a value to the one before it: a step takes as long as the effects of one node. Which
// other values share the storage is for the alias database to say.
#ifndef SMELT_CORE_OP_STORAGE_OF_H_
#define SMELT_CORE_OP_STORAGE_OF_H_

#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns the smelt::view that makes `v`; invalid if `v` is something else.
NodeId ViewNodeOf(const Graph& g, ValueId v);

// Returns the value whose storage `v` shows, through any number of smelt::view: `v` itself if it is no view. Takes as
// many steps as there are views.
ValueId StorageOf(const Graph& g, ValueId v);

// The storage of a value, as far as its own node says.
struct StorageSource {
  enum Kind {
    kUnknown,  // one of several operands', or not one that an operand has; elements of a list that may have changed
    kOwn,      // a parameter, a constant, or memory that the node makes
    kOperand,  // that of one operand, or, if the operator copies in some calls, memory that the node makes
  } kind = kUnknown;
  ValueId operand = {};  // with kOperand. The pieces of a tensor have the list of them as operand, the list the tensor
  bool same_tensor = false;  // with kOperand: in every call it is the operand itself, which keeps its storage
};

// Returns the source of a tensor's storage, or of those of a list of the pieces of one tensor. Results of branches and
// loops are unknown, and so is a tensor that has just taken another one's storage (set_).
StorageSource StorageStep(const Graph& g, ValueId v);

// Returns the value that `v` is the same tensor as, through any number of in-place operators.
ValueId SameTensor(const Graph& g, ValueId v);

}  // namespace smelt

#endif  // SMELT_CORE_OP_STORAGE_OF_H_
