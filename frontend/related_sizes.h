// Finds sizes that are related in the same way in every call. PyTorch's export gives each dynamic size its own symbol
// and keeps its findings about them as conditions. For an image cut into blocks of 8 rows the graph has a height h, and
// floordiv(h, 8) blocks of 8 rows, whose product is h only for multiples of 8.
#ifndef SMELT_FRONTEND_RELATED_SIZES_H_
#define SMELT_FRONTEND_RELATED_SIZES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Writes h as 8*h.by8 if h is a multiple of 8 in every call, and two symbols that are equal in every call as one,
// throughout the graph, with the ranges, accepted values and hints that follow. Calls with other sizes then do not fit
// the arguments' types. `zeros` are expressions that are 0 in every call, by the program's conditions
// (SizeGuardParts::zero). Operators add more: a view has as many elements as its base, a write to indices has as many
// as these choose, queries are as long as keys, and keys are as many as values. Relations that are not written into
// types that such operands fit become Graph::size_guards. Sizes that data decide, and sizes that are arguments
// themselves, stay as they are.
void RelateSizes(Graph& g, std::vector<Expr> zeros);

// Returns whether RelateSizes made the symbol, for a part of a size.
bool IsPartOfSize(absl::string_view symbol);

// Returns the symbols in arguments that are numbers.
absl::flat_hash_set<std::string> SymbolsOfNumbers(const Graph& g);

}  // namespace smelt

#endif  // SMELT_FRONTEND_RELATED_SIZES_H_
