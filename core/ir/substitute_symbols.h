// Other expressions for a program's symbols.
#ifndef SMELT_CORE_IR_SUBSTITUTE_SYMBOLS_H_
#define SMELT_CORE_IR_SUBSTITUTE_SYMBOLS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// In the types and numbers of all values and in the attributes of nodes, those of blocks too. Ranges, hints and guards
// stay. Linear in the graph.
void SubstituteSymbols(Graph& g, const absl::flat_hash_map<std::string, Expr>& values);

// A copy of the graph as it is for these values.
std::unique_ptr<Graph> AtValues(const Graph& g, const absl::flat_hash_map<std::string, int64_t>& values);

// For people: "x.size()[0] - 3" of s0 - 3, where s0 is a size of argument x, or where 4*s0 is "floordiv(x.size()[0], 4)
// - 3". Symbols that no argument's size or number tells stay. Not to be parsed.
std::string InTermsOfArguments(const Graph& g, const Expr& e);

}  // namespace smelt

#endif  // SMELT_CORE_IR_SUBSTITUTE_SYMBOLS_H_
