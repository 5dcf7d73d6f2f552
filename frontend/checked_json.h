// Access to untrusted JSON: anything unexpected is an error, never an exception.
//
//   SMELT_ASSIGN_OR_RETURN(Json json, ParseJson(text, "net.pt2: models/model.json"));
//   SMELT_ASSIGN_OR_RETURN(const Json* major, Get(json, "major"));   // or: a field "major" expected
//   SMELT_ASSIGN_OR_RETURN(int64_t number, AsInt(*major));           // or: an integer expected
#ifndef SMELT_FRONTEND_CHECKED_JSON_H_
#define SMELT_FRONTEND_CHECKED_JSON_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace smelt {
namespace pt2_internal {

using Json = nlohmann::json;

absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view where);
const Json* Find(const Json& object, const char* key);
absl::Status Expected(absl::string_view what);
absl::StatusOr<const Json*> Get(const Json& object, const char* key);
absl::StatusOr<int64_t> AsInt(const Json& j);
absl::StatusOr<double> AsDouble(const Json& j);
absl::StatusOr<std::string> AsString(const Json& j);
absl::StatusOr<bool> AsBool(const Json& j);
absl::StatusOr<std::string> GetString(const Json& object, const char* key);
// Returns the key and value of a one-key union such as {"as_int": 3}. "as_none" among the keys of an optional counts
// like any other.
absl::StatusOr<std::pair<std::string, const Json*>> AsUnion(const Json& j);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_CHECKED_JSON_H_
