// A value of an eager-order program. Internal.
#ifndef SMELT_RUNTIME_EAGER_VALUE_H_
#define SMELT_RUNTIME_EAGER_VALUE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "smelt/runtime/value.h"

namespace smelt {

// A Datum, or a list of values. A list is a handle, as in Python: a value that is appended under one name is visible
// under another.
struct EagerValue {
  Datum datum;
  std::shared_ptr<std::vector<EagerValue>> list;

  EagerValue() = default;
  EagerValue(Datum d) : datum(std::move(d)) {}  // NOLINT: implicit on purpose
  static EagerValue List(std::vector<EagerValue> elements) {
    EagerValue v;
    v.list = std::make_shared<std::vector<EagerValue>>(std::move(elements));
    return v;
  }
  bool IsList() const { return list != nullptr; }
  bool IsNone() const { return list == nullptr && datum.IsNone(); }
  bool IsTensor() const { return list == nullptr && datum.IsTensor() && datum.tensor().defined(); }
  bool IsNumber() const { return list == nullptr && (datum.IsInt() || datum.IsFloat() || datum.IsBool()); }
  const char* KindName() const { return IsList() ? "a list" : datum.KindName(); }

  absl::StatusOr<Tensor> AsTensor() const {
    if (IsTensor()) return datum.tensor();
    return absl::FailedPreconditionError(absl::StrCat("a tensor is expected, not ", KindName()));
  }
  absl::StatusOr<int64_t> AsInt() const {
    if (list == nullptr && datum.IsInt()) return datum.as_int();
    if (list == nullptr && datum.IsBool()) return int64_t{datum.as_bool()};
    return absl::FailedPreconditionError(absl::StrCat("an integer is expected, not ", KindName()));
  }
  absl::StatusOr<double> AsDouble() const {
    if (list == nullptr && datum.IsFloat()) return datum.as_float();
    absl::StatusOr<int64_t> i = AsInt();
    if (i.ok()) return static_cast<double>(*i);
    return absl::FailedPreconditionError(absl::StrCat("a number is expected, not ", KindName()));
  }
  absl::StatusOr<std::vector<int64_t>> AsInts() const {
    std::vector<int64_t> out;
    if (!IsList()) {
      absl::StatusOr<int64_t> i = AsInt();
      if (!i.ok()) return i.status();
      return std::vector<int64_t>{*i};
    }
    for (const EagerValue& e : *list) {
      absl::StatusOr<int64_t> i = e.AsInt();
      if (!i.ok()) return i.status();
      out.push_back(*i);
    }
    return out;
  }
};

// Refuses sizes that no memory can hold, before the bytes are counted. A lack of memory is detected when it is
// allocated (core/base/out_of_memory.h).
inline absl::Status CheckMemoryFor(int64_t elements, int item_bytes) {
  int64_t bytes;
  if (!__builtin_mul_overflow(elements, int64_t{item_bytes}, &bytes) && bytes <= int64_t{1} << 46) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", elements, " elements"));
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_VALUE_H_
