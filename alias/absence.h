// Which values may be None, or not initialized: then they are no object that their sets hold. Private to alias/.
//
//   Absence absence(state);
//   absence.MayBeNothing(v);
//
// Invariant: what is remembered about a value is of the state's current edit. A question follows a bounded number of
// values; beyond that the answer is "may be".
#ifndef SMELT_ALIAS_ABSENCE_H_
#define SMELT_ALIAS_ABSENCE_H_

#include <cstdint>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Absence {
 public:
  explicit Absence(AliasDb::State& s) : s_(s) {}

  // Returns the value before its type was refined: the same object.
  ValueId Unrefined(ValueId v);
  // Returns whether v may also be None, or not initialized: on some way to it, or because there is no element.
  // Otherwise the set says what v is.
  bool MayBeNothing(ValueId v);
  int64_t bytes() const { return static_cast<int64_t>(known_.capacity() * sizeof(Known)); }

 private:
  struct Known {
    uint64_t edits = 0;
    uint32_t generation = 0;
    bool may_be = false;
  };
  bool FindNothing(ValueId v);

  AliasDb::State& s_;
  std::vector<Known> known_;  // by value, as far as it was asked for; valid until the next edit
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_ABSENCE_H_
