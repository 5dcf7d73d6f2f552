// Evaluates one node: the sets of its results, its stores and its accesses, by its kind. Private to alias/.
//
//   Evaluator evaluator(state);
//   evaluator.EvaluateKind(n, node, effects, /*first=*/true, /*inputs_changed=*/false);
//
// An evaluation takes steps in proportion to the arguments and results of the node, or to those of them that have changed
// (parts).
#ifndef SMELT_ALIAS_EVALUATOR_H_
#define SMELT_ALIAS_EVALUATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

class Evaluator {
 public:
  explicit Evaluator(AliasDb::State& s) : s_(s) {}

  void EvaluateInputs(size_t from = 0);
  void EvaluateKind(NodeId n, const Node& node, const OpEffects& op, bool first, bool inputs_changed);
  bool RunsOnce(const Node& loop) const;                        // the Loop's body certainly runs at least once
  std::optional<size_t> BranchTaken(const Node& branch) const;  // nothing: it is not known

  const std::vector<uint32_t>* parts = nullptr;  // of the node at hand; none: all
  bool making_first = false;  // the node at hand is being evaluated for the first time: nothing uses it yet
  int64_t evaluations = 0;

 private:
  void EvaluateGeneric(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed);
  void EvaluateCall(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed);
  void LivesInItself(uint32_t own);
  void EvaluatePure(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateConstant(NodeId n, const Node& node, bool first);
  void EvaluateConstruct(NodeId n, const Node& node, bool first, bool inputs_changed);
  void EvaluateElements(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateConstantChunk(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateWait(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateFork(NodeId n, const Node& node, bool first, bool inputs_changed);
  void EvaluateIf(NodeId n, const Node& node, bool is_cond, bool first);
  void EvaluateLoop(NodeId n, const Node& node, bool is_while, bool first);
  SetId WithoutTrips(ValueId out, const Type& type, SetId init);
  void SetParam(NodeId n, BlockId b, size_t i, SetId s, bool first);
  SetId ResultOf(BlockId b, size_t i);  // none: 0
  SetId ResultSet(NodeId n, const Node& node, const OpEffects& e, size_t k);
  int32_t SlotRead(NodeId n, const Node& node, const ResultEffects& r, SetId p);

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_EVALUATOR_H_
