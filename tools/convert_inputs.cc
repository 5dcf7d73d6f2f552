#include "smelt/tools/convert_inputs.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/sha256.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

bool IsModel(const fs::path& p) {
  const std::string e = p.extension().string();
  return e == ".pt2" || e == ".ir" || e == ".smg";
}

// Returns whether a folder is one bundle, whose methods are the models in it.
bool IsMethodFolder(const fs::path& folder) { return folder.extension() == ".methods"; }

// The models in a folder of methods, by name.
absl::StatusOr<std::vector<MethodFile>> MethodsIn(const fs::path& folder) {
  std::error_code error;
  std::vector<MethodFile> out;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!IsModel(it->path()) || !fs::is_regular_file(it->path(), error)) continue;
    out.push_back({it->path().stem().string(), it->path().string()});
    if (!IsMethodName(out.back().method)) {
      return absl::InvalidArgumentError(absl::StrCat(out.back().path, ": a file of ", folder.string(),
                                                     " is called as its method is: letters, digits and _ expected"));
    }
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
  if (out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no models in ", folder.string(), ": files METHOD.pt2, METHOD.ir or METHOD.smg expected"));
  }
  std::sort(out.begin(), out.end(), [](const MethodFile& a, const MethodFile& b) { return a.path < b.path; });
  for (size_t i = 1; i < out.size(); ++i) {
    if (out[i].method == out[i - 1].method) {
      return absl::InvalidArgumentError(
          absl::StrCat(out[i - 1].path, " and ", out[i].path, " would both become the method ", out[i].method));
    }
  }
  return out;
}

// Calls `found(path)` for the models and the folders of methods in a folder, including those behind symbolic links.
// `above` are the folders on the way to it, as the file system knows them: a link back to one of them is reported and
// not followed.
absl::Status ForEachModel(const fs::path& folder, std::vector<fs::path>& above,
                          const std::function<void(const fs::path&)>& found) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (!error && std::find(above.begin(), above.end(), real) != above.end()) {
    std::fprintf(stderr, "smelt convert: %s is not followed: it leads back to %s\n", folder.c_str(), real.c_str());
    return absl::OkStatus();
  }
  above.push_back(real);
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error == std::errc::permission_denied) {
    std::fprintf(stderr, "smelt convert: %s is not read: %s\n", folder.c_str(), error.message().c_str());
  } else if (error) {
    return absl::NotFoundError(absl::StrCat(folder.string(), ": ", error.message()));
  }
  for (const fs::path& entry : entries) {
    const fs::file_status status = fs::status(entry, error);  // of what a link leads to
    if (fs::is_directory(status) && IsMethodFolder(entry)) {
      found(entry);
    } else if (fs::is_directory(status)) {
      absl::Status s = ForEachModel(entry, above, found);
      if (!s.ok()) return s;
    } else if (IsModel(entry)) {
      if (fs::is_regular_file(status)) {
        found(entry);
      } else {
        std::fprintf(stderr, "smelt convert: %s is not converted: %s\n", entry.c_str(),
                     status.type() == fs::file_type::not_found ? "it leads to no file" : "it is no regular file");
      }
    }
  }
  above.pop_back();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ConvertInput>> FindConvertInputs(const std::vector<std::string>& paths, bool keep_going) {
  std::vector<ConvertInput> out;
  std::set<std::string> seen;  // a model that is named twice is one; behind a link it is another
  absl::Status wrong;          // the first folder of methods that is none
  auto add = [&](const fs::path& path, fs::path relative, std::string missing = "") {
    std::error_code error;
    if (!seen.insert(fs::absolute(path, error).lexically_normal().string()).second) return;
    relative.replace_extension();
    ConvertInput input{.path = path.string(), .relative = relative.string(), .missing = std::move(missing)};
    if (fs::is_directory(path, error)) {
      auto methods = MethodsIn(path);
      wrong.Update(methods.status());
      if (methods.ok()) input.files = *std::move(methods);
    } else {
      input.files.push_back({"", input.path});
    }
    for (const MethodFile& file : input.files) {
      const auto bytes = fs::file_size(file.path, error);
      if (!error) input.bytes += static_cast<int64_t>(bytes);
    }
    out.push_back(std::move(input));
  };
  for (const std::string& given : paths) {
    fs::path path = fs::path(given).lexically_normal();
    if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();  // a/ is a
    std::error_code error;
    const bool is_folder = fs::is_directory(path, error);
    if (is_folder && !IsMethodFolder(path)) {
      std::vector<fs::path> above;
      absl::Status s =
          ForEachModel(path, above, [&](const fs::path& model) { add(model, model.lexically_relative(path)); });
      if (!s.ok()) return s;
      continue;
    }
    const bool exists = fs::exists(path, error);
    if (!exists && !keep_going) return absl::NotFoundError(absl::StrCat(given, ": No such file or directory"));
    if (exists && !is_folder && !IsModel(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(given, ": a folder, or a file that ends in .pt2, .ir or .smg expected"));
    }
    const bool leaves = path.is_absolute() || (!path.empty() && *path.begin() == "..");
    add(path, leaves ? path.filename() : path, exists ? "" : "No such file or directory");
  }
  if (!wrong.ok()) return wrong;
  if (out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no models in ", absl::StrJoin(paths, ", "), ": files that end in .pt2, .ir or .smg expected"));
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

bool ConvertShard::Holds(const ConvertInput& input) const {
  Sha256Hasher hasher;
  hasher.Update(input.relative);
  const Sha256Digest digest = hasher.Finish();
  uint64_t hash = 0;
  for (int i = 0; i < 8; ++i) hash = hash << 8 | digest[i];
  return hash % static_cast<uint64_t>(count) == static_cast<uint64_t>(number - 1);
}

absl::StatusOr<ConvertShard> ParseConvertShard(absl::string_view text) {
  constexpr int64_t kMaxShards = 1000000;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  ConvertShard out;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &out.number) || !absl::SimpleAtoi(parts[1], &out.count) ||
      out.count > kMaxShards || out.number < 1 || out.number > out.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shard=", text, ": I/N expected, the I-th of N shards, such as --shard=1/4 to --shard=4/4"));
  }
  return out;
}

}  // namespace smelt
