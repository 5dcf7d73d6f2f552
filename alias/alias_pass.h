// The alias database as an analysis that later passes share.
//
//   context.Get<AliasDb::Options>().distinct_inputs = true;
//   pipeline.Add(BuildAliasDbPass());
//   ...
//   AliasDb* db = LiveAliasDb(context);   // follows every edit that the later passes make
#ifndef SMELT_ALIAS_ALIAS_PASS_H_
#define SMELT_ALIAS_ALIAS_PASS_H_

#include "smelt/alias/alias_db.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// "build-alias-db". Reads AliasDb::Options and leaves the database, which lives as long as the context. The graph must
// outlive both.
Pass BuildAliasDbPass();

// Returns the database that the pass left, or null if it did not run.
AliasDb* LiveAliasDb(PassContext& context);

}  // namespace smelt

#endif  // SMELT_ALIAS_ALIAS_PASS_H_
