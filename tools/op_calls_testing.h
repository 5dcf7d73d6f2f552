// Makes a program of a recorded call of an operator (core/op/op_answers.h). For tests only.
#ifndef SMELT_TOOLS_OP_CALLS_TESTING_H_
#define SMELT_TOOLS_OP_CALLS_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/value.h"

namespace smelt {

// A program that makes the call and returns its results, and the call's tensors as its arguments. Unimplemented: the
// call's arguments cannot be written into a graph.
struct CallProgram {
  std::unique_ptr<Graph> graph;
  std::vector<Datum> args;
};
// The arguments' types are those of contiguous tensors.
absl::StatusOr<CallProgram> ProgramOf(const Answer& answer);

// Removes all plans but the eager-order one from a bundle.
absl::Status KeepEagerOrderPlan(const std::string& bundle_path);

}  // namespace smelt

#endif  // SMELT_TOOLS_OP_CALLS_TESTING_H_
