// Places a view in its base's index space, for which no sizes are needed. Private to alias/.
//
//   TakeBoxOfView(state, row, select, base_geometry, base, -1, &out);  // out: [1, 2) along dimension 0 of the base
#ifndef SMELT_ALIAS_BOX_OF_VIEW_H_
#define SMELT_ALIAS_BOX_OF_VIEW_H_

#include <cstdint>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/geom.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/view_op.h"

namespace smelt {
namespace alias_internal {

// Returns the rules of the node's operator, if it makes views.
const ViewOp* ViewOpOf(const Node& node);

// Limits the box of *out, which is that of the base at first, to what `object` takes of it. Node n makes `object` as a view
// of `base_object` (0: of one of several); `piece` says which of several views it is, -1: the only one. Where the view's
// place is not known, *out keeps what holds for any place.
void TakeBoxOfView(AliasDb::State& s, uint32_t object, NodeId n, const Geom& base, uint32_t base_object, int piece,
                   Geom* out);

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_BOX_OF_VIEW_H_
