// Operators on Python's values, by the names that an eager-order program uses. Internal.
#ifndef SMELT_RUNTIME_EAGER_PYTHON_H_
#define SMELT_RUNTIME_EAGER_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/exec/value.h"

namespace smelt {

// Runs an operator of exec/python.h, or one of the checks that the compiler adds. `op` is the name without an overload;
// operators on dictionaries are in the namespace dict. Returns as many results as the operator has; unpacking a list
// returns the elements.
absl::StatusOr<std::vector<PythonValue>> RunEagerPython(const std::string& op, absl::Span<const PythonValue> args);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_PYTHON_H_
