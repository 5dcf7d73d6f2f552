// The elements of strided tensors, one by one. Private to core/eval.
//
//   Write<double>(out, Read<double>(x));        // in row-major order, converted as PyTorch casts
//
// Numbers are read as double, int64_t or complex<double>, which hold those of every dtype, and are rounded once, when
// they are written.
#ifndef SMELT_CORE_EVAL_ELEMENTS_H_
#define SMELT_CORE_EVAL_ELEMENTS_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/exec/value.h"

namespace smelt::eval_internal {

using Cx = std::complex<double>;

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

using Index = std::vector<int64_t>;
// Returns the offset of an index, in elements.
inline int64_t Flat(const Index& index, const std::vector<int64_t>& strides) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return at;
}

std::vector<int64_t> ContiguousStridesOf(absl::Span<const int64_t> sizes);
int64_t Product(absl::Span<const int64_t> sizes);
Tensor ScalarTensor(DType dtype, const PythonValue& v);
double ToDouble(const PythonValue& v);  // of a number
int64_t ToInt(const PythonValue& v);
Cx ToComplex(const PythonValue& v);
bool ToBool(const PythonValue& v);

// Rounds at each step the sums that PyTorch accumulates in memory of half types.
template <typename T>
T Rounded(DType dtype, T v) {
  if constexpr (std::is_same_v<T, double>) {
    if (dtype == DType::kBFloat16) return BFloat16ToFloat(FloatToBFloat16(static_cast<float>(v)));
    if (dtype == DType::kFloat16) return HalfToFloat(FloatToHalf(static_cast<float>(v)));
  }
  return v;
}

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_ELEMENTS_H_
