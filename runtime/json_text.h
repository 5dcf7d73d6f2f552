// JSON of untrusted origin, without exceptions and without deep recursion.
#ifndef SMELT_RUNTIME_JSON_TEXT_H_
#define SMELT_RUNTIME_JSON_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace smelt {

// NaN, Infinity and -Infinity, which Python writes as bare words, become the strings of that name. DataLoss for what is
// no JSON or nested deeper than 200 levels.
absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text, absl::string_view where);

}  // namespace smelt

#endif  // SMELT_RUNTIME_JSON_TEXT_H_
