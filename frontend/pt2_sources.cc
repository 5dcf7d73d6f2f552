#include "smelt/frontend/pt2_sources.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace smelt {
namespace pt2_internal {

std::shared_ptr<const SourceLocation> Pt2Sources::SourceOf(const Json& node) {
  const Json* metadata = Find(node, "metadata");
  const Json* trace = metadata == nullptr ? nullptr : Find(*metadata, "stack_trace");
  if (trace == nullptr || !trace->is_string()) return nullptr;
  const std::string& text = trace->get_ref<const std::string&>();
  auto [it, fresh] = sources_.try_emplace(text);
  if (!fresh) return it->second;
  SourceLocation best;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
    if (!absl::ConsumePrefix(&line, "File \"")) continue;
    const size_t quote = line.find('"');
    if (quote == absl::string_view::npos) continue;
    const absl::string_view file = line.substr(0, quote);
    absl::string_view rest = line.substr(quote + 1);
    if (!absl::ConsumePrefix(&rest, ", line ")) continue;
    int number;
    if (!absl::SimpleAtoi(rest.substr(0, rest.find(',')), &number)) continue;
    const bool library = absl::StrContains(file, "<") || absl::StrContains(file, "site-packages/");
    if (library && !best.file.empty()) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(file, '/');
    best.file = std::string(absl::StrContains(file, "site-packages/") ? file.substr(file.rfind("site-packages/") + 14)
                                                                      : parts.back());
    best.line = number;
    best.text = i + 1 < lines.size() ? std::string(absl::StripAsciiWhitespace(lines[i + 1])) : "";
  }
  if (!best.file.empty()) it->second = std::make_shared<const SourceLocation>(std::move(best));
  return it->second;
}

}  // namespace pt2_internal
}  // namespace smelt
