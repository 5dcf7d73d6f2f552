// Samples from and to case files (docs/case_files.md).
#ifndef SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_
#define SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// The arguments of each call of a case. Unimplemented for a call whose argument lives in memory that an earlier call
// made.
absl::StatusOr<std::vector<Call>> ReadCaseCalls(const std::string& path);

// One call, and what `seen` says a caller sees of it. FailedPrecondition in seen.status: that it must be refused.
absl::Status WriteCase(const Sample& sample, const Seen& seen, const std::string& model_name, const std::string& path);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_
