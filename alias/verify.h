// Compares a database that has followed edits with a fresh one. Private to alias/.
//
//   CompareWithFreshBuild(state);  // OK, or the first difference: "%v points to {%a}, a fresh build says {%a, %b}"
#ifndef SMELT_ALIAS_VERIFY_H_
#define SMELT_ALIAS_VERIFY_H_

#include "absl/status/status.h"
#include "smelt/alias/alias_db.h"

namespace smelt {
namespace alias_internal {

// Finishes the pending work first. AliasDb::Verify says where the two may differ: then the database must hold at least
// as much. Checks that accesses and known positions are in the order of the text as well. Takes as long as a build and
// printing all sets.
absl::Status CompareWithFreshBuild(AliasDb::State& s);

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_VERIFY_H_
