// The nodes that change geometries: sizes, strides or storage of a handle. Private to alias/.
//
//   Reshapes reshapes(state);
//   reshapes.GeometryChanges(object);  // some node changes this handle's geometry
//
// Invariant: a node is recorded once for each handle that it may change, whichever paths reach it, until its accesses are
// forgotten.
#ifndef SMELT_ALIAS_RESHAPES_H_
#define SMELT_ALIAS_RESHAPES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/in_order.h"
#include "smelt/alias/set_pool.h"
#include "smelt/alias/small_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Reshapes {
 public:
  explicit Reshapes(AliasDb::State& s) : s_(s) {}

  void Clear();
  // Returns whether some node changes the handle's geometry. Handles of the caller's may all be one.
  bool GeometryChanges(uint32_t object) const { return !geometry_changes.empty() && IsChanged(object); }
  void AddGeometryChange(uint32_t object, NodeId n);
  void AddGeometryChanges(SetId handles, NodeId n);
  void DropGeometryChange(uint32_t key, NodeId n);  // key: of a handle, or kUnknown
  // Counts n, which has been evaluated and had the flags `had` before. Handles are distinguished in another way if any
  // node of the graph changes a geometry.
  void CountGeometryWriter(NodeId n, uint16_t had);

  void NoteGeometry(NodeId n);  // an edit of n may change geometries
  // Returns whether n's arguments decide where its results lie. This is not so for a node that only writes its argument
  // and returns it.
  bool DecidesGeometry(NodeId n) const;
  int64_t bytes() const;

  // Object -> the nodes that change its geometry.
  absl::flat_hash_map<uint32_t, SmallSet<NodeId, 3, InOrder>, InOrder> geometry_changes;
  int64_t geometry_writers = 0;  // nodes

 private:
  bool IsChanged(uint32_t object) const;
  bool ChangesGeometry(NodeId n) const;
  bool ChangesNumbers(NodeId n) const;

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_RESHAPES_H_
