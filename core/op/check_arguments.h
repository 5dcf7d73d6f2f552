// What PyTorch checks of arguments before an operator computes anything.
#ifndef SMELT_CORE_OP_CHECK_ARGUMENTS_H_
#define SMELT_CORE_OP_CHECK_ARGUMENTS_H_

#include "absl/status/status.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/scalar.h"

namespace smelt::op_internal {

// That dims are dims of self, and that tensors have the ranks that the operator is for. What is not known passes.
absl::Status CheckArguments(const OpCall& call);

// Of a + alpha * b and a - alpha * b, among them: what PyTorch does not subtract, and what it does not multiply by.
absl::Status CheckSums(const OpCall& call);

// That every instruction has a meaning for its type: there is no exponential of an integer, and no bit of a float.
absl::Status CheckTypesOf(const OpCall& call, const ScalarFn& f);

}  // namespace smelt::op_internal

#endif  // SMELT_CORE_OP_CHECK_ARGUMENTS_H_
