// Says everything that is missing at once, so that a person does not learn it one compilation at a time.
#ifndef SMELT_PIPELINE_UNSUPPORTED_H_
#define SMELT_PIPELINE_UNSUPPORTED_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// An operator that smelt has no description of.
struct UnsupportedOperator {
  std::string name;
  int count = 0;
  std::vector<std::string> sources;  // the first few lines of the model's source, each once
};
// By name.
std::vector<UnsupportedOperator> FindUnsupported(const Graph& graph);

// Whether the error lists all of them.
bool IsListOfUnsupported(const absl::Status& error);

// `error` is why `graph`, as imported, could not be compiled. If it is Unimplemented, operators that smelt has no
// description of are added: each with how often it occurs and the lines of the model's source. Other errors come back
// as they are.
absl::Status WithAllUnsupported(const Graph& graph, const absl::Status& error);

}  // namespace smelt

#endif  // SMELT_PIPELINE_UNSUPPORTED_H_
