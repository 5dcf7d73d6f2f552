// The outer layers: which arguments are one tensor, and which memory each lives in; the states' memories behind them.
// Internal to functionalization, but for MergeDuplicates.
#ifndef SMELT_FUNCTIONALIZE_ARGUMENT_MEMORIES_H_
#define SMELT_FUNCTIONALIZE_ARGUMENT_MEMORIES_H_

#include "absl/status/status.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

// Merges arguments that are the same tensor into one value; the others remain as unused inputs. Runs before
// OpenComposites, which must see that a geometry change under one name changes the others too.
void MergeDuplicates(Graph& g, const DuplicatesLayer& duplicates);

// Gives each distinct argument and each state its tensor and its memory.
absl::Status BindInputs(ProgramWalk& walk);

// Makes the contents of a state's memory the whole storage.
void ShowWholeStates(ProgramWalk& walk);

// If the program addresses storages absolutely, an argument's memory may be read outside the argument. Then its contents
// are never renamed to a value that holds the argument alone.
void FindAbsoluteAccess(ProgramWalk& walk);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_ARGUMENT_MEMORIES_H_
