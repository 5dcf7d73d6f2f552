// Records what nodes access: reads and writes of locations. Private to alias/.
//
//   AccessRecorder recorder(state);
//   recorder.AddAccesses(n, node.inputs, effects, 0);
//   recorder.RecordUnrecorded();  // once all is built
//
// While building, only the last evaluation of a node decides what it accesses. So nodes in loops, and those that are
// evaluated again, have their accesses recorded at the end, in the order of the text. Invariant: outside building, a
// node's records are those of its last evaluation.
#ifndef SMELT_ALIAS_ACCESS_RECORDER_H_
#define SMELT_ALIAS_ACCESS_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

struct NodeRecord;

class AccessRecorder {
 public:
  explicit AccessRecorder(AliasDb::State& s) : s_(s) {}

  void AddAccesses(NodeId n, absl::Span<const ValueId> inputs, const OpEffects& e, uint8_t extra_bits);
  void AddAccessesOfWait(NodeId n, const Node& node, const OpEffects& op);
  // Records that n reads the tensors that decide which of its blocks run, and those that smelt::while_loop may copy: what
  // it carries if it makes no trip.
  void AddReadsOfControl(NodeId n, const Node& node, EffectKind kind);
  void ForgetAccesses(NodeRecord& r);
  void RecordUnrecorded();
  void ActivateReads();  // from now on reads are recorded, too

  bool deferring = false;        // until RecordUnrecorded
  bool defers_accesses = false;  // of the node at hand

 private:
  void AddAccess(NodeId n, Ref object, Ref storage, uint8_t bits, size_t arg);
  // The same for one of the handles, in whichever of its storages.
  void AddAccessesTo(NodeId n, SetId handles, uint8_t bits, size_t arg);
  void RecordAccessesOf(NodeId n);
  SetId TensorsOf(SetId s);
  SetId ContainersOf(SetId s);

  AliasDb::State& s_;
  std::vector<NodeId> unrecorded_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_ACCESS_RECORDER_H_
