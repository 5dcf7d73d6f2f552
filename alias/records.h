// The facts about each value and each node: the set that a value points to, and places in the text. Private to alias/.
//
//   Records records(graph, tree);
//   records.RecordOf(v).points_to = set;
//   records.PointsTo(v);
//
// Invariants: a fact is of the value or node that has the index now; that of one which is gone reads as none. Positions
// are counted once, when everything is evaluated, and are only ever forgotten: a question about a node without one walks
// up the blocks. Known positions are in the order of the text, whatever is edited.
#ifndef SMELT_ALIAS_RECORDS_H_
#define SMELT_ALIAS_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "smelt/alias/block_tree.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// The kinds of objects that a value of a type may be. The first alone: a tensor and nothing else.
constexpr uint32_t kMayBeTensor = 1, kMayBeContainer = 2, kNeither = 4;

struct NodeRecord {
  enum Flags : uint16_t {
    kEvaluated = 1,
    kQueued = 2,
    kEscapes = 4,
    kGeometry = 8,
    kStores = 16,
    kMovesStorage = 32,
    kInputsChanged = 64,
    kWide = 128,        // it has many arguments or results: what changes among them is noted one by one
    kReturn = 512,      // the end of a block, if building has entered that
    kUnrecorded = 256,  // its accesses are not recorded yet: see AccessRecorder
  };
  static constexpr size_t kMany = 32;
  uint32_t generation = 0;
  // The place in the text, counted when everything was evaluated: pre-order, blocks' parameters and results included. 0
  // if it is not known, as for all nodes that were inserted or moved since. Known places stay in order, whatever is
  // edited.
  uint32_t position = 0;
  uint32_t first_write = 0, first_read = 0;
  uint16_t flags = 0;
  uint8_t turns = 0;  // evaluations in this Propagate
};

struct ValueRecord {
  uint32_t generation = 0;
  SetId points_to = 0;
  uint32_t own : 29 = 0;  // the object that the value's node makes for it
  uint32_t type : 3 = 0;  // what the graph says of its type: see kMayBeTensor; 0: not asked yet
  // The scope, as positions: its node's, the last inside its node, and its block's return node's (as index of the
  // node). 0 if not known. Most queries about scopes need no more, and so read nothing of the graph.
  uint32_t from = 0, after = 0, scope = 0;
};

class Records {
 public:
  Records(const Graph& g, const BlockTree& tree) : g_(g), tree_(tree) {}

  void Reset();  // forgets everything, and makes room for the graph
  SetId PointsTo(ValueId v) const {
    if (v.index >= values.size()) return 0;
    const ValueRecord& r = values[v.index];
    return r.generation == v.generation ? r.points_to : 0;
  }
  ValueRecord& RecordOf(ValueId v);
  NodeRecord& RecordOf(NodeId n);
  uint32_t TypeOf(ValueId v) {  // see kMayBeTensor
    const bool known = v.index < values.size() && values[v.index].generation == v.generation;
    return known && values[v.index].type != 0 ? values[v.index].type : AskType(v);
  }
  bool CanBeContainer(ValueId v) { return (TypeOf(v) & kMayBeContainer) != 0; }

  void SetPosition(NodeId n);  // while building: n is what comes next in the text
  void SetScope(ValueId v, uint32_t from, uint32_t after, uint32_t scope);
  void ForgetPosition(NodeId n);  // its blocks' parameters' too; what is inside is its own affair
  bool InScopeTogether(ValueId a, ValueId b) const;
  int64_t bytes() const {
    return static_cast<int64_t>(values.capacity() * sizeof(ValueRecord) + nodes.capacity() * sizeof(NodeRecord));
  }

  std::vector<ValueRecord> values;
  std::vector<NodeRecord> nodes;
  uint32_t last_position = 0;  // while building: how much of the text has been walked
  uint32_t top_scope = 0;      // the top block's return node's index

 private:
  uint32_t AskType(ValueId v);

  const Graph& g_;
  const BlockTree& tree_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_RECORDS_H_
