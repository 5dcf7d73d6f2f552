// Completes the types of a program's inputs and names its results.
//
//   graph(%x : Float(4, 8)): ... return (%y)   ->   graph(%x : Float(4, 8, strides=[8, 1])): ... , result "y"
#ifndef SMELT_SCRIPT_COMPLETE_INPUT_TYPES_H_
#define SMELT_SCRIPT_COMPLETE_INPUT_TYPES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// A tensor input without strides is contiguous. Unimplemented: names every tensor input that lacks a dtype or sizes.
absl::Status CompleteInputTypes(Graph& g);

// Names each unnamed result after its value in the text, each name once; numbers are not names. Returns whether any
// result was named.
bool NameOutputs(Graph& g);

// "complete-input-types" does both. It runs before inference, which starts from the inputs.
Pass CompleteInputTypesPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_COMPLETE_INPUT_TYPES_H_
