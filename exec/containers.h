// Lists, tuples and dictionaries of Python, as TorchScript has them.
//
//   PythonValue list = PythonValue::Ints({1, 2});
//   RunOnList(PythonOp::kAppend, {list, PythonValue(int64_t{3})});   // list is [1, 2, 3]
//
// A container is a handle (exec/value.h): an operator that changes it changes it under all of its names.
#ifndef SMELT_EXEC_CONTAINERS_H_
#define SMELT_EXEC_CONTAINERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/op/python_op.h"
#include "smelt/exec/value.h"

namespace smelt {

// Returns whether two values are equal as keys and as operands of `==`: numbers by value, lists by their elements,
// tensors and dictionaries by identity.
bool AreEqual(const PythonValue& a, const PythonValue& b);

// `args` are in the schema's order, and the first one is a list, or a dictionary. Returns the operator's results.
// FailedPrecondition or OutOfRange is Python's exception. Lookup in a dictionary is linear.
absl::StatusOr<std::vector<PythonValue>> RunOnList(PythonOp op, absl::Span<const PythonValue> args);
absl::StatusOr<std::vector<PythonValue>> RunOnDict(PythonOp op, absl::Span<const PythonValue> args);

// Makes a dictionary of key, value, key, value. A key that is given twice has the last value.
PythonValue MakeDict(absl::Span<const PythonValue> keys_and_values);

}  // namespace smelt

#endif  // SMELT_EXEC_CONTAINERS_H_
