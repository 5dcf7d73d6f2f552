// Operators on Python's values, in one place for the reference evaluator and the runtime.
//
//   RunPython(PythonOp::kLen, {list})              // {3}
//   RunPython(PythonOp::kSize, {tensor, dim})      // {640}
//
// exec/number.h has the arithmetic, exec/containers.h the lists and dictionaries. This part chooses among them by the
// values at hand, and answers questions about tensors.
#ifndef SMELT_EXEC_PYTHON_H_
#define SMELT_EXEC_PYTHON_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/op/python_op.h"
#include "smelt/exec/value.h"

namespace smelt {

// `args` are in the schema's order; defaults may be missing at the end. Returns as many results as the operator has;
// kUnpack returns the elements. An error is Python's or PyTorch's refusal (FailedPrecondition, OutOfRange), or
// Unimplemented. Its text names no operator and no place: callers add them.
absl::StatusOr<std::vector<PythonValue>> RunPython(PythonOp op, absl::Span<const PythonValue> args);

}  // namespace smelt

#endif  // SMELT_EXEC_PYTHON_H_
