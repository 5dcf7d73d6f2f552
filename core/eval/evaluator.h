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

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"

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

class EvalValue;
struct EvalList {
  std::vector<EvalValue> elements;
};
struct EvalDict {
  std::vector<std::pair<EvalValue, EvalValue>> items;  // in order of insertion
};

// A value at run time. Lists, tuples and dictionaries are shared by handle, as in Python.
class EvalValue {
 public:
  EvalValue() = default;  // None
  explicit EvalValue(Tensor t) : v_(std::move(t)) {}
  explicit EvalValue(int64_t i) : v_(i) {}
  explicit EvalValue(double d) : v_(d) {}
  explicit EvalValue(bool b) : v_(b) {}
  explicit EvalValue(std::complex<double> c) : v_(c) {}
  explicit EvalValue(std::string s) : v_(std::move(s)) {}
  explicit EvalValue(std::shared_ptr<EvalGenerator> g) : v_(std::move(g)) {}
  static EvalValue List(std::vector<EvalValue> elements);
  static EvalValue Tuple(std::vector<EvalValue> elements);
  static EvalValue Dict();
  static EvalValue Ints(absl::Span<const int64_t> v);

  bool IsNone() const { return std::holds_alternative<std::monostate>(v_); }
  bool IsTensor() const { return std::holds_alternative<Tensor>(v_); }
  bool IsInt() const { return std::holds_alternative<int64_t>(v_); }
  bool IsDouble() const { return std::holds_alternative<double>(v_); }
  bool IsBool() const { return std::holds_alternative<bool>(v_); }
  bool IsComplex() const { return std::holds_alternative<std::complex<double>>(v_); }
  bool IsString() const { return std::holds_alternative<std::string>(v_); }
  bool IsList() const { return std::holds_alternative<std::shared_ptr<EvalList>>(v_); }  // lists and tuples
  bool IsTuple() const { return IsList() && is_tuple_; }
  bool IsDict() const { return std::holds_alternative<std::shared_ptr<EvalDict>>(v_); }
  bool IsGenerator() const { return std::holds_alternative<std::shared_ptr<EvalGenerator>>(v_); }
  bool IsNumber() const { return IsInt() || IsDouble() || IsBool() || IsComplex(); }

  const Tensor& tensor() const { return std::get<Tensor>(v_); }
  int64_t as_int() const { return std::get<int64_t>(v_); }
  double as_double() const { return std::get<double>(v_); }
  bool as_bool() const { return std::get<bool>(v_); }
  std::complex<double> as_complex() const { return std::get<std::complex<double>>(v_); }
  const std::string& as_string() const { return std::get<std::string>(v_); }
  std::vector<EvalValue>& elements() const { return std::get<std::shared_ptr<EvalList>>(v_)->elements; }
  EvalDict& dict() const { return *std::get<std::shared_ptr<EvalDict>>(v_); }
  const std::shared_ptr<EvalGenerator>& generator() const { return std::get<std::shared_ptr<EvalGenerator>>(v_); }
  const void* identity() const;  // of lists, tuples, dictionaries and tensors; null else

  // "Float[2, 3] {1, 2, 3, ...}", "3", "[1, 2]": for messages.
  std::string ToString() const;

 private:
  std::variant<std::monostate, Tensor, int64_t, double, bool, std::complex<double>, std::string,
               std::shared_ptr<EvalList>, std::shared_ptr<EvalDict>, std::shared_ptr<EvalGenerator>>
      v_;
  bool is_tuple_ = false;
};

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
