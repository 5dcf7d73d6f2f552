// Parses options of smelt's commands: --name=value, --name value, --flag; @FILE is replaced by the file's lines, one
// argument each.
#ifndef SMELT_TOOLS_COMMAND_LINE_H_
#define SMELT_TOOLS_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

class CommandLine {
 public:
  // `options` are the names that take a value, `flags` those that do not. InvalidArgument names an unknown option, and
  // the known ones.
  static absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& args,
                                           const std::vector<std::string>& options,
                                           const std::vector<std::string>& flags);
  const std::vector<std::string>& positional() const { return positional_; }
  bool Has(absl::string_view name) const { return values_.count(std::string(name)) != 0; }
  std::string Get(absl::string_view name, absl::string_view fallback = "") const;
  // InvalidArgument if it is not an integer in [min, max].
  absl::StatusOr<int64_t> GetInt(absl::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  // InvalidArgument if one of these options was given, because it would have no effect. `where` names the reason: "with
  // --inputs".
  absl::Status RefuseWithoutEffect(const std::vector<std::string>& names, absl::string_view where) const;
  // InvalidArgument if a file that an option of `writes` names is also that of another of these options, or is read: as
  // a positional argument, or by an option of `reads`; or if it has no name. Several files are separated by commas.
  // Devices may be shared. Positional arguments are files from `first_file` on.
  absl::Status CheckFiles(const std::vector<std::string>& reads, const std::vector<std::string>& writes,
                          size_t first_file = 0) const;

 private:
  std::vector<std::string> positional_;
  std::map<std::string, std::string> values_;
};

// Returns whether two paths lead to the same regular file, or would if it existed.
bool AreOneFile(const std::string& a, const std::string& b);

// Returns argv[1..] with @FILE replaced by the lines of FILE.
absl::StatusOr<std::vector<std::string>> ExpandParamsFiles(int argc, char** argv);

}  // namespace smelt

#endif  // SMELT_TOOLS_COMMAND_LINE_H_
