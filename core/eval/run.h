// Runs one operator on concrete values: checks arguments against the schema, then runs the operator's own kernel, or its
// meaning in core/op. Private to core/eval.
//
//   absl::StatusOr<Values> Roll(Call& c) {            // the kernel of one operator
//     const Tensor x = c.T("self");
//     SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
//     ...
//     return Values{Val(out)};
//   }
//
// A kernel reads its arguments by the schema's names and makes its results with OutputsOf, which asks inference for
// dtype, sizes and strides; it fills them in row-major order of their elements.
#ifndef SMELT_CORE_EVAL_RUN_H_
#define SMELT_CORE_EVAL_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt::eval_internal {

// The state of one evaluation.
struct State {
  EvalOptions options;
  std::shared_ptr<EvalGenerator> generator;
  int64_t steps = 0;
  int depth = 0;
  bool pure = false;  // results are laid out as their types say
  // The start of the memory of a smelt::view, in bytes, for storages of arguments; 0 for all others.
  absl::flat_hash_map<const Storage*, int64_t> origins;
  absl::flat_hash_map<int, int64_t> argument_origins;  // by DistinctIndex, where several arguments are in one memory
  std::vector<std::shared_ptr<Storage>> kept;          // those in `origins`
};

struct Call {
  OpCall op;
  const FunctionSchema* schema = nullptr;
  std::vector<EvalValue> args;
  State* state = nullptr;

  const std::string& name() const { return op.op().name(); }
  const EvalValue& Arg(absl::string_view name) const;  // None if there is no such argument
  bool Has(absl::string_view name) const { return !Arg(name).IsNone(); }
  // The schema's types were checked. An argument that is None or absent gives `d`.
  Tensor T(absl::string_view name) const;  // undefined if None
  int64_t I(absl::string_view name, int64_t d = 0) const;
  double D(absl::string_view name, double d = 0) const;
  bool B(absl::string_view name, bool d = false) const;
  std::vector<int64_t> Ints(absl::string_view name) const;
  std::vector<double> Doubles(absl::string_view name) const;
  std::vector<Tensor> Tensors(absl::string_view name) const;  // undefined for None
  // Returns a window's argument: one value for all dims, or one for each; `d` if it is missing.
  std::vector<int64_t> PerDim(absl::string_view name, int dims, int64_t d) const;
  absl::Status Error(absl::string_view message) const { return op.Error(message); }
  absl::Status Unsupported(absl::string_view message) const { return op.Unsupported(message); }
};

using Values = std::vector<EvalValue>;

// Checks the arguments against the schema, and fills in its defaults.
absl::StatusOr<Call> MakeCall(State& state, OpName op, absl::Span<const EvalValue> args);
// Runs an operator: by its own kernel, or by its meaning in core/op. An operator that writes changes its arguments'
// storages. Returns kUnimplemented for an operator without either.
absl::StatusOr<Values> Run(State& state, OpName op, absl::Span<const EvalValue> args);
// Returns the first result, a tensor.
absl::StatusOr<Tensor> Run1(State& state, absl::string_view op, std::vector<EvalValue> args);
// Makes the results that inference describes (dtype, sizes and strides) as fresh tensors of zeros.
absl::StatusOr<std::vector<Tensor>> OutputsOf(const Call& c);
absl::StatusOr<Tensor> OutputOf(const Call& c);
// Returns whether a tensor of these sizes (not negative) takes more than the options' limit.
bool IsTooLarge(const Call& c, DType dtype, absl::Span<const int64_t> sizes);
absl::StatusOr<Tensor> NewTensor(const State& state, DType dtype, absl::Span<const int64_t> sizes,
                                 absl::Span<const int64_t> strides);
inline EvalValue Val(Tensor t) { return EvalValue(std::move(t)); }
inline EvalValue Val(int64_t i) { return EvalValue(i); }
inline EvalValue Val(int i) { return EvalValue(static_cast<int64_t>(i)); }
inline EvalValue Val(double d) { return EvalValue(d); }
inline EvalValue Val(bool b) { return EvalValue(b); }
inline EvalValue None() { return EvalValue(); }
EvalValue FromConstant(const ConstantValue& v);
// Returns dim in [0, max(rank, 1)), or PyTorch's error.
absl::StatusOr<int> Dim(const Call& c, int64_t dim, int rank);

// Runs core/op's decomposition: a graph of this one node, decomposed by one step.
absl::StatusOr<Values> RunDecomposed(Call& c);

// PyTorch's refusals to write, by exec/write_protocol.h; the errors name the call.
absl::Status CheckNotExpanded(const Call& c, const Tensor& written);
absl::Status CheckOperand(const Call& c, const Tensor& written, const Tensor& read, OperandSharing rule);
// Checks that an elementwise write in PyTorch gives the same as one in a pure graph, which reads first.
absl::Status CheckOrder(const Call& c, const Tensor& written, const Tensor& read);
// Runs a copy_ that reads what it has written, one element after the other. Returns false if there is no such overlap.
absl::StatusOr<bool> CopyInOrder(const Call& c, const Tensor& to, const Tensor& from);

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_RUN_H_
