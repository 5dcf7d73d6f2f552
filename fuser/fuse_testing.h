// For tests: fuses a graph given as text, and compares it with the unfused graph.
//
//   Fused f = FuseText(R"(graph(%x : ...): ...)");
//   EXPECT_EQ(f.groups(), std::vector<std::string>{"neg_add"}) << f.Edges();
#ifndef SMELT_FUSER_FUSE_TESTING_H_
#define SMELT_FUSER_FUSE_TESTING_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/fuse.h"

namespace smelt {

// Parses the text. If it is not a graph, fails the test and returns an empty graph.
std::unique_ptr<Graph> ParseOrFail(const std::string& text);

// Returns pseudo-random numbers, the same each time, for each of the inputs, which must be tensors of known sizes.
std::vector<Tensor> InputsOf(const Graph& g);

// The compiler's passes that fuse a graph in which each node is a kernel or a library call (PassGroup::kFuse).
absl::StatusOr<FusionReport> FuseGraph(Graph& g, const FuseOptions& options = {});

struct Fused {
  std::unique_ptr<Graph> graph;
  FusionReport report;
  int merged_matmuls = 0;  // that became part of another
  std::vector<std::string> specs;

  std::vector<std::string> groups() const;  // names
  std::set<std::string> distinct() const { return std::set<std::string>(specs.begin(), specs.end()); }
  std::string Edges() const;
};

// Fuses, with the alias database and without, and checks that the graph still computes the same from pseudo-random
// numbers: bit for bit, or within `tolerance`. Matrix products are computed here.
Fused FuseText(const std::string& text, float tolerance = 0, bool few_launches = false);

}  // namespace smelt

#endif  // SMELT_FUSER_FUSE_TESTING_H_
