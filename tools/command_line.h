// Parses options of smelt's commands: --name=value, --name value, --flag; -- ends them. @FILE is replaced by the file's
// lines, one argument each.
#ifndef SMELT_TOOLS_COMMAND_LINE_H_
#define SMELT_TOOLS_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/tools/command_table.h"

namespace smelt {

class CommandLine {
 public:
  // InvalidArgument for an option that the command lacks, and the one that is probably meant.
  static absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& args, const CommandSpec& command);
  // For programs that are no part of a package: `options` are the names that take a value, `flags` those that do not.
  static absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& args,
                                           const std::vector<std::string>& options,
                                           const std::vector<std::string>& flags);
  const std::vector<std::string>& positional() const { return positional_; }
  bool Has(absl::string_view name) const { return values_.count(std::string(name)) != 0; }
  // The value that was given last. A flag's is "true", as is that of an option whose value is optional and lacks.
  std::string Get(absl::string_view name, absl::string_view fallback = "") const;
  // All values, in the order in which they were given.
  std::vector<std::string> GetAll(absl::string_view name) const;
  // InvalidArgument if it is not an integer in [min, max].
  absl::StatusOr<int64_t> GetInt(absl::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  // InvalidArgument if one of these options was given, because it would have no effect. `where` names the reason: "with
  // --inputs".
  absl::Status RefuseWithoutEffect(const std::vector<std::string>& names, absl::string_view where) const;
  // InvalidArgument if a file that an option of `writes` names is also that of another of these options, or is read: as
  // a positional argument, or by an option of `reads`; or if it has no name, or "-". Several files are separated by commas.
  // Devices may be shared. Positional arguments are files from `first_file` on.
  absl::Status CheckFiles(const std::vector<std::string>& reads, const std::vector<std::string>& writes,
                          size_t first_file = 0) const;

 private:
  std::vector<std::string> positional_;
  std::map<std::string, std::vector<std::string>> values_;
};

// Prints how a command is used in a few lines, and what is wrong as the last one. Returns the exit code.
int UsageError(const CommandSpec& command, const absl::Status& wrong);

// Returns whether a path ends as models' files do: .pt2, .ir, .smg.
bool IsModelPath(absl::string_view path);

// Adds to an error of reading a bundle how one is made, if the path is a model's: "...; smelt compile m.pt2 -o m.smb
// makes a bundle of it".
absl::Status WithHowToCompile(const absl::Status& error, absl::string_view path);

// Returns whether two paths lead to the same regular file, or would if it existed.
bool AreOneFile(const std::string& a, const std::string& b);

// Returns argv[1..] with @FILE replaced by the lines of FILE, without empty lines and those that begin with #.
absl::StatusOr<std::vector<std::string>> ExpandParamsFiles(int argc, char** argv);

}  // namespace smelt

#endif  // SMELT_TOOLS_COMMAND_LINE_H_
