#include "smelt/frontend/checked_json.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "simdjson.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace pt2_internal {
namespace {

constexpr int kMaxJsonDepth = 400;

// Returns false for one of the few values that the two parsers read differently, or for one that nests too deep.
bool Convert(const simdjson::dom::element& from, int depth, Json* to) {
  using Type = simdjson::dom::element_type;
  switch (from.type()) {
    case Type::ARRAY: {
      simdjson::dom::array elements;
      if (depth >= kMaxJsonDepth || from.get(elements) != simdjson::SUCCESS) return false;
      Json::array_t out;
      out.reserve(elements.size());
      for (const simdjson::dom::element e : elements) {
        if (!Convert(e, depth + 1, &out.emplace_back())) return false;
      }
      *to = std::move(out);
      return true;
    }
    case Type::OBJECT: {
      simdjson::dom::object fields;
      if (depth >= kMaxJsonDepth || from.get(fields) != simdjson::SUCCESS) return false;
      Json::object_t out;
      for (const simdjson::dom::key_value_pair& f : fields) {
        // If a key is given twice, the last value counts.
        if (!Convert(f.value, depth + 1, &out[std::string(f.key)])) return false;
      }
      *to = std::move(out);
      return true;
    }
    case Type::INT64: {
      int64_t v = 0;
      if (from.get(v) != simdjson::SUCCESS) return false;
      // Whole numbers without a sign are unsigned in nlohmann's form.
      *to = v >= 0 ? Json(static_cast<uint64_t>(v)) : Json(v);
      return true;
    }
    case Type::UINT64: {
      uint64_t v = 0;
      if (from.get(v) != simdjson::SUCCESS) return false;
      *to = v;
      return true;
    }
    case Type::DOUBLE: {
      double v = 0;
      if (from.get(v) != simdjson::SUCCESS) return false;
      *to = v;
      return true;
    }
    case Type::STRING: {
      std::string_view v;
      if (from.get(v) != simdjson::SUCCESS) return false;
      *to = std::string(v);
      return true;
    }
    case Type::BOOL: {
      bool v = false;
      if (from.get(v) != simdjson::SUCCESS) return false;
      *to = v;
      return true;
    }
    case Type::NULL_VALUE:
      *to = nullptr;
      return true;
  }
  return false;
}

// Takes half the time of nlohmann's parser. It leaves errors, and integers beyond 64 bits, which are doubles there, to
// that parser.
std::optional<Json> ParseFast(absl::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS) return std::nullopt;
  std::optional<Json> out(std::in_place);
  if (!Convert(root, 0, &*out)) return std::nullopt;
  return out;
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view where) {
  if (std::optional<Json> json = ParseFast(text)) return *std::move(json);
  // Unreasonable nesting is refused before parsing, and not by a callback: with one, nlohmann's parser looks through
  // all siblings at the end of each object.
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": JSON nested deeper than ", kMaxJsonDepth, " levels"));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(where, ": not valid JSON"));
  return json;
}

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

absl::Status Expected(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(what, " expected")); }

absl::StatusOr<const Json*> Get(const Json& object, const char* key) {
  const Json* found = Find(object, key);
  if (found == nullptr) return Expected(absl::StrCat("a field \"", key, "\""));
  return found;
}

absl::StatusOr<int64_t> AsInt(const Json& j) {
  if (j.is_number_unsigned() && j.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return absl::InvalidArgumentError(absl::StrCat(j.get<uint64_t>(), " is not an int64"));
  }
  if (!j.is_number_integer()) return Expected("an integer");
  return j.get<int64_t>();
}

absl::StatusOr<double> AsDouble(const Json& j) {
  if (j.is_number()) return j.get<double>();
  if (j.is_string()) {  // PyTorch writes non-finite numbers as strings
    double v;
    if (absl::SimpleAtod(j.get_ref<const std::string&>(), &v)) return v;
  }
  return Expected("a number");
}

absl::StatusOr<std::string> AsString(const Json& j) {
  if (!j.is_string()) return Expected("a string");
  return j.get<std::string>();
}

absl::StatusOr<bool> AsBool(const Json& j) {
  if (!j.is_boolean()) return Expected("true or false");
  return j.get<bool>();
}

absl::StatusOr<std::string> GetString(const Json& object, const char* key) {
  SMELT_ASSIGN_OR_RETURN(const Json* j, Get(object, key));
  auto s = AsString(*j);
  if (!s.ok()) return Annotate(s.status(), absl::StrCat("field \"", key, "\""));
  return s;
}

absl::StatusOr<std::pair<std::string, const Json*>> AsUnion(const Json& j) {
  if (!j.is_object() || j.size() != 1) return Expected("an object with one key (a union)");
  return std::make_pair(j.begin().key(), &*j.begin());
}

}  // namespace pt2_internal
}  // namespace smelt
