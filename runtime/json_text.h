// Reads and writes untrusted JSON without exceptions and without deep recursion.
#ifndef SMELT_RUNTIME_JSON_TEXT_H_
#define SMELT_RUNTIME_JSON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace smelt {

// NaN, Infinity and -Infinity, which Python writes as bare words, become the strings of that name. Returns DataLoss for
// text that is not JSON or is nested deeper than 200 levels.
absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text, absl::string_view where);

// Returns `json` as text, on one line unless `indent` is given. Strings may hold any bytes: invalid UTF-8 becomes
// U+FFFD, where `dump()` would throw.
template <typename Json>
std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_JSON_TEXT_H_
