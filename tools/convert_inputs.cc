#include "smelt/tools/convert_inputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

bool IsModel(const fs::path& p) {
  const std::string e = p.extension().string();
  return e == ".pt2" || e == ".ir" || e == ".smg";
}

}  // namespace

absl::StatusOr<std::vector<ConvertInput>> FindConvertInputs(const std::vector<std::string>& paths) {
  std::vector<ConvertInput> out;
  std::set<std::string> seen;  // a model that is named twice is one
  auto add = [&](const fs::path& path, fs::path relative) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(path, error).string()).second) return;
    relative.replace_extension();
    const auto bytes = fs::file_size(path, error);
    out.push_back({path.string(), relative.string(), error ? 0 : static_cast<int64_t>(bytes)});
  };
  for (const std::string& given : paths) {
    const fs::path path = fs::path(given).lexically_normal();
    std::error_code error;
    if (fs::is_directory(path, error)) {
      fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
      for (; !error && it != end; it.increment(error)) {
        if (it->is_regular_file(error) && IsModel(it->path())) add(it->path(), it->path().lexically_relative(path));
      }
      if (error) return absl::NotFoundError(absl::StrCat(given, ": ", error.message()));
      continue;
    }
    if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat(given, ": No such file or directory"));
    if (!IsModel(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(given, ": a folder, or a file that ends in .pt2, .ir or .smg expected"));
    }
    const bool leaves = path.is_absolute() || (!path.empty() && *path.begin() == "..");
    add(path, leaves ? path.filename() : path);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const ConvertInput& a, const ConvertInput& b) { return a.relative < b.relative; });
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i].relative == out[i - 1].relative) {
      return absl::InvalidArgumentError(
          absl::StrCat(out[i - 1].path, " and ", out[i].path, " would both become ", out[i].relative, ".smb"));
    }
  }
  return out;
}

}  // namespace smelt
