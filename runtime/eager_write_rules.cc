#include "smelt/runtime/eager_write_rules.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/written_places.h"
#include "smelt/exec/write_protocol.h"

namespace smelt {

absl::Status EagerWriteRules::CheckOperands(int target) const {
  SMELT_ASSIGN_OR_RETURN(const Tensor written, values_.TensorOf(target));
  for (size_t k = 0; k < i_.sharing.size(); ++k) {
    const PythonValue& v = values_[i_.inputs[k]];
    if (i_.inputs[k] == target || !v.IsTensor()) continue;
    SMELT_RETURN_IF_ERROR(CheckOperand(written, v.tensor(), static_cast<OperandSharing>(i_.sharing[k])));
  }
  return absl::OkStatus();
}

bool EagerWriteRules::AllowGroup() const {
  for (int t : i_.targets) {
    if (t < 0) continue;
    if (!values_[t].IsTensor() || OverlapsItselfConcrete(values_[t].tensor().geometry())) return false;
    const Tensor& target = values_[t].tensor();
    for (size_t k = 0; k < i_.inputs.size(); ++k) {
      const PythonValue& v = values_[i_.inputs[k]];
      const auto rule = static_cast<OperandSharing>(i_.sharing[k]);
      if (i_.inputs[k] == t || !v.IsTensor() || rule == OperandSharing::kAny) continue;
      const Tensor& read = v.tensor();
      const bool is_target = read.dtype() == target.dtype() && read.data() == target.data() &&
                             read.sizes() == target.sizes() && read.strides() == target.strides();
      if (rule == OperandSharing::kNotPartly && is_target) continue;
      // PyTorch refuses some writes of a tensor into itself though it has no elements.
      if (read.storage() == target.storage() && (read.NumElements() == 0 || target.NumElements() == 0)) return false;
      if (!AreDisjoint(Placed(target), Placed(read))) return false;
    }
  }
  return true;
}

absl::Status EagerWriteRules::CheckWindows(const Tensor& target) const {
  if (i_.uniform || !OverlapsItselfConcrete(target.geometry())) return absl::OkStatus();
  return absl::UnimplementedError("a write to overlapping windows");
}

absl::Status EagerWriteRules::CheckResized(const Tensor& target) const {
  for (size_t k = 0; k < i_.sharing.size(); ++k) {
    const PythonValue& v = values_[i_.inputs[k]];
    if (!v.IsTensor()) continue;
    if (v.tensor().IsSame(target)) {
      if (i_.flat)
        return absl::FailedPreconditionError("output with the shape of an operand doesn't match the broadcast shape");
      if (i_.computes_first) continue;
      return absl::UnimplementedError("a given result that is an operand and takes other sizes, in which it is read");
    }
    if (static_cast<OperandSharing>(i_.sharing[k]) != OperandSharing::kAny)
      SMELT_RETURN_IF_ERROR(CheckOperand(target, v.tensor(), OperandSharing::kWholeOrNone));
  }
  return absl::OkStatus();
}

absl::Status EagerWriteRules::CheckReadApart(const Tensor& target, Compute compute) const {
  std::vector<Tensor> held;
  for (size_t k = 0; k < i_.sharing.size(); ++k) {
    const PythonValue& v = values_[i_.inputs[k]];
    if (static_cast<OperandSharing>(i_.sharing[k]) != OperandSharing::kNone || !v.IsTensor()) continue;
    if (i_.inputs[k] != i_.targets[0] && IsReadWhileWritten(target, v.tensor())) held.push_back(v.tensor());
  }
  if (held.empty()) return absl::OkStatus();
  // If a place is written twice, or emptied first, an operand could have its old contents at the end and yet be read
  // changed. So none of them may lie at a written place.
  if (i_.grows) return DependsOnOrderError();
  SMELT_ASSIGN_OR_RETURN(const bool reads, WritesWhereItReads(target, held, [&](int kept, int given) {
                           std::vector<PythonValue> inputs = values_.InputsOf(i_);
                           for (size_t k = 0; k < inputs.size(); ++k) {
                             if (!inputs[k].IsTensor()) continue;
                             const Tensor& t = inputs[k].tensor();
                             const bool is_target = i_.inputs[k] == i_.targets[0];
                             if (is_target || t.dtype() == target.dtype())
                               inputs[k] = PythonValue(OneNumber(t.dtype(), t.sizes(), is_target ? kept : given));
                           }
                           return compute(inputs);
                         }));
  return reads ? DependsOnOrderError() : absl::OkStatus();
}

void EagerWriteRules::CopyOperandsReadFirst(const Tensor& target, std::vector<PythonValue>* operands) const {
  for (size_t k = 0; k < i_.sharing.size(); ++k) {
    if (static_cast<OperandSharing>(i_.sharing[k]) != OperandSharing::kAny || i_.inputs[k] == i_.targets[0]) continue;
    PythonValue& v = (*operands)[k];
    if (v.IsTensor() && v.tensor().storage() == target.storage()) v = PythonValue(v.tensor().Clone());
  }
}

}  // namespace smelt
