// Other expressions for a program's symbols.
#ifndef SMELT_FRONTEND_SUBSTITUTE_SYMBOLS_H_
#define SMELT_FRONTEND_SUBSTITUTE_SYMBOLS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// In the types and numbers of all values and in the attributes of nodes, those of blocks too. Ranges, hints and guards
// stay. Linear in the graph.
void SubstituteSymbols(Graph& g, const absl::flat_hash_map<std::string, Expr>& values);

}  // namespace smelt

#endif  // SMELT_FRONTEND_SUBSTITUTE_SYMBOLS_H_
