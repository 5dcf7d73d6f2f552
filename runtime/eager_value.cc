#include "smelt/runtime/eager_value.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace smelt {

PythonValue FromDatum(const Datum& datum) {
  if (datum.IsTensor() && datum.tensor().defined()) return PythonValue(datum.tensor());
  if (datum.IsInt()) return PythonValue(datum.as_int());
  if (datum.IsFloat()) return PythonValue(datum.as_float());
  if (datum.IsBool()) return PythonValue(datum.as_bool());
  if (datum.IsString()) return PythonValue(datum.as_string());
  if (datum.IsComplex()) return PythonValue(datum.as_complex());
  return PythonValue();
}

absl::StatusOr<Datum> ToDatum(const PythonValue& value) {
  if (value.IsTensor()) return Datum(value.tensor());
  if (value.IsInt()) return Datum(value.as_int());
  if (value.IsDouble()) return Datum(value.as_double());
  if (value.IsBool()) return Datum(value.as_bool());
  if (value.IsString()) return Datum(value.as_string());
  if (value.IsComplex()) return Datum(value.as_complex());
  if (value.IsNone()) return Datum();
  return absl::FailedPreconditionError(absl::StrCat(value.KindName(), " where a tensor or number is expected"));
}

std::vector<PythonValue> EagerValues::Gather(const std::vector<int>& from, size_t first, size_t count) const {
  std::vector<PythonValue> out;
  out.reserve(count);
  for (size_t k = 0; k < count; ++k) out.push_back(values_[from[first + k]]);
  return out;
}

void EagerValues::Bind(const std::vector<int>& to, std::vector<PythonValue> with) {
  for (size_t k = 0; k < to.size() && k < with.size(); ++k) {
    if (to[k] >= 0) values_[to[k]] = std::move(with[k]);
  }
}

}  // namespace smelt
