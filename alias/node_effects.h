// The effects of nodes: those of their operators, or summaries of the graphs that they run. Private to alias/.
//
//   Effects effects(state);
//   OpEffects made;
//   const OpEffects& e = effects.EffectsOf(node, &made);
//
// Invariant: a summary of a graph is made once, and dropped when a node that runs the graph goes or changes.
#ifndef SMELT_ALIAS_NODE_EFFECTS_H_
#define SMELT_ALIAS_NODE_EFFECTS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

// Returns whether some argument of the operator has one of the bits.
bool AnyArgument(const OpEffects& op, uint16_t bits);

class Effects {
 public:
  explicit Effects(AliasDb::State& s) : s_(s) {}

  OpEffects EffectsOf(const Node& node);
  // The same, without a copy if they are those of the operator: else they are in *made.
  const OpEffects& EffectsOf(const Node& node, OpEffects* made);
  bool OnlyComputes(NodeId n);  // a group of operators whose results are new
  int32_t AttributeSlot(const Node& node);

  absl::flat_hash_map<const Graph*, std::unique_ptr<OpEffects>> summaries;
  absl::flat_hash_map<std::string, int32_t> attribute_slots;
  bool options_distrusted = false;  // some node changes a geometry: types of arguments do not tell what a view is

 private:
  // Returns the effects of a graph on its arguments and the places of its results, as if the graph were one operator.
  const OpEffects& SummaryOf(Graph& sub);

  AliasDb::State& s_;
  absl::flat_hash_set<const Graph*> summarising_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_NODE_EFFECTS_H_
