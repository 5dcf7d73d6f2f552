// Resolves dictionaries whose keys are constants and that only straight-line code changes, as resolve_lists.h resolves
// lists: a read of an entry becomes the entry, and the dictionary disappears.
//
//   %d = prim::DictConstruct(%a, %x); aten::_set_item(%d, %b, %y); %z = aten::__getitem__(%d, %b)   ->   %y
//
// keys(), values() and items() are the lists of its contents at that point, and copy() is another dictionary of them,
// which is resolved in turn.
//
// A dictionary that a loop or a branch changes, that update() or popitem() changes, or that is passed on as an object,
// is not changed.
#ifndef SMELT_SCRIPT_RESOLVE_DICTS_H_
#define SMELT_SCRIPT_RESOLVE_DICTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

void ResolveDicts(Graph& g);

// "resolve-dicts".
Pass ResolveDictsPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_RESOLVE_DICTS_H_
