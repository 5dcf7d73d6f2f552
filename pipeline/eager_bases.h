// Finds the tensors that the groups of an eager-order program (eager_groups.h) see through views.
//
//   const EagerBases bases(graph, *db);
//   bases.Base(v);       // the tensor whose elements v shows, as far as a group's call can make the same views of it
//   bases.IsView(n);     // the call can make the view n
//
// The views show elements by index alone, whatever the strides of their bases. A view of few elements of a large tensor
// is its own base: a group that writes one would otherwise write all of the tensor.
#ifndef SMELT_PIPELINE_EAGER_BASES_H_
#define SMELT_PIPELINE_EAGER_BASES_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

class EagerBases {
 public:
  // Both must outlive this object. Nodes may move afterwards. Takes O(nodes).
  EagerBases(const Graph& g, const AliasDb& db);

  // Returns the first name of the tensor: an operator that writes its argument returns it.
  ValueId Name(ValueId v) const;
  ValueId Base(ValueId v) const;
  bool IsView(NodeId n) const { return views_.contains(n); }
  // Returns whether two tensors of one base are known to have no element in common.
  bool AreApart(ValueId a, ValueId b) const { return db_.CompareRegions(a, b) == Overlap::kDisjoint; }

 private:
  bool IsRepeatable(NodeId n) const;
  int64_t NumElements(ValueId v) const;  // of an example; -1 if it is not known

  const Graph& g_;
  const AliasDb& db_;
  absl::flat_hash_set<NodeId> views_;
};

// Calls f(v) for each tensor among the operands of a node, in lists too, in order.
template <typename F>
void ForTensorOperands(const Graph& g, NodeId n, const F& f) {
  for (ValueId v : g.node(n).inputs) {
    if (g.value(v).type.IsTensor()) {
      f(v);
    } else if (auto list = GetListElements(g, v)) {
      for (ValueId e : *list) {
        if (g.value(e).type.IsTensor()) f(e);
      }
    }
  }
}

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_BASES_H_
