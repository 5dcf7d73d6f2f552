// What a program shows of layouts where its inputs are others than those it was exported with.
//
//   const LayoutInference layouts(g);
//   auto at = g.Clone();
//   at->SetType(at->inputs()[0], channels_last);
//   layouts.Of(g, *at, {{0}}).differs;   // whether a caller sees another layout somewhere, or other memory shared
#ifndef SMELT_PIPELINE_LAYOUT_INFERENCE_H_
#define SMELT_PIPELINE_LAYOUT_INFERENCE_H_

#include <optional>
#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {

class LayoutInference {
 public:
  struct Result {
    bool differs = false;  // from what the program says, and it shows
    bool is_known = true;  // how all tensors lie
  };

  // Costs inference of all nodes.
  explicit LayoutInference(const Graph& g);

  // Infers the types of `at`, a copy of `base`, which is the program or what AtValues made of it. Other types than
  // there have all values of the copy, or just its inputs of these numbers, from which other types then follow.
  Result Of(const Graph& base, Graph& at, const std::optional<std::vector<int>>& inputs = std::nullopt) const;

 private:
  std::vector<bool> inferred_;  // of each node, in the order of AllNodes: inference tells how its results lie
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_LAYOUT_INFERENCE_H_
