// Gives the graphs of a bundle's methods one table of weights, so that a weight of the same name is one state.
//
//   SMELT_RETURN_IF_ERROR(UniteWeights({{"prefill", prefill.get()}, {"decode", decode.get()}}));
//   // prefill->weights and decode->weights are the same list now
//
// Parameters and buffers of one name must agree in kind, dtype, sizes, strides, place and initial contents, and two of
// them must share memory in all graphs that have both, or in none: InvalidArgument says which methods differ and how.
// Tensor constants have names that the export made up. They are one where they are equal; otherwise the later one's
// name gets the method in front of it.
#ifndef SMELT_PIPELINE_UNITE_WEIGHTS_H_
#define SMELT_PIPELINE_UNITE_WEIGHTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct MethodGraph {
  std::string name;  // of the method
  Graph* graph = nullptr;
};

absl::Status UniteWeights(absl::Span<const MethodGraph> methods);

}  // namespace smelt

#endif  // SMELT_PIPELINE_UNITE_WEIGHTS_H_
