// Replaces the operators that only TorchScript has and that a caller of a compiled program cannot distinguish from
// simpler ones.
//
//   prim::Print(%x), aten::warn(%m, %l)       ->  nothing: a bundle neither prints nor warns
//   %m = aten::format(%f, %n), in an error    ->  %f: the error lacks the numbers that its text would quote
//   %d = prim::device(%x)                     ->  "cpu": programs run on the CPU
//   %c = prim::is_cuda(%x)                    ->  False, like is_sparse, is_quantized, ...; is_cpu is True
//   %y = prim::data(%x)                       ->  aten::detach(%x)
#ifndef SMELT_SCRIPT_REPLACE_SCRIPT_OPERATORS_H_
#define SMELT_SCRIPT_REPLACE_SCRIPT_OPERATORS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

void ReplaceScriptOperators(Graph& g);

// "replace-script-operators". Runs first: nothing need be resolved for a message that is gone.
Pass ReplaceScriptOperatorsPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_REPLACE_SCRIPT_OPERATORS_H_
