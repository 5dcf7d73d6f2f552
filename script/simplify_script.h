// Evaluates conditions of TorchScript's text before the program runs: branches on None, on numbers, on dtypes and
// ranks; loops that count or fill lists of numbers; lists of sizes. Python functions that a script calls, such as
// torch.nn.functional's, begin with many such conditions.
#ifndef SMELT_SCRIPT_SIMPLIFY_SCRIPT_H_
#define SMELT_SCRIPT_SIMPLIFY_SCRIPT_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Returns whether anything was changed, so that more types may now be inferred. Before inference (`inferred` false)
// only facts of the text itself are used. After it, known sizes are used too, but not in loops, of which inference may
// have seen only the first iteration. Linear in the nodes.
bool SimplifyScript(Graph& g, bool inferred);

// Runs SimplifyScript before types are inferred.
Pass SimplifyScriptPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_SIMPLIFY_SCRIPT_H_
