// The internals of the evaluator: elements of strided tensors, and operators on concrete values. Private to core/eval.
//
// An operator's kernel reads its arguments by the schema's names and makes its results with OutputsOf, which asks
// inference for dtype, sizes and strides; it fills them in row-major order of their elements. Kernels compute in
// double, int64_t or complex<double> and round once, when they write.
#ifndef SMELT_CORE_EVAL_KERNELS_H_
#define SMELT_CORE_EVAL_KERNELS_H_

#include <complex>
#include <cstdint>
#include <functional>
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
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt::eval_internal {

using Cx = std::complex<double>;

// --- elements ---

// Reads one element at an address, widened. T is double, int64_t or complex<double>; a conversion is PyTorch's cast.
template <typename T>
T LoadAs(const char* p, DType dtype);
template <typename T>
void StoreAs(char* p, DType dtype, T value);

// Calls f(offsets) for each index of `sizes` in row-major order; offsets[k] is the sum of index times strides[k].
template <typename F>
void Walk(absl::Span<const int64_t> sizes, const std::vector<std::vector<int64_t>>& strides, F f) {
  const int rank = static_cast<int>(sizes.size());
  for (int64_t s : sizes) {
    if (s <= 0) return;
  }
  std::vector<int64_t> index(rank, 0), offsets(strides.size(), 0);
  while (true) {
    f(static_cast<const std::vector<int64_t>&>(offsets));
    int d = rank - 1;
    for (; d >= 0; --d) {
      if (++index[d] < sizes[d]) {
        for (size_t k = 0; k < strides.size(); ++k) offsets[k] += strides[k][d];
        break;
      }
      for (size_t k = 0; k < strides.size(); ++k) offsets[k] -= strides[k][d] * (sizes[d] - 1);
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
// Calls f(index, position) for each index in row-major order.
template <typename F>
void ForEachIndex(absl::Span<const int64_t> sizes, F f) {
  for (int64_t s : sizes) {
    if (s <= 0) return;
  }
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t position = 0;
  while (true) {
    f(static_cast<const std::vector<int64_t>&>(index), position++);
    int d = static_cast<int>(sizes.size()) - 1;
    for (; d >= 0; --d) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Reads all elements in row-major order.
template <typename T>
std::vector<T> Read(const Tensor& t) {
  std::vector<T> out;
  out.reserve(t.NumElements());
  const char* base = static_cast<const char*>(t.data());
  const DType dtype = t.dtype();
  const int item = ItemSize(dtype);
  Walk(t.sizes(), {std::vector<int64_t>(t.strides().begin(), t.strides().end())},
       [&](const std::vector<int64_t>& o) { out.push_back(LoadAs<T>(base + o[0] * item, dtype)); });
  return out;
}
template <typename T>
void Write(const Tensor& t, const std::vector<T>& values) {
  char* base = static_cast<char*>(t.data());
  const DType dtype = t.dtype();
  const int item = ItemSize(dtype);
  size_t i = 0;
  Walk(t.sizes(), {std::vector<int64_t>(t.strides().begin(), t.strides().end())},
       [&](const std::vector<int64_t>& o) { StoreAs<T>(base + o[0] * item, dtype, values[i++]); });
}
// Calls f with a value of the type that holds the dtype's numbers exactly: double, int64_t (bool too) or
// complex<double>.
template <typename F>
auto WithNumber(DType t, F f) {
  if (IsComplex(t)) return f(Cx());
  if (IsFloating(t)) return f(double());
  return f(int64_t());
}

// Reads elements as bytes, in row-major order, for operators that only move them.
std::vector<char> ReadBytes(const Tensor& t);
void WriteBytes(const Tensor& t, const std::vector<char>& bytes);

// Copies `from`, broadcast to the sizes of `to` and cast to its dtype; everything is read before anything is written.
absl::Status CopyInto(const Tensor& to, const Tensor& from);
// Returns a fresh tensor with the same elements.
Tensor CopyWithStrides(const Tensor& t, absl::Span<const int64_t> strides);
Tensor Converted(const Tensor& t, DType dtype);  // fresh, contiguous
// Returns the geometry of t broadcast to `sizes`.
absl::StatusOr<Geometry> Broadcasted(const Geometry& g, absl::Span<const int64_t> sizes);
std::vector<int64_t> ContiguousStridesOf(absl::Span<const int64_t> sizes);
int64_t Product(absl::Span<const int64_t> sizes);
Tensor ScalarTensor(DType dtype, const EvalValue& v);
double ToDouble(const EvalValue& v);  // of a number
int64_t ToInt(const EvalValue& v);
Cx ToComplex(const EvalValue& v);
bool ToBool(const EvalValue& v);

// --- calls ---

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
using Kernel = absl::StatusOr<Values> (*)(Call&);
using KernelTable = absl::flat_hash_map<std::string, Kernel>;

absl::StatusOr<Call> MakeCall(State& state, OpName op, absl::Span<const EvalValue> args);
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
// Returns dim in [0, max(rank, 1)), or PyTorch's error.
absl::StatusOr<int> Dim(const Call& c, int64_t dim, int rank);

// Rounds at each step the sums that PyTorch accumulates in memory of half types.
template <typename T>
T Rounded(DType dtype, T v) {
  if constexpr (std::is_same_v<T, double>) {
    if (dtype == DType::kBFloat16) return BFloat16ToFloat(FloatToBFloat16(static_cast<float>(v)));
    if (dtype == DType::kFloat16) return HalfToFloat(FloatToHalf(static_cast<float>(v)));
  }
  return v;
}

// Kernels are added by full name, or by name for every overload that writes nothing.
void AddMemoryKernels(KernelTable& t);
void AddCompositeKernels(KernelTable& t);
void AddFactoryKernels(KernelTable& t);
void AddMovementKernels(KernelTable& t);
void AddIndexKernels(KernelTable& t);
void AddLinearAlgebraKernels(KernelTable& t);
void AddPoolingKernels(KernelTable& t);
void AddSortingKernels(KernelTable& t);
void AddFourierKernels(KernelTable& t);
void AddFactorizationKernels(KernelTable& t);
void AddScalarKernels(KernelTable& t);
void AddContainerKernels(KernelTable& t);
void AddDetectionKernels(KernelTable& t);
void AddWeightProductKernels(KernelTable& t);
absl::StatusOr<Values> Pointwise(Call& c);
absl::StatusOr<Values> Reduction(Call& c);
// Runs core/op's decomposition: a graph of this one node, decomposed by one step.
absl::StatusOr<Values> RunDecomposed(Call& c);
absl::StatusOr<Values> Python(Call& c);  // operators on Python's values

// PyTorch's refusals to write, by exec/write_protocol.h; the errors name the call.
absl::Status CheckNotExpanded(const Call& c, const Tensor& written);
absl::Status CheckOperand(const Call& c, const Tensor& written, const Tensor& read, OperandSharing rule);
// Checks that an elementwise write in PyTorch gives the same as one in a pure graph, which reads first.
absl::Status CheckOrder(const Call& c, const Tensor& written, const Tensor& read);
// Runs a copy_ that reads what it has written, one element after the other. Returns false if there is no such overlap.
absl::StatusOr<bool> CopyInOrder(const Call& c, const Tensor& to, const Tensor& from);

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_KERNELS_H_
