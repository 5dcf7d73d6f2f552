// Replaces lists that straight-line code builds (append, insert, pop, l[i] = x, ...) by the list that each reader sees.
// Later passes need to know only the elements that a list was made of. TorchScript unrolls loops over modules, so most
// lists are of this kind.
//
//   ResolveLists(graph);
//   // %l = prim::ListConstruct(%a); aten::append(%l, %b); aten::cat(%l, 0)   ->   cat([%a, %b], 0)
//
// A list is not changed if a loop or a branch changes it, if it is passed on as an object, or if an index is not known.
#ifndef SMELT_SCRIPT_RESOLVE_LISTS_H_
#define SMELT_SCRIPT_RESOLVE_LISTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Linear in the uses of lists and in the lengths of the lists that their readers see.
void ResolveLists(Graph& g);

// "resolve-lists".
Pass ResolveListsPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_RESOLVE_LISTS_H_
