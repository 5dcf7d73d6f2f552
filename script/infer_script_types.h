// Infers the types of a whole program, and takes the branches that they decide.
//
// Inference and simplification alternate: known sizes may decide a branch, whose types are then inferred.
#ifndef SMELT_SCRIPT_INFER_SCRIPT_TYPES_H_
#define SMELT_SCRIPT_INFER_SCRIPT_TYPES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// The option of the pass: a program that must remain as it was written is not simplified.
struct ScriptOptions {
  bool simplify = true;
};

// Infers all types and, when `simplify` is true, takes the branches and loops that they decide, until nothing changes.
// The error is that of the last inference.
absl::Status InferScriptTypes(Graph& g, bool simplify);

// "infer-types". Reads ScriptOptions. Afterwards each value has a complete type.
Pass InferTypesPass();

}  // namespace smelt

#endif  // SMELT_SCRIPT_INFER_SCRIPT_TYPES_H_
