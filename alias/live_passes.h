// Two passes that edit a graph while its alias database stays valid: each queries the database, edits, and continues to
// query the same one. Both are linear in what they change. They work on graphs of any types, including TorchScript's
// text; the compiler itself uses functionalize/ and fuser/, which know more.
#ifndef SMELT_ALIAS_LIVE_PASSES_H_
#define SMELT_ALIAS_LIVE_PASSES_H_

#include <cstdint>

#include "smelt/alias/alias_db.h"
#include "smelt/alias/editor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Makes in-place operators pure if they write memory that the graph has just allocated, and can move directly after the
// allocation (or after each other). The result has the dtype of the written tensor: if types do not guarantee that the
// pure operator gives it, an aten::copy follows. Returns the number of removed mutations.
int64_t RemoveMutations(Graph& g, AliasDb& db, Editor& edit);

// Joins pointwise operators whose results only one group uses into groups of at least two, each a node
// smelt::FusionGroup, in every block. Returns the number of groups.
int64_t GroupPointwise(Graph& g, AliasDb& db, Editor& edit);

}  // namespace smelt

#endif  // SMELT_ALIAS_LIVE_PASSES_H_
