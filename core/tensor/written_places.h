// Which elements an operator writes at places that indices choose, found out by its answers: it is called twice, with
// tensors that hold one number each.
//
//   2 in what it writes and 3 in what it reads, then 3 and 2
//
// Whether it sets, adds, multiplies, takes an extreme or a mean: a place that keeps its number both times is not
// written.
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

// A contiguous tensor of a real floating point dtype whose elements are all `number`, a small integer.
Tensor OneNumber(DType dtype, absl::Span<const int64_t> sizes, int number);

// Whether an element of some tensor of `read` lies at a place of `written` that the operator writes. `call` gives the
// new contents of `written` for these two numbers, in its sizes and dtype. Of dtypes that are not floating point true:
// there the operands that say where to write cannot be told from those that say what.
absl::StatusOr<bool> WritesWhereItReads(const Tensor& written, absl::Span<const Tensor> read,
                                        const std::function<absl::StatusOr<Tensor>(int held, int given)>& call);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_WRITTEN_PLACES_H_
