// Decides whether handles may be one handle and whether their memory may overlap, as far as the sets and the geometries
// say. Private to alias/.
//
//   Overlaps overlaps(state);
//   overlaps.SetsMayAlias(state.PointsTo(a), state.PointsTo(b), /*ignore_age=*/false);
//
// With ignore_age the two may be of different iterations of a loop: then an allocation of this iteration may be that of
// an earlier one. A question compares a bounded number of pairs; beyond that the answer is "may".
#ifndef SMELT_ALIAS_OVERLAPS_H_
#define SMELT_ALIAS_OVERLAPS_H_

#include "smelt/alias/access_index.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// Returns whether one object can be of both types.
bool TypesMeet(const Type& a, const Type& b);

class Overlaps {
 public:
  explicit Overlaps(AliasDb::State& s) : s_(s) {}

  bool StoragesMayOverlap(Ref a, Ref b, bool ignore_age) const;
  bool AnyStoragesMayOverlap(SetId a, SetId b, bool ignore_age) const;  // any of the one and any of the other
  bool AnyMayBeSame(SetId a, SetId b, bool ignore_age) const;           // any handle of the one and any of the other
  bool RefsMayAlias(Ref a, Ref b, bool ignore_age);
  bool SetsMayAlias(SetId a, SetId b, bool ignore_age);
  // Returns whether the access touches `object`'s bytes (as_container: the list, dictionary or object itself).
  bool AccessHits(const Access& w, Ref object, SetId storages, bool as_container, bool ignore_age);
  // As AccessHits, for a value that may be the object: its type decides, too.
  bool AccessHitsValue(const Access& w, ValueId v, Ref object, bool ignore_age);

 private:
  bool HandlesMayBeSame(Ref a, Ref b, bool ignore_age) const;
  bool HandleHits(const Access& w, Ref touched_handle, Ref object, bool as_container, bool ignore_age);
  const Type& TypeOfAccess(const Access& w) const;  // of the argument by which it happens

  AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_OVERLAPS_H_
