#include "smelt/core/base/cause.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"

namespace smelt {
namespace {

constexpr char kType[] = "smelt/cause";

}  // namespace

absl::Status WithCause(absl::Status error, Cause cause) {
  if (!error.ok()) error.SetPayload(kType, absl::Cord(std::string(1, static_cast<char>(cause))));
  return error;
}

Cause CauseOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kType);
  return payload && payload->size() == 1 ? static_cast<Cause>((*payload)[0]) : Cause::kNone;
}

}  // namespace smelt
