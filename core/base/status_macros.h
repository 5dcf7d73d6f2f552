// Returns errors to the caller, with context added on the way.
//
//   absl::StatusOr<Graph> Load(absl::string_view path) {
//     SMELT_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
//     SMELT_RETURN_IF_ERROR(CheckHeader(file.bytes()));
//     return Annotate(Decode(file.bytes()), path);   // "kv.smg: node 3: ..."
//   }
//
// Context goes before the message, the outermost first.
#ifndef SMELT_CORE_BASE_STATUS_MACROS_H_
#define SMELT_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

// Returns the same error with "context: " before its message; code and payloads do not change. An OK status is returned
// unchanged.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> value, absl::string_view context) {
  if (ABSL_PREDICT_TRUE(value.ok())) return value;
  return Annotate(value.status(), context);
}

namespace status_internal {
inline absl::Status ToStatus(absl::Status status) { return status; }
template <typename T>
absl::Status ToStatus(const absl::StatusOr<T>& value) {
  return value.status();
}
}  // namespace status_internal

}  // namespace smelt

// Returns from the enclosing function if the Status or StatusOr is an error.
#define SMELT_RETURN_IF_ERROR(...)                                                   \
  do {                                                                               \
    if (absl::Status smelt_status = ::smelt::status_internal::ToStatus(__VA_ARGS__); \
        ABSL_PREDICT_FALSE(!smelt_status.ok()))                                      \
      return smelt_status;                                                           \
  } while (false)

// Declares or assigns `target` from a StatusOr, or returns its error. Two statements: not for the body of an if without
// braces. A type with a comma in it needs an alias or auto.
#define SMELT_ASSIGN_OR_RETURN(target, ...) \
  SMELT_ASSIGN_OR_RETURN_IMPL_(SMELT_STATUS_CONCAT_(smelt_value_, __LINE__), target, __VA_ARGS__)

#define SMELT_STATUS_CONCAT_(a, b) SMELT_STATUS_CONCAT_IMPL_(a, b)
#define SMELT_STATUS_CONCAT_IMPL_(a, b) a##b
#define SMELT_ASSIGN_OR_RETURN_IMPL_(value, target, ...)                 \
  auto value = __VA_ARGS__;                                              \
  if (ABSL_PREDICT_FALSE(!value.ok())) return std::move(value).status(); \
  target = *std::move(value)

#endif  // SMELT_CORE_BASE_STATUS_MACROS_H_
