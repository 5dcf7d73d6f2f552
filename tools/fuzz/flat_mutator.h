// Changes a tree of a FlatBuffer at random, as an attacker would and as accidents do: indexes, enum values and counts;
// table entries that are dropped, doubled, swapped, appended; strings; parts of other files.
#ifndef SMELT_TOOLS_FUZZ_FLAT_MUTATOR_H_
#define SMELT_TOOLS_FUZZ_FLAT_MUTATOR_H_

#include <random>

#include "absl/types/span.h"
#include "smelt/tools/fuzz/flat_tree.h"

namespace smelt {

// Makes one change to `tree`. Each field of the schema that the tree has is changed with the same probability, however
// often it occurs. Parts may be replaced by parts of `donors`, which must not be in `tree`.
void MutateTree(const FlatSchema& schema, absl::Span<const FlatValue* const> donors, std::mt19937_64& random,
                FlatValue& tree);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_FLAT_MUTATOR_H_
