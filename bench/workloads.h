// The workloads of the benchmark of kernels: graphs as text, and what a machine must move and compute for them.
#ifndef SMELT_BENCH_WORKLOADS_H_
#define SMELT_BENCH_WORKLOADS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt::bench {

struct Workload {
  std::string name;
  // The graph's inputs, weights and nodes. Between braces stand constants: aten::softmax(%x, {-1}, {None}).
  std::string weights, inputs, nodes, outputs;
  double read_bytes = 0, written_bytes = 0;  // by a perfect fusion
  double flops = 0;                          // of matmuls and convolutions
  // On the machine of the table in README.md, milliseconds: the best peer, and what smelt may take.
  double best_peer_ms = 0, at_most_ms = 0;
};

std::vector<Workload> AllWorkloads();

// The graph, its types completed and its weights' storages filled with small numbers.
absl::StatusOr<std::unique_ptr<Graph>> BuildGraph(const Workload& w);

}  // namespace smelt::bench

#endif  // SMELT_BENCH_WORKLOADS_H_
