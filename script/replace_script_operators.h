// Replaces the operators that only TorchScript has and that a caller of a compiled program cannot tell from simpler
// ones.
//
//   prim::Print(%x), aten::warn(%m, %l)       ->  gone: a bundle neither prints nor warns
//   %m = aten::format(%f, %n), in an error    ->  %f: the error is told without the numbers that its text would quote
//   %d = prim::device(%x)                     ->  "cpu": programs run on the CPU
//   %y = prim::data(%x)                       ->  aten::detach(%x)
#ifndef SMELT_SCRIPT_REPLACE_SCRIPT_OPERATORS_H_
#define SMELT_SCRIPT_REPLACE_SCRIPT_OPERATORS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

void ReplaceScriptOperators(Graph& g);

// "replace-script-operators". Runs first: a message that is gone needs nothing resolved for it.
Pass ReplaceScriptOperatorsPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_REPLACE_SCRIPT_OPERATORS_H_
