// Lists that straight code builds (append, insert, pop, l[i] = x, ...) become the lists that each of their readers
// sees: what follows asks of a list only what it was made of. TorchScript unrolls loops over modules, so most lists are
// such.
//
//   ResolveLists(graph);   // %l = prim::ListConstruct(%a); aten::append(%l, %b); aten::cat(%l, 0)  ->  cat([%a, %b],
//   0)
//
// A list that a loop or a branch changes, that is passed on as an object, or whose index is not known, stays as it is.
#ifndef SMELT_SCRIPT_RESOLVE_LISTS_H_
#define SMELT_SCRIPT_RESOLVE_LISTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Linear in the uses of lists and in what their readers see.
void ResolveLists(Graph& g);

// "resolve-lists".
Pass ResolveListsPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_RESOLVE_LISTS_H_
