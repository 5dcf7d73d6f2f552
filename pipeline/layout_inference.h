// Finds whether a caller can observe layouts of a program whose values have other types than at export.
//
//   const LayoutInference layouts(g);
//   auto one = AtValues(g, {{"n", 1}});
//   layouts.Of(g, *one).differs;   // whether a caller sees another layout somewhere, or other memory shared
#ifndef SMELT_PIPELINE_LAYOUT_INFERENCE_H_
#define SMELT_PIPELINE_LAYOUT_INFERENCE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class LayoutInference {
 public:
  struct Result {
    bool differs = false;  // from the program's own layouts, visibly
    bool is_known = true;  // the layouts of all tensors
  };

  // The first query costs inference of all nodes of `g`, which must stay unchanged and outlive this object. Threads
  // must not share it.
  explicit LayoutInference(const Graph& g) : g_(g) {}

  // Returns the layouts of the program's results for arguments with any layout, as a layout rule
  // (core/tensor/layout_rule.h) whose inputs are the user's arguments. Results that are an argument or a state itself
  // have no layout of their own. Unimplemented if inference does not decide, the program has blocks, or another result
  // may share memory with an argument, a weight or a result, where strides decide more than a layout.
  absl::StatusOr<std::vector<int64_t>> RuleOfResults(const std::vector<bool>& are_arguments) const;

  // Infers the types of `at`, a copy of `base` with other types; `base` is the program or a result of AtValues.
  Result Of(const Graph& base, Graph& at) const;

 private:
  friend class LayoutDependence;

  // Returns for each node, in the order of AllNodes, whether inference gives the layout of its results.
  const std::vector<bool>& Inferred() const;

  const Graph& g_;
  mutable std::vector<bool> inferred_;
};

// Finds whether a caller can observe how inputs of a program lie in memory, for all strides that they may have.
class LayoutDependence {
 public:
  LayoutDependence(const LayoutInference& layouts, std::unique_ptr<Graph> program);
  ~LayoutDependence();

  const Graph& program() const { return *program_; }

  // Returns whether a caller may observe the strides of the inputs with these numbers, or inference does not decide it.
  // Follows each answer to the questions that inference asks about them. Each costs inference of the nodes that depend
  // on the inputs and whose layout changes, up to where an earlier one came to the same; in a program with blocks all
  // nodes are visited.
  bool OnStrides(const std::vector<int>& inputs);
  // The same for one input if only the strides of its dims of one element vary.
  bool OnStridesOfOnes(int input);
  int64_t num_visited() const;  // nodes, by all questions

 private:
  class Impl;
  bool On(std::vector<int> inputs, bool only_of_ones);
  void FindSymbols();

  std::unique_ptr<Graph> program_, copy_;
  std::unique_ptr<Impl> impl_;
  // The inputs whose sizes or strides are symbols, by the least number of inputs before them that have one of these
  // symbols.
  std::vector<std::pair<int, int>> with_symbols_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_LAYOUT_INFERENCE_H_
