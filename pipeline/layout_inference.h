// What a program shows of layouts where its values have other types than those it was exported with.
//
//   const LayoutInference layouts(g);
//   auto one = AtValues(g, {{"n", 1}});
//   layouts.Of(g, *one).differs;   // whether a caller sees another layout somewhere, or other memory shared
#ifndef SMELT_PIPELINE_LAYOUT_INFERENCE_H_
#define SMELT_PIPELINE_LAYOUT_INFERENCE_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class LayoutInference {
 public:
  struct Result {
    bool differs = false;  // from what the program says, and it shows
    bool is_known = true;  // how all tensors lie
  };

  // The first question costs inference of all nodes of `g`, which stays as it is and lives as long. Not to be shared by
  // threads.
  explicit LayoutInference(const Graph& g) : g_(g) {}

  // How the program's results lie for arguments that lie in any way, as a layout rule (core/tensor/layout_rule.h) whose
  // inputs are the user's arguments. Unimplemented: inference does not tell, the program has blocks, or a result may
  // share memory with an argument, a weight or another result, where strides decide more than a layout.
  absl::StatusOr<std::vector<int64_t>> RuleOfResults() const;

  // Infers the types of `at`, a copy of `base` with other ones; `base` is the program or what AtValues made of it.
  Result Of(const Graph& base, Graph& at) const;

 private:
  friend class LayoutProbes;

  // Of each node, in the order of AllNodes: inference tells how its results lie.
  const std::vector<bool>& Inferred() const;

  const Graph& g_;
  mutable std::vector<bool> inferred_;
};

// The same question of inputs that lie in other ways, asked again and again.
class LayoutProbes {
 public:
  LayoutProbes(const LayoutInference& layouts, std::unique_ptr<Graph> program);
  ~LayoutProbes();

  const Graph& program() const { return *program_; }

  // With the strides that `lay` gives the inputs of these numbers for their sizes. Costs inference of what follows from
  // them and lies in another way; all nodes are looked at in a program that has blocks.
  LayoutInference::Result Ask(const std::vector<int>& inputs,
                              absl::FunctionRef<std::vector<Expr>(const std::vector<Expr>& sizes)> lay);

 private:
  class Impl;
  std::unique_ptr<Graph> program_, copy_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_LAYOUT_INFERENCE_H_
