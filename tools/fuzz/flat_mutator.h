// Changes a FlatBuffer's tree at random, as an attacker or an accident might: indexes, enum values and counts; table
// entries that are dropped, duplicated, swapped, appended; strings; parts of other files.
#ifndef SMELT_TOOLS_FUZZ_FLAT_MUTATOR_H_
#define SMELT_TOOLS_FUZZ_FLAT_MUTATOR_H_

#include <random>

#include "absl/types/span.h"
#include "smelt/tools/fuzz/flat_tree.h"

namespace smelt {

// Makes one change to `tree`. Each field of the schema that occurs in the tree is changed with the same probability,
// regardless of how often it occurs. Parts may be replaced by parts of `donors`, which must not be in `tree`.
void MutateTree(const FlatSchema& schema, absl::Span<const FlatValue* const> donors, std::mt19937_64& random,
                FlatValue& tree);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_FLAT_MUTATOR_H_
