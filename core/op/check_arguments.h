// Checks of arguments that PyTorch makes before an operator computes anything.
#ifndef SMELT_CORE_OP_CHECK_ARGUMENTS_H_
#define SMELT_CORE_OP_CHECK_ARGUMENTS_H_

#include "absl/status/status.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/scalar.h"

namespace smelt::op_internal {

// Checks that dims are dims of self, and that tensors have the ranks that the operator accepts. Unknown values pass.
absl::Status CheckArguments(const OpCall& call);

// Checks a + alpha * b, a - alpha * b and similar operators for dtypes that PyTorch does not subtract, and for factors
// that it does not accept.
absl::Status CheckSums(const OpCall& call);

// Refuses operators that compute with elements of float8, and those that mix it with other floats: PyTorch has few of the
// former, and none of the latter.
absl::Status CheckFloat8(const OpCall& call);

// Checks that every instruction is defined for its type: there is no exponential of an integer, and no bit operation on
// a float.
absl::Status CheckTypesOf(const OpCall& call, const ScalarFn& f);

}  // namespace smelt::op_internal

#endif  // SMELT_CORE_OP_CHECK_ARGUMENTS_H_
