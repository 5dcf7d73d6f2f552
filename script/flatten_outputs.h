// Replaces results that are tuples or lists by their elements, as in a signature of torch.export.
//
//   return (%t), %t = prim::TupleConstruct(%a, %l), %l = prim::ListConstruct(%b, %c)   ->   return (%a, %b, %c)
#ifndef SMELT_SCRIPT_FLATTEN_OUTPUTS_H_
#define SMELT_SCRIPT_FLATTEN_OUTPUTS_H_

#include <memory>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Replaces lists too: those with a known number of elements that nothing changes. An operator's list is unpacked.
absl::Status ReturnElements(Graph& g);

// Replaces only tuples. Returns a copy, or null if no result is a tuple.
std::unique_ptr<Graph> FlattenOutputs(const Graph& imported);

// "return-elements". Needs types: the types of a list's elements give their number.
Pass ReturnElementsPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_FLATTEN_OUTPUTS_H_
