// Dictionaries of TorchScript in an eager-order program. Internal.
#ifndef SMELT_RUNTIME_EAGER_DICTS_H_
#define SMELT_RUNTIME_EAGER_DICTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/runtime/eager_value.h"

namespace smelt {

// Returns whether two values are equal as keys and as operands of `==`: numbers by value, tensors by identity.
bool SameEagerValue(const EagerValue& a, const EagerValue& b);

// Runs an operator on a dictionary by its name without the namespace: "construct", "__getitem__", "_set_item",
// "items"... A dictionary is a list of key, value, key, value in the order in which the keys were first set; lookup is
// linear.
absl::StatusOr<std::vector<EagerValue>> EagerDict(absl::string_view op, absl::Span<const EagerValue> args);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_DICTS_H_
