// View operators on tensors, by name: core/tensor's rules with a call's numbers. Internal.
#ifndef SMELT_RUNTIME_EAGER_VIEWS_H_
#define SMELT_RUNTIME_EAGER_VIEWS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/exec/value.h"

namespace smelt {

// Runs "aten::select.int" on its arguments in the schema's order. The result is a tensor over the operand's storage, a
// list of these, or the operand itself where PyTorch returns it. reshape, contiguous and clone copy where they must.
// Errors have PyTorch's messages.
absl::StatusOr<PythonValue> EagerView(const std::string& op, absl::Span<const PythonValue> args);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_VIEWS_H_
