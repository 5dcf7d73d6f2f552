// Finds the models that a batch converts, and the path of each bundle.
#ifndef SMELT_TOOLS_CONVERT_INPUTS_H_
#define SMELT_TOOLS_CONVERT_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/tools/method_files.h"

namespace smelt {

struct ConvertInput {
  std::string path;               // of the model, or of a folder of methods
  std::string relative;           // of the bundle within the output folder, without ".smb"
  std::vector<MethodFile> files;  // the model, without a name; of a folder the methods, ordered by name
  int64_t bytes = 0;              // of all files
  std::string missing;            // why there is no such file; only with `keep_going`
};

// A folder stands for all models in it, at any depth and behind symbolic links, with their paths in the folder. A folder
// NAME.methods is one bundle, NAME.smb, and the models directly in it are its methods, called as their files are. Links
// that are left out (a link back to a parent folder, or one that leads nowhere) are reported on standard error. A file
// stands for itself, with the path as given (for an absolute path, or one that leaves the working directory: with its
// name). Ordered by `relative`. NotFound for a missing path, unless `keep_going` makes it an input without a model;
// InvalidArgument for two models that would become one
// bundle or method, naming both, for a file of another kind, for a file whose name is no method's, and if there are no
// models at all or in a folder of methods.
absl::StatusOr<std::vector<ConvertInput>> FindConvertInputs(const std::vector<std::string>& paths, bool keep_going);

// One of several equal parts of a batch, for machines or processes that share the work without talking to each other.
struct ConvertShard {
  int64_t number = 1;  // from 1 to `count`
  int64_t count = 1;

  // Each model is in exactly one shard. Its name alone decides in which one, so other models may come and go.
  bool Holds(const ConvertInput& input) const;
};

// Reads "I/N", two integers with 1 <= I <= N <= 1,000,000. InvalidArgument for anything else.
absl::StatusOr<ConvertShard> ParseConvertShard(absl::string_view text);

}  // namespace smelt

#endif  // SMELT_TOOLS_CONVERT_INPUTS_H_
