// Explains why two values may alias: a path of edges from each to the memory that they share. Private to alias/.
//
//   ExplainAlias(state, a, b);  // "%a is a view of %x by aten::select", "%x is an input", ..., "both live in ..."
#ifndef SMELT_ALIAS_WHY_H_
#define SMELT_ALIAS_WHY_H_

#include <string>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// Returns a line for each edge. a and b, or what they contain, may alias, and no work is pending. Shows one reason of
// perhaps many, and at most 100 edges from each value.
std::vector<std::string> ExplainAlias(AliasDb::State& s, ValueId a, ValueId b);

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_WHY_H_
