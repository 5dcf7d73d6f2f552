// The arguments of calls as the command line gives them (ArgumentOptions of the command table): tensors from files by
// name, single values in text, and random ones for the rest.
//
//   SMELT_ASSIGN_OR_RETURN(ArgumentSource source, ReadArgumentSource(line));        // wrong usage
//   SMELT_ASSIGN_OR_RETURN(auto maker, ArgumentMaker::Create("net.smb", program, source));
//   SMELT_ASSIGN_OR_RETURN(std::vector<Datum> args, maker->Make(/*call=*/0, source.sizes));
#ifndef SMELT_TOOLS_CALL_ARGUMENTS_H_
#define SMELT_TOOLS_CALL_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/tensor_files.h"

namespace smelt {

using SymbolSizes = std::map<std::string, int64_t>;

struct ArgumentSource {
  std::vector<std::string> files;                           // each is a call
  std::vector<std::pair<std::string, std::string>> values;  // NAME and VALUE of --input, for every call
  std::optional<uint64_t> seed;                             // of random values for the rest; none: an error
  std::map<std::string, std::vector<int64_t>> sizes;        // of symbols; several of one are for smelt bench

  // The first size of each symbol.
  SymbolSizes FirstSizes() const;
};
// InvalidArgument is wrong usage.
absl::StatusOr<ArgumentSource> ReadArgumentSource(const CommandLine& line);

// Returns the program of the method that --method names, or the program itself if it has one method. InvalidArgument
// lists the methods.
absl::StatusOr<std::shared_ptr<const Program>> ChosenMethod(const std::shared_ptr<const Program>& program,
                                                            const CommandLine& line);

// "x", or "d.k" for d["k"]: where the caller has an argument.
const std::string& CallerName(const ArgInfo& arg);

// "float32 [s0, 20]", "int"; with ranges in place of symbols: "float32 [1..4096, 20]".
std::string TypeText(const ArgInfo& arg, bool with_ranges);

// Reads VALUE of --input NAME=VALUE for an argument. InvalidArgument says what would fit.
absl::StatusOr<Datum> ParseValue(const ArgInfo& arg, absl::string_view text);

class ArgumentMaker {
 public:
  // Reads the files. `program` has one method, of the bundle in that file. InvalidArgument: an argument is named that
  // the model lacks, or a size.
  static absl::StatusOr<std::unique_ptr<ArgumentMaker>> Create(const std::string& bundle,
                                                               std::shared_ptr<const Program> program,
                                                               const ArgumentSource& source);

  // Returns fresh tensors and values. `sizes` of symbols are for random ones. InvalidArgument names an argument that
  // nothing gives, and what the files have instead.
  absl::StatusOr<std::vector<Datum>> Make(size_t call, const SymbolSizes& sizes) const;

  size_t num_calls() const { return files_.empty() ? 1 : files_.size(); }
  // Sentences about what is given and not used.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  ArgumentMaker() = default;
  absl::Status CheckNames();
  absl::StatusOr<std::optional<Datum>> Given(int arg, size_t call) const;
  // Adds a random value for each argument without one.
  absl::Status FillIn(size_t call, const SymbolSizes& sizes, std::vector<std::optional<Datum>>& args) const;
  std::string WhyMissing(int arg, size_t call) const;

  std::shared_ptr<const Program> program_;
  std::unique_ptr<fb::BundleT> bundle_;
  std::vector<NamedTensors> files_;
  std::map<int, Datum> values_;  // by argument
  std::optional<uint64_t> seed_;
  std::vector<std::string> warnings_;
};

}  // namespace smelt

#endif  // SMELT_TOOLS_CALL_ARGUMENTS_H_
