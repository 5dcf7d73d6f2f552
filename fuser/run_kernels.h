// For tests: runs a pure graph in its own memory, with its kernels lowered and interpreted one by one. `library` does
// library calls, control flow and random draws.
#ifndef SMELT_FUSER_RUN_KERNELS_H_
#define SMELT_FUSER_RUN_KERNELS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

struct RunKernelsOptions {
  // Computes the results of a node that is not a kernel. If null, such a node is an error.
  std::function<absl::StatusOr<std::vector<Tensor>>(const Graph&, NodeId, const std::vector<Tensor>&)> library;
  absl::flat_hash_map<std::string, int64_t> symbols;
  absl::flat_hash_map<std::string, double> numbers;  // of inputs that are no tensors, by name
};

struct RunKernelsResult {
  std::vector<Tensor> outputs;
  std::vector<std::string> specs;  // of each launch, in order
};

absl::StatusOr<RunKernelsResult> RunKernels(const Graph& g, const std::vector<Tensor>& inputs,
                                            const RunKernelsOptions& options = {});

}  // namespace smelt

#endif  // SMELT_FUSER_RUN_KERNELS_H_
