// Replaces a program's symbols by expressions.
#ifndef SMELT_CORE_IR_SUBSTITUTE_SYMBOLS_H_
#define SMELT_CORE_IR_SUBSTITUTE_SYMBOLS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Replaces symbols in the types and numbers of all values and in the attributes of nodes, including those of blocks.
// Ranges, hints and guards do not change. Linear in the graph.
void SubstituteSymbols(Graph& g, const absl::flat_hash_map<std::string, Expr>& values);

// Returns a copy of the graph for these values.
std::unique_ptr<Graph> AtValues(const Graph& g, const absl::flat_hash_map<std::string, int64_t>& values);

// For people: s0 - 3 as "x.size()[0] - 3" if s0 is a size of argument x, or as "floordiv(x.size()[0], 4) - 3" if 4*s0
// is. Symbols that no argument's size or number determines stay. Not to be parsed.
std::string InTermsOfArguments(const Graph& g, const Expr& e);

}  // namespace smelt

#endif  // SMELT_CORE_IR_SUBSTITUTE_SYMBOLS_H_
