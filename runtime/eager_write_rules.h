// The rules for an instruction that writes: which of its operands may lie in the written memory. Internal.
//
//   EagerWriteRules rules(instruction, values);
//   SMELT_RETURN_IF_ERROR(rules.CheckOperands(target_number));   // before anything is computed
//   ...compute...
//   SMELT_RETURN_IF_ERROR(rules.CheckReadApart(target, compute));
//   ...write...
//
// exec/write_protocol.h has the rules for one operand. Errors are PyTorch's refusals, or Unimplemented for a result
// that depends on how PyTorch computes.
#ifndef SMELT_RUNTIME_EAGER_WRITE_RULES_H_
#define SMELT_RUNTIME_EAGER_WRITE_RULES_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class EagerWriteRules {
 public:
  using Compute = absl::FunctionRef<absl::StatusOr<Tensor>(absl::Span<const PythonValue> inputs)>;

  EagerWriteRules(const fb::EagerInstrT& instruction, const EagerValues& values) : i_(instruction), values_(values) {}

  // Checks each operand against the written value with this number.
  absl::Status CheckOperands(int target) const;
  // For a Group: returns whether no operand lies where the group writes, as far as the order in which the call computes
  // would show, and no target has elements that share a place.
  bool AllowGroup() const;
  // Elements of the target that share a place are written in PyTorch's order only if WriteInOrder makes the write.
  absl::Status CheckWindows(const Tensor& target) const;
  // Checks a given result that got other sizes: PyTorch has looked at the operands before, and computes now.
  absl::Status CheckResized(const Tensor& target) const;
  // Checks operands that lie in the written memory without PyTorch noticing it. `compute` returns the new contents of
  // the target for other inputs.
  absl::Status CheckReadApart(const Tensor& target, Compute compute) const;
  // Replaces operands that PyTorch reads before it writes anything with copies.
  void CopyOperandsReadFirst(const Tensor& target, std::vector<PythonValue>* operands) const;

 private:
  const fb::EagerInstrT& i_;
  const EagerValues& values_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_WRITE_RULES_H_
