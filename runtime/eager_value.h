// The values of a call in eager order, by their numbers in the program. Internal.
#ifndef SMELT_RUNTIME_EAGER_VALUE_H_
#define SMELT_RUNTIME_EAGER_VALUE_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/exec/value.h"
#include "smelt/runtime/value.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// An undefined tensor is None in a program.
PythonValue FromDatum(const Datum& datum);
// Returns an error for a list or a dictionary, which no kernel and no caller takes.
absl::StatusOr<Datum> ToDatum(const PythonValue& value);

// A program gives each value a number. Values that are one tensor have one number.
class EagerValues {
 public:
  explicit EagerValues(int count) : values_(count) {}

  PythonValue& operator[](int v) { return values_[v]; }
  const PythonValue& operator[](int v) const { return values_[v]; }
  absl::StatusOr<Tensor> TensorOf(int v) const { return values_[v].AsTensor(); }

  std::vector<PythonValue> InputsOf(const fb::EagerInstrT& i) const { return Gather(i.inputs, 0, i.inputs.size()); }
  // Does nothing for an output that the program does not use.
  void SetOutput(const fb::EagerInstrT& i, size_t output, PythonValue value) {
    if (output < i.outputs.size() && i.outputs[output] >= 0) values_[i.outputs[output]] = std::move(value);
  }
  std::vector<PythonValue> Gather(const std::vector<int>& from, size_t first, size_t count) const;
  void Bind(const std::vector<int>& to, std::vector<PythonValue> with);

 private:
  std::vector<PythonValue> values_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_VALUE_H_
