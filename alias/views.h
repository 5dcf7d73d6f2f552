// Places the bytes of a view, given those of its base: exactly, by the view rules, and in the base's index space. Private
// to alias/.
//
//   Geom out;
//   Views(state).Apply(view, node, base_geometry, base, /*base_changes=*/false, &out);
#ifndef SMELT_ALIAS_VIEWS_H_
#define SMELT_ALIAS_VIEWS_H_

#include <cstdint>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/geom.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Views {
 public:
  explicit Views(AliasDb::State& s) : s_(s) {}
  // *out becomes the geometry of `object`, which node n makes as a view of `base`, the geometry of `base_object` (0: of
  // one of several). With base_changes some node changes the base's geometry.
  void Apply(uint32_t object, NodeId n, const Geom& base, uint32_t base_object, bool base_changes, Geom* out);

 private:
  void PlaceExactly(uint32_t object, NodeId n, const Geom& base, int piece, Geom* out);
  void PlaceInStorage(const Node& node, const Geom& base, Geom* out);

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_VIEWS_H_
