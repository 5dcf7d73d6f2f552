// Finds the elements that an operator writes at places that indices choose, by its answers: it is called twice, with
// tensors that hold one number each.
//
//   2 in the written tensor and 3 in the others, then 3 and 2
//
// A place that keeps its number both times is not written, whether the operator sets, adds, multiplies, or takes an
// extreme or a mean.
#ifndef SMELT_CORE_TENSOR_WRITTEN_PLACES_H_
#define SMELT_CORE_TENSOR_WRITTEN_PLACES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// Returns a contiguous tensor of a real floating-point dtype whose elements are all `number`, a small integer.
Tensor OneNumber(DType dtype, absl::Span<const int64_t> sizes, int number);

// Returns whether an element of some tensor of `read` is at a position of `written` that the operator writes. `call`
// returns the new contents of `written` for these two numbers, in its sizes and dtype. Returns true for dtypes that are
// not floating point, because there the operands with indices cannot be distinguished from those with values.
absl::StatusOr<bool> WritesWhereItReads(const Tensor& written, absl::Span<const Tensor> read,
                                        const std::function<absl::StatusOr<Tensor>(int held, int given)>& call);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_WRITTEN_PLACES_H_
