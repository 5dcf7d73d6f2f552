// Operators on numbers, lists and sizes, by name. Internal.
#ifndef SMELT_RUNTIME_EAGER_NUMBERS_H_
#define SMELT_RUNTIME_EAGER_NUMBERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/runtime/eager_value.h"

namespace smelt {

// Runs "aten::add" on its arguments in the schema's order, with the semantics of Python's numbers and TorchScript's
// lists. Returns as many results as the operator has; ListUnpack returns the elements.
absl::StatusOr<std::vector<EagerValue>> EagerNumber(const std::string& op, absl::Span<const EagerValue> args);

// A function of one or two numbers ("Float", "add", "sqrt") as a float.
absl::StatusOr<double> ComputeNumber(absl::string_view function, absl::Span<const EagerValue> numbers);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_NUMBERS_H_
