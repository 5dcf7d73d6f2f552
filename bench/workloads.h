// The workloads of the kernel benchmark: graphs as text, and the bytes and operations that a machine needs for them.
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
  // The graph's inputs, weights and nodes. Constants are in braces: aten::softmax(%x, {-1}, {None}).
  std::string weights, inputs, nodes, outputs;
  double read_bytes = 0, written_bytes = 0;  // by a perfect fusion
  double flops = 0;                          // of matmuls and convolutions
  // Milliseconds on the reference machine: the best of the other implementations, and the most that smelt may take.
  double best_peer_ms = 0, at_most_ms = 0;
};

std::vector<Workload> AllWorkloads();
// Programs that write an argument or a buffer, for bench/layouts.cc.
std::vector<Workload> WritingWorkloads();

// The graph, its types completed and its weights' storages filled with small numbers.
absl::StatusOr<std::unique_ptr<Graph>> BuildGraph(const Workload& w);

}  // namespace smelt::bench

#endif  // SMELT_BENCH_WORKLOADS_H_
