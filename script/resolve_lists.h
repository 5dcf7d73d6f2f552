// Lists that straight code builds (append, insert, pop, l[i] = x, ...) become the lists that each of their readers
// sees. Later passes need to know only what a list was made of. TorchScript unrolls loops over modules, so most lists
// are such.
//
//   ResolveLists(graph);
//   // %l = prim::ListConstruct(%a); aten::append(%l, %b); aten::cat(%l, 0)   ->   cat([%a, %b], 0)
//
// A list stays as it is if a loop or a branch changes it, if it is passed on as an object, or if an index is not known.
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
