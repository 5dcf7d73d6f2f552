#include "smelt/runtime/json_text.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace smelt {

absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text, absl::string_view where) {
  constexpr int kMaxDepth = 200;
  std::string clean;
  clean.reserve(text.size());
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      clean.push_back(c);
      if (c == '\\' && i + 1 < text.size()) clean.push_back(text[++i]);
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if ((c == '[' || c == '{') && ++depth > kMaxDepth)
      return absl::DataLossError(absl::StrCat(where, ": JSON nested deeper than ", kMaxDepth, " levels"));
    if (c == ']' || c == '}') --depth;
    bool word = false;
    for (absl::string_view w : {"NaN", "-Infinity", "Infinity"}) {
      if (!word && absl::StartsWith(text.substr(i), w)) {
        absl::StrAppend(&clean, "\"", w, "\"");
        i += w.size() - 1;
        word = true;
      }
    }
    if (!word) clean.push_back(c);
  }
  nlohmann::json json = nlohmann::json::parse(clean, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::DataLossError(absl::StrCat(where, ": not valid JSON"));
  return json;
}

}  // namespace smelt
