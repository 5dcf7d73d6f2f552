// Follows the graph's edits: each edit notes what the next query has to solve again. Private to alias/.
//
//   Follower(state).NodeInserted(n);
//   state.solver.Flush();  // before a question
//
// A note costs what the edit touches: the users of a value, or what is inside a node that has moved. Invariant: once
// Flush has run, the facts are those of the graph as it is then. What an edit cannot take back makes the budget stale.
#ifndef SMELT_ALIAS_FOLLOWER_H_
#define SMELT_ALIAS_FOLLOWER_H_

#include <cstdint>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// The functions stand for those of GraphListener.
class Follower {
 public:
  explicit Follower(AliasDb::State& s) : s_(s) {}

  void NodeInserted(NodeId n);
  void NodeErasing(NodeId n);  // which is still there
  void NodeMoved(NodeId n, BlockId old_parent);
  void InputChanged(NodeId n, uint32_t index, ValueId old);  // old is not valid if there was none
  void InputRemoved(NodeId n);
  void OutputAdded(NodeId n, uint32_t index);
  void OutputErasing(NodeId n, uint32_t index);  // which is still there
  void BlockAdded(NodeId n);
  void TypeChanged(ValueId v);
  void AttributeChanged(NodeId n);

 private:
  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_FOLLOWER_H_
