#include "smelt/tools/command_line.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {

absl::StatusOr<CommandLine> CommandLine::Parse(const std::vector<std::string>& args,
                                               const std::vector<std::string>& options,
                                               const std::vector<std::string>& flags) {
  CommandLine out;
  auto known = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& a = args[i];
    if (a.size() < 2 || a[0] != '-') {
      out.positional_.push_back(a);
      continue;
    }
    const bool is_long = a[1] == '-';
    const size_t equals = a.find('=');
    const std::string name =
        a.substr(is_long ? 2 : 1, equals == std::string::npos ? std::string::npos : equals - (is_long ? 2 : 1));
    if (known(flags, name) && equals == std::string::npos) {
      out.values_[name] = "true";
    } else if (known(options, name)) {
      if (equals != std::string::npos) {
        out.values_[name] = a.substr(equals + 1);
      } else if (i + 1 < args.size()) {
        out.values_[name] = args[++i];
      } else {
        return absl::InvalidArgumentError(absl::StrCat("option ", a, " needs a value"));
      }
    } else {
      if (known(flags, name)) return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value: ", a));
      std::vector<std::string> all = options;
      all.insert(all.end(), flags.begin(), flags.end());
      for (std::string& known_name : all) known_name.insert(0, known_name.size() == 1 ? "-" : "--");
      return absl::InvalidArgumentError(absl::StrCat("unknown option ", a, "; known: ", absl::StrJoin(all, ", ")));
    }
  }
  return out;
}

std::string CommandLine::Get(absl::string_view name, absl::string_view fallback) const {
  auto it = values_.find(std::string(name));
  return it == values_.end() ? std::string(fallback) : it->second;
}

absl::StatusOr<int64_t> CommandLine::GetInt(absl::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  auto it = values_.find(std::string(name));
  if (it == values_.end()) return fallback;
  int64_t v;
  if (!absl::SimpleAtoi(it->second, &v) || v < min || v > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", it->second, ": a whole number from ", min, " to ", max, " expected"));
  }
  return v;
}

bool AreOneFile(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& path : {a, b}) {
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return false;
  }
  const bool one = fs::equivalent(a, b, error);
  if (!error) return one;
  return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error) && !error;
}

absl::Status CommandLine::RefuseWithoutEffect(const std::vector<std::string>& names, absl::string_view where) const {
  for (const std::string& name : names) {
    if (!Has(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(name.size() == 1 ? "-" : "--", name, " has no effect ", where));
  }
  return absl::OkStatus();
}

absl::Status CommandLine::CheckFiles(const std::vector<std::string>& reads, const std::vector<std::string>& writes,
                                     size_t first_file) const {
  std::vector<std::string> taken(positional_.begin() + static_cast<ptrdiff_t>(std::min(first_file, positional_.size())),
                                 positional_.end());
  const auto files = [&](const std::string& option) -> std::vector<std::string> {
    if (!Has(option)) return {};
    return absl::StrSplit(Get(option), ',', absl::SkipEmpty());
  };
  for (const std::string& option : reads) {
    for (std::string& file : files(option)) taken.push_back(std::move(file));
  }
  for (const std::string& option : writes) {
    if (Has(option) && files(option).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(option.size() == 1 ? "-" : "--", option, " is empty: the name of a file to write expected"));
    }
    for (std::string& file : files(option)) {
      for (const std::string& other : taken) {
        if (!AreOneFile(file, other)) continue;
        return absl::InvalidArgumentError(absl::StrCat(option.size() == 1 ? "-" : "--", option, "=", file,
                                                       ": another file expected: this one is also \"", other,
                                                       "\", which would be lost"));
      }
      taken.push_back(std::move(file));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExpandParamsFiles(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a.size() < 2 || a[0] != '@') {
      out.push_back(a);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(std::string text, ReadFile(a.substr(1)));
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!line.empty()) out.push_back(std::string(line));
    }
  }
  return out;
}

}  // namespace smelt
