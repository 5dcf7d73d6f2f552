// The stores of nodes into containers. Private to alias/.
//
//   Stores stores(state);
//   stores.AddStores(n, node, effects);  // those of the node at hand
//   if (stores.CommitStores(n, had)) stores.StoresChanged(holder, true);
//
// Invariants: each store stands in the contents of its container and in the list of its node. The union of the stores of
// a container with many is kept in a tree over them, so that a change costs O(log).
#ifndef SMELT_ALIAS_STORES_H_
#define SMELT_ALIAS_STORES_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/contents_table.h"
#include "smelt/alias/in_order.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

struct NodeRecord;

class Stores {
 public:
  struct StoreAt {
    uint32_t holder, at;  // where in its contents' stores
  };

  using OfNode = absl::InlinedVector<std::pair<uint32_t, Store>, 4>;  // by container

  explicit Stores(AliasDb::State& s) : s_(s) {}

  void Clear();
  void AddStores(NodeId n, const Node& node, const OpEffects& e);
  OfNode StoresOf(NodeId n);
  // Commits the stores of node n, which stored `had` before: most nodes that are evaluated again store the same. Returns
  // whether they are others.
  bool CommitStores(NodeId n, absl::Span<std::pair<uint32_t, Store>> had);
  void ForgetStores(NodeId n, NodeRecord& r, bool push);  // push: who reads the containers
  void StoresChanged(uint32_t holder, bool changed);      // readers are pushed if they are told something else

  // 1: a before b; 0: b not after a (or neither); within one run of their common block.
  int Precedes(NodeId a, NodeId b) const;
  // Returns whether the effect of node a on the holder may have happened when b looks at it. With an invalid b it may
  // always have.
  bool MayComeBefore(NodeId a, NodeId b, Ref holder);
  // Returns the elements that the store has put there for a reader at any time, in this iteration or an earlier one of
  // each loop around it.
  SetId AtAnyTime(const Store& s, uint32_t holder_loop);
  int64_t bytes() const {
    return static_cast<int64_t>(stores_of_node.capacity() * (sizeof(*stores_of_node.begin()) + 1));
  }

  // Node index -> its stores.
  absl::flat_hash_map<uint32_t, absl::InlinedVector<StoreAt, 1>, InOrder> stores_of_node;
  std::vector<std::pair<uint32_t, Store>> new_stores;  // of the node at hand: by container
  bool external_stores = false;                        // something is stored into a container of the caller's
  absl::flat_hash_set<int32_t> external_attributes;    // slots that SetAttr writes in objects of the caller's
  bool coarse = false;  // some container has had many stores: a database that has followed edits may know less of it

 private:
  void AddStore(uint32_t holder, const Store& s);
  void DropStore(uint32_t holder, uint32_t at);  // the last one takes its place
  void SumStore(uint32_t holder, uint32_t at);   // after store `at` has changed
  void SumAgain(uint32_t holder, size_t leaves);

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_STORES_H_
