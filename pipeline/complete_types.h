// Prepares a program that was written as text for the compiler.
//
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseGraph(text, options));
//   SMELT_RETURN_IF_ERROR(CompleteTypes(*graph));
#ifndef SMELT_PIPELINE_COMPLETE_TYPES_H_
#define SMELT_PIPELINE_COMPLETE_TYPES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Runs the passes of PassGroup::kScript: afterwards lists, dictionaries and tuples that straight-line code builds are
// resolved, and every value has a type. If `simplify` is false, branches and loops that could be resolved remain.
// Unimplemented names every input without a complete type, or lists all unsupported operators.
absl::Status CompleteTypes(Graph& graph, bool simplify = true);

// Returns whether every tensor in the graph has a complete type.
bool HasCompleteTypes(const Graph& graph);

}  // namespace smelt

#endif  // SMELT_PIPELINE_COMPLETE_TYPES_H_
