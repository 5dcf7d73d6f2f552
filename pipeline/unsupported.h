// Reports everything that is missing at once, so that users need not find out one compilation at a time.
#ifndef SMELT_PIPELINE_UNSUPPORTED_H_
#define SMELT_PIPELINE_UNSUPPORTED_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// An operator that smelt does not describe.
struct UnsupportedOperator {
  std::string name;
  int count = 0;
  std::vector<std::string> sources;  // the first few lines of the model's source, each once
};
// Returns the operators, sorted by name.
std::vector<UnsupportedOperator> FindUnsupported(const Graph& graph);

// Returns whether the error lists all of them.
bool IsListOfUnsupported(const absl::Status& error);

// `error` is the reason why `graph`, as imported, could not be compiled. If it is Unimplemented, all operators without
// a description are added, each with its count and the lines of the model's source. Other errors are returned
// unchanged.
absl::Status WithAllUnsupported(const Graph& graph, const absl::Status& error);

}  // namespace smelt

#endif  // SMELT_PIPELINE_UNSUPPORTED_H_
