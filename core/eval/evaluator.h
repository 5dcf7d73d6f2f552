// The reference evaluator: runs a graph node by node over strided storages, as eager PyTorch does. It is slow and
// plain, and serves as the oracle.
//
//   EvalResult r = *EvaluateGraph(graph, {EvalValue(x), EvalValue(int64_t{3})}, {});
//   r.outputs[0].tensor()
//
// Mutations write the argument's storage, views share it, and t_, set_, resize_ change the argument's own handle. Pure
// graphs run too: smelt::view, smelt::write_region, smelt::materialize and smelt::FusionGroup.
#ifndef SMELT_CORE_EVAL_EVALUATOR_H_
#define SMELT_CORE_EVAL_EVALUATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/exec/value.h"

namespace smelt {

// The random state, given explicitly: equal seeds draw equal numbers (not PyTorch's).
class EvalGenerator {
 public:
  explicit EvalGenerator(uint64_t seed = 0) : state_(seed) {}
  uint64_t Next();
  double NextUniform();  // [0, 1)
  double NextNormal();

 private:
  uint64_t state_;
};

using EvalValue = PythonValue;

// Sees every byte that the nodes of the graph read and write (not the accesses inside a node), and the memory of every
// tensor.
class EvalObserver {
 public:
  virtual ~EvalObserver() = default;
  // Called before a node with the arguments that its schema reads, then those that it writes, as tensors (geometry over
  // a storage).
  virtual void OnNode(const Graph&, NodeId, absl::Span<const Tensor> /*read*/, absl::Span<const Tensor> /*written*/) {}
  // Called after a node with the value of each output, and with those of block parameters when they are bound.
  virtual void OnValue(const Graph&, ValueId, const EvalValue&) {}
};

struct EvalOptions {
  EvalObserver* observer = nullptr;
  std::shared_ptr<EvalGenerator> generator;  // used where a call names none; a fresh one with seed 0 if null
  // The tensors of the weights, by index into Graph::weights. If empty, the graph's own storages are used, and written.
  std::vector<Tensor> weights;
  int64_t max_steps = int64_t{1} << 32;  // the number of nodes to run before an error, for loops that do not end
  int64_t max_tensor_bytes = int64_t{1} << 36;
};

struct EvalResult {
  std::vector<EvalValue> outputs;
};

// Returns a copy of the weights that keeps their sharing of storages: state for several consecutive calls.
std::vector<Tensor> CopyWeights(const Graph& g);

// `args` are the user inputs in order, without weights. Size symbols take their values from the arguments.
absl::StatusOr<EvalResult> EvaluateGraph(const Graph& g, absl::Span<const EvalValue> args,
                                         const EvalOptions& options = {});

// Runs one operator on concrete values, without a graph.
absl::StatusOr<std::vector<EvalValue>> EvaluateOp(OpName op, absl::Span<const EvalValue> args,
                                                  const EvalOptions& options = {});

// Runs a pure graph by its convention: prologue, graph, epilogue. Afterwards arguments (and weights) are as the caller
// would see them. The outputs are those of the original graph, with the same aliasing.
absl::StatusOr<EvalResult> RunConvention(const Graph& pure, const Convention& convention,
                                         absl::Span<const EvalValue> args, const EvalOptions& options = {});

}  // namespace smelt

#endif  // SMELT_CORE_EVAL_EVALUATOR_H_
