// Python's numbers: the only arithmetic on them, for the reference evaluator and the runtime.
//
//   *BinaryNumber(PythonOp::kFloorDiv, PythonValue(int64_t{-7}), PythonValue(int64_t{2}))   // -4
//   BinaryNumber(PythonOp::kMul, PythonValue(INT64_MAX), PythonValue(int64_t{2}))           // an error
//
// Integers have no limit in Python. Here they have 64 bits, and a result that needs more is refused, never wrapped.
// Errors are FailedPrecondition with the text of Python's exception, or Unimplemented for an operator that is not one
// on numbers.
#ifndef SMELT_EXEC_NUMBER_H_
#define SMELT_EXEC_NUMBER_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/op/python_op.h"
#include "smelt/exec/value.h"

namespace smelt {

// The arguments must be numbers; a bool counts as an integer.
absl::StatusOr<PythonValue> UnaryNumber(PythonOp op, const PythonValue& a);
absl::StatusOr<PythonValue> BinaryNumber(PythonOp op, const PythonValue& a, const PythonValue& b);

// Returns the number in a tensor of one element, as tensor.item() does.
absl::StatusOr<PythonValue> ItemOf(const Tensor& t);
// Converts a number, or a tensor of one element, as int() does: a float is truncated.
absl::StatusOr<int64_t> ToInteger(const PythonValue& v);
// Returns the truth of a number, or of a tensor of one element.
absl::StatusOr<bool> TruthOf(const PythonValue& v);

// for i in range(low, high, step): the number of steps, and the value at a step.
absl::StatusOr<int64_t> RangeLength(int64_t low, int64_t high, int64_t step);
absl::StatusOr<int64_t> RangeElement(int64_t index, int64_t start, int64_t step);

}  // namespace smelt

#endif  // SMELT_EXEC_NUMBER_H_
