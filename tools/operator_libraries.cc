#include "smelt/tools/operator_libraries.h"

#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "smelt/runtime/smelt.h"

namespace smelt {

absl::Status LoadOperatorLibraries(const CommandLine& line) {
  for (const absl::string_view path : absl::StrSplit(line.Get("op-library"), ',', absl::SkipEmpty())) {
    const smelt_status loaded = smelt_operator_library_load(std::string(path).c_str());
    // The C interface has the codes of absl::Status.
    if (loaded != SMELT_OK) return absl::Status(static_cast<absl::StatusCode>(loaded), smelt_last_error());
  }
  return absl::OkStatus();
}

}  // namespace smelt
