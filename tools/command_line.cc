#include "smelt/tools/command_line.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/tools/exit_codes.h"

namespace smelt {

absl::StatusOr<CommandLine> CommandLine::Parse(const std::vector<std::string>& args, const CommandSpec& command) {
  CommandLine out;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& a = args[i];
    if (a == "--") {
      out.positional_.insert(out.positional_.end(), args.begin() + static_cast<ptrdiff_t>(i) + 1, args.end());
      break;
    }
    if (a.size() < 2 || a[0] != '-') {
      out.positional_.push_back(a);
      continue;
    }
    const size_t dashes = a[1] == '-' ? 2 : 1;
    const size_t equals = a.find('=');
    const std::string given = a.substr(dashes, equals == std::string::npos ? std::string::npos : equals - dashes);
    const OptionSpec* option = command.Find(a == "-h" ? "help" : given);
    if (option == nullptr) {
      std::vector<std::string> names;
      for (const OptionSpec& o : command.options) names.push_back(o.name);
      const std::string meant = ClosestWord(given, names);
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", a, meant.empty() ? "" : absl::StrCat("; did you mean ", Dashed(meant), "?")));
    }
    std::vector<std::string>& values = out.values_[option->same_as.empty() ? option->name : option->same_as];
    if (option->value.empty()) {
      if (equals != std::string::npos)
        return absl::InvalidArgumentError(absl::StrCat(Dashed(option->name), " takes no value: ", a));
      values.push_back("true");
    } else if (equals != std::string::npos) {
      values.push_back(a.substr(equals + 1));
    } else if (option->value_is_optional) {
      values.push_back("true");
    } else if (i + 1 < args.size()) {
      values.push_back(args[++i]);
    } else {
      return absl::InvalidArgumentError(absl::StrCat("option ", a, " needs a value: ", option->value));
    }
  }
  return out;
}

absl::StatusOr<CommandLine> CommandLine::Parse(const std::vector<std::string>& args,
                                               const std::vector<std::string>& options,
                                               const std::vector<std::string>& flags) {
  CommandSpec spec;
  for (const std::string& name : options) spec.options.push_back({.name = name, .value = "VALUE", .help = ""});
  for (const std::string& name : flags) spec.options.push_back({.name = name, .help = ""});
  return Parse(args, spec);
}

std::string CommandLine::Get(absl::string_view name, absl::string_view fallback) const {
  auto it = values_.find(std::string(name));
  return it == values_.end() ? std::string(fallback) : it->second.back();
}

std::vector<std::string> CommandLine::GetAll(absl::string_view name) const {
  auto it = values_.find(std::string(name));
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

absl::StatusOr<int64_t> CommandLine::GetInt(absl::string_view name, int64_t fallback, int64_t min, int64_t max) const {
  auto it = values_.find(std::string(name));
  if (it == values_.end()) return fallback;
  const std::string& text = it->second.back();
  int64_t v;
  if (!absl::SimpleAtoi(text, &v) || v < min || v > max) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", text, ": a whole number from ", min, " to ", max, " expected"));
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
    return absl::InvalidArgumentError(absl::StrCat(Dashed(name), " has no effect ", where));
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
    for (const std::string& value : GetAll(option)) {
      for (absl::string_view file : absl::StrSplit(value, ',', absl::SkipEmpty())) taken.emplace_back(file);
    }
  }
  for (const std::string& option : writes) {
    if (Has(option) && files(option).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Dashed(option), " is empty: the name of a file to write expected"));
    }
    for (std::string& file : files(option)) {
      if (file == "-") {
        return absl::InvalidArgumentError(absl::StrCat(
            Dashed(option), " -: the name of a file to write expected, such as ", "/dev/stdout for standard output"));
      }
      for (const std::string& other : taken) {
        if (!AreOneFile(file, other)) continue;
        return absl::InvalidArgumentError(absl::StrCat(Dashed(option), "=", file,
                                                       ": another file expected: this one is also \"", other,
                                                       "\", which would be lost"));
      }
      taken.push_back(std::move(file));
    }
  }
  return absl::OkStatus();
}

bool IsModelPath(absl::string_view path) {
  return absl::EndsWith(path, ".pt2") || absl::EndsWith(path, ".ir") || absl::EndsWith(path, ".smg");
}

absl::Status WithHowToCompile(const absl::Status& error, absl::string_view path) {
  if (error.ok() || absl::IsNotFound(error) || !IsModelPath(path)) return error;
  const absl::string_view name = path.substr(path.rfind('/') + 1);  // all of it where there is no slash
  return absl::Status(error.code(), absl::StrCat(error.message(), "; smelt compile ", path, " -o ",
                                                 name.substr(0, name.rfind('.')), ".smb makes a bundle of it"));
}

int UsageError(const CommandSpec& command, const absl::Status& wrong) {
  const char* begin = "usage:";
  for (const std::string& usage : command.usage) {
    std::fprintf(stderr, "%s %s %s\n", begin, command.FullName().c_str(), usage.c_str());
    begin = "      ";
  }
  std::fprintf(stderr, "%s --help explains the options.\n%s: %s\n", command.FullName().c_str(),
               command.FullName().c_str(), std::string(wrong.message()).c_str());
  return kExitUsage;
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
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (!line.empty() && line[0] != '#') out.push_back(std::string(line));
    }
  }
  return out;
}

}  // namespace smelt
