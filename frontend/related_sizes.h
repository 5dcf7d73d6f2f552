// Sizes that every call relates in the same way. PyTorch's export gives each dynamic size a symbol of its own and keeps
// what it learned of them as conditions, so that of an image cut into blocks of 8 rows the graph says height h, and
// floordiv(h, 8) blocks of 8 rows, which is h for multiples of 8 alone.
#ifndef SMELT_FRONTEND_RELATED_SIZES_H_
#define SMELT_FRONTEND_RELATED_SIZES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Writes h as 8*h.by8 where h is a multiple of 8 in every call, and two symbols that are equal in every call as one,
// throughout the graph, with the ranges, accepted values and hints that follow. Calls of other sizes then do not fit
// the arguments' types. `zeros`: expressions that are 0 in every call, as the program's conditions say
// (SizeGuardParts::zero). To them come those of operators: a view has as many elements as what it views, what is
// written to indices is as much as these choose, queries are as long as keys, and these as many as values. Where it is
// not written into types that such operands fit, Graph::size_guards asks for it. What data decide,
// and sizes that are arguments themselves, stay as they are.
void RelateSizes(Graph& g, std::vector<Expr> zeros);

// Whether RelateSizes made the symbol, of a part of a size.
bool IsPartOfSize(absl::string_view symbol);

// The symbols in arguments that are numbers.
absl::flat_hash_set<std::string> SymbolsOfNumbers(const Graph& g);

}  // namespace smelt

#endif  // SMELT_FRONTEND_RELATED_SIZES_H_
