// Says everything that is missing at once, so that a person does not learn it one compilation at a time.
#ifndef SMELT_PIPELINE_UNSUPPORTED_H_
#define SMELT_PIPELINE_UNSUPPORTED_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// `error` is why `graph`, as imported, could not be compiled. If it is Unimplemented, operators that smelt has no
// description of are added: each with how often it occurs and the lines of the model's source. Other errors come back
// as they are.
absl::Status WithAllUnsupported(const Graph& graph, const absl::Status& error);

}  // namespace smelt

#endif  // SMELT_PIPELINE_UNSUPPORTED_H_
